"""The Docker runtime as a hub of its own on the machine's engine, and hands behind its back."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from docker.errors import NotFound

from codehub.adapters.docker import DockerRuntime
from codehub.adapters.docker.labels import HUB, container_name
from tests.contract.docker_engine import (
    TEST,
    busybox_image,
    engine_client,
    quiet_network,
    remove_labelled,
    require_engine,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import docker

    from codehub.model.runtime import VolumeRef


@dataclass(frozen=True)
class Bench:
    """What the tests of a module share: a client of their own, an image, a network."""

    client: docker.APIClient
    image: str
    network: str


@pytest.fixture(scope="module", name="bench")
def provide_bench() -> Iterator[Bench]:
    require_engine()
    with ExitStack() as stack:
        yield Bench(
            stack.enter_context(engine_client()),
            stack.enter_context(busybox_image()),
            stack.enter_context(quiet_network()),
        )


@pytest.fixture(name="docker_world")
def provide_docker_world(bench: Bench) -> Iterator[DockerWorld]:
    with docker_world(bench) as world:
        yield world


@contextmanager
def docker_world(bench: Bench) -> Iterator[DockerWorld]:
    world = DockerWorld(bench)
    try:
        world.claim()
        yield world
    finally:
        world.end_everything()


class DockerWorld:
    """A hub of this test alone."""

    serve = "httpd -f -p $PORT -h $HOME"

    image: str | None

    def __init__(self, bench: Bench) -> None:
        self.hub_id = str(uuid4())
        self.bench = bench
        self.client = bench.client
        self.image = bench.image
        self.marker = f"codehub-{self.hub_id}-marker"
        self._opened: list[DockerRuntime] = []

    def open(self, **options: Any) -> DockerRuntime:
        runtime = DockerRuntime(self.hub_id, **({"network": self.bench.network} | options))
        self._opened.append(runtime)
        return runtime

    def claim(self) -> None:
        asyncio.run(self.open().claim(expects_data=False))

    def home(self, ref: VolumeRef) -> Path | None:
        try:
            return Path(self.client.inspect_volume(ref.name)["Mountpoint"])
        except NotFound:
            return None

    def container(self, workspace_id: UUID) -> dict[str, Any]:
        """As the engine describes it."""
        found: dict[str, Any] = self.client.inspect_container(container_name(workspace_id))
        return found

    def foreign_container(self, name: str, **config: Any) -> str:
        """A container that is not ours, made and not started."""
        body = {"Image": self.image, "Entrypoint": ["sleep", "600"], "Labels": {TEST: self.hub_id}}
        made = self.client.create_container_from_config({**body, **config}, name)
        return str(made["Id"])

    async def foreign_volume(self, ref: VolumeRef) -> None:
        made = self.client.create_volume(ref.name, labels={TEST: self.hub_id})
        (Path(made["Mountpoint"]) / "precious").write_text("theirs")

    async def foreign_is_intact(self, ref: VolumeRef) -> bool:
        return await self.read(ref, "precious") == "theirs"

    async def kill(self, workspace_id: UUID) -> None:
        name = container_name(workspace_id)
        await asyncio.to_thread(self.client.kill, name)
        await asyncio.to_thread(self.client.wait, name, timeout=60)

    async def read(self, ref: VolumeRef, name: str) -> str | None:
        home = self.home(ref)
        try:
            return (home / name).read_text() if home else None
        except FileNotFoundError:
            return None

    async def write(self, ref: VolumeRef, name: str, content: str) -> None:
        home = self.home(ref)
        assert home is not None
        (home / name).write_text(content)

    @asynccontextmanager
    async def another_hub(self) -> AsyncIterator[None]:
        self.mark("hub-2")
        try:
            yield
        finally:
            self.mark(self.hub_id)

    def mark(self, hub_id: str) -> None:
        """The marker, anew, with this hub in its label."""
        self.client.remove_volume(self.marker)
        self.client.create_volume(self.marker, labels={HUB: hub_id, TEST: self.hub_id})

    def end_everything(self) -> None:
        for runtime in self._opened:
            asyncio.run(runtime.close())
        remove_labelled(self.client, f"{HUB}={self.hub_id}", f"{TEST}={self.hub_id}")
