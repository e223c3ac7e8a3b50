"""What the contract tests of runtimes stand on: a world, and questions about its state."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol
from uuid import UUID, uuid4

from codehub.model.runtime import ContainerSeen, StartRequest, Upstream, VolumeRef

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from codehub.ports import Runtime

PATIENCE = 30.0
LONG = timedelta(seconds=PATIENCE)
SHORT = timedelta(milliseconds=300)


class World(Protocol):
    """A runtime in real surroundings. Whatever a test starts, the fixture ends."""

    serve: str
    """A shell command that stays in the foreground and answers HTTP on $PORT."""
    image: str | None
    """The image that has it, where there are images."""

    def open(self) -> Runtime:
        """The runtime as a hub that has just started sees it."""

    async def foreign_volume(self, ref: VolumeRef) -> None:
        """Put something there that has the name of our volume and is not ours."""

    async def foreign_is_intact(self, ref: VolumeRef) -> bool: ...

    async def kill(self, workspace_id: UUID) -> None:
        """Kill the running workspace as a person would, with SIGKILL."""

    async def read(self, ref: VolumeRef, name: str) -> str | None:
        """A file of the home; None when it is not there."""

    async def write(self, ref: VolumeRef, name: str, content: str) -> None: ...

    def another_hub(self) -> AbstractAsyncContextManager[None]:
        """Inside, the identity marker names another hub."""


async def eventually(check: Callable[[], Awaitable[object]], what: str) -> None:
    """Wait until the state of the world is as it must become."""
    deadline = time.monotonic() + PATIENCE
    while not await check():
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.02)


async def leads() -> None:
    """We still lead."""


def request_for(
    world: World,
    volume: VolumeRef,
    script: str,
    *,
    env: Mapping[str, str] | None = None,
) -> StartRequest:
    return StartRequest(
        workspace_id=volume.workspace_id,
        name="payments-api",
        volume=volume,
        op_id=uuid4(),
        template_digest="sha256:t1",
        command=("sh", "-c", script),
        env=env or {},
        port=8080,
        image=world.image,
        base_path="/w/payments-api/",
    )


async def new_volume(runtime: Runtime) -> VolumeRef:
    ref = VolumeRef(uuid4(), 1)
    await runtime.create_volume(ref)
    return ref


async def started(world: World, script: str | None = None) -> tuple[Runtime, StartRequest]:
    """A runtime with one running workspace in a new home."""
    runtime = world.open()
    request = request_for(world, await new_volume(runtime), script or f"exec {world.serve}")
    await runtime.start(request, leads)
    return runtime, request


async def seen(runtime: Runtime, workspace_id: UUID) -> ContainerSeen | None:
    found = [
        each for each in (await runtime.list()).containers if each.workspace_id == workspace_id
    ]
    assert len(found) <= 1, "one workspace is one container"
    return found[0] if found else None


async def is_running(runtime: Runtime, workspace_id: UUID) -> bool:
    container = await seen(runtime, workspace_id)
    return container is not None and container.running


async def volume_names(runtime: Runtime) -> set[str]:
    return {each.name for each in (await runtime.list()).volumes}


async def answers(upstream: Upstream | None) -> bool:
    if upstream is None:
        return False
    try:
        reader, writer = await asyncio.open_connection(upstream.host, upstream.port)
    except OSError:
        return False
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        return (await reader.readline()).startswith(b"HTTP/1.")
    finally:
        writer.close()


async def text_of(chunks: AsyncIterator[bytes]) -> str:
    return b"".join([chunk async for chunk in chunks]).decode()
