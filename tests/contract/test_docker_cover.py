"""An image that would cover a part of the home is not started: what is written there would go."""

from __future__ import annotations

import io
import tarfile
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest
from docker.errors import NotFound

from codehub.adapters.docker.labels import container_labels, container_name
from codehub.adapters.docker.recipe import HOME
from codehub.errors import ImagePullFailed
from tests.contract.docker_engine import TEST, busybox_image, busybox_root, imported_image
from tests.contract.docker_proxy import asked, engine_proxy
from tests.contract.docker_world import provide_bench, provide_docker_world  # noqa: F401
from tests.contract.runtime_world import LONG, leads, new_volume, request_for, started

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.adapters.docker import DockerRuntime
    from codehub.model.runtime import StartRequest
    from tests.contract.docker_world import DockerWorld

pytestmark = pytest.mark.anyio


def image_root(links: Mapping[str, str]) -> bytes:
    """The usual root file system with these links in it; what leads nowhere is a directory."""
    target = io.BytesIO(busybox_root())
    with tarfile.open(fileobj=target, mode="a") as archive:
        for name, leads_to in links.items():
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.SYMTYPE if leads_to else tarfile.DIRTYPE
            entry.mode, entry.linkname = 0o755, leads_to
            archive.addfile(entry)
    return target.getvalue()


async def new_request(world: DockerWorld, runtime: DockerRuntime) -> StartRequest:
    return request_for(world, await new_volume(runtime), f"exec {world.serve}")


async def require_nothing_left(
    world: DockerWorld, runtime: DockerRuntime, before: set[str]
) -> None:
    """No container, and no volume but those there were; volumes without a name come and go."""
    assert (await runtime.list()).containers == ()
    assert volumes(world) <= before


def volumes(world: DockerWorld) -> set[str]:
    return {each["Name"] for each in world.client.volumes()["Volumes"]}


@pytest.mark.parametrize(
    "declared",
    [
        f"{HOME}/project",
        f"{HOME}/project/deep/",
        f"{HOME}/../workspace//project",
        HOME.removeprefix("/") + "/project",
    ],
)
async def test_an_image_that_declares_a_volume_in_the_home_is_refused(
    docker_world: DockerWorld, declared: str
) -> None:
    with busybox_image(f"VOLUME {declared}") as image, engine_proxy() as proxy:
        docker_world.image = image
        runtime = docker_world.open(base_url=proxy.base_url)
        request = await new_request(docker_world, runtime)
        before = volumes(docker_world)

        with pytest.raises(ImagePullFailed) as refused:
            await runtime.start(request, leads)

        assert not await asked(proxy, "/containers/create")
        await require_nothing_left(docker_world, runtime, before)
    assert f"declares a volume at {HOME}/project" in refused.value.message
    assert "use an image without that VOLUME" in refused.value.message


@pytest.mark.parametrize(
    ("links", "declared"),
    [
        ({"data": HOME}, "/data/project"),
        ({"home/workspace": "/data", "data": ""}, "/data/project"),
        ({"x": "", "x/y": "", "x/y/z": "/home"}, "/x/y/z"),
    ],
    ids=["a link to the home", "the home is a link", "a link above the home"],
)
async def test_a_volume_that_a_link_leads_to_the_home_is_refused(
    docker_world: DockerWorld, links: dict[str, str], declared: str
) -> None:
    with imported_image(image_root(links), [f"VOLUME {declared}"]) as image:
        docker_world.image = image
        runtime = docker_world.open()
        request = await new_request(docker_world, runtime)
        before = volumes(docker_world)

        with pytest.raises(ImagePullFailed, match=f"declares a volume at {declared}"):
            await runtime.start(request, leads)

        await require_nothing_left(docker_world, runtime, before)


async def test_an_image_that_became_another_one_meanwhile_is_refused(
    docker_world: DockerWorld,
) -> None:
    with ExitStack() as stack:
        docker_world.image = stack.enter_context(busybox_image())
        covering = stack.enter_context(busybox_image(f"VOLUME {HOME}/project"))
        proxy = stack.enter_context(engine_proxy())
        repository, tag = docker_world.image.split(":")
        proxy.before(
            "POST",
            "/containers/create",
            lambda: docker_world.client.tag(covering, repository, tag, force=True),
        )
        runtime = docker_world.open(base_url=proxy.base_url)
        request = await new_request(docker_world, runtime)
        before = volumes(docker_world)

        with pytest.raises(ImagePullFailed, match=f"{HOME}/project"):
            await runtime.start(request, leads)

        await require_nothing_left(docker_world, runtime, before)


@pytest.mark.parametrize(
    ("links", "declared"),
    [
        ({}, HOME),
        ({}, "/home"),
        ({}, "/home/workspaces"),
        ({}, "/var/lib/data"),
        ({"data": f"{HOME}/project"}, "/data"),
    ],
    ids=["the home", "above it", "beside it", "elsewhere", "a link that the home comes to lie on"],
)
async def test_volumes_that_leave_the_home_whole_are_fine(
    docker_world: DockerWorld, links: dict[str, str], declared: str
) -> None:
    made = {"home/workspace": "", "home/workspace/project": ""}
    with imported_image(image_root({**made, **links}), [f"VOLUME {declared}"]) as image:
        docker_world.image = image
        script = (
            f"mkdir -p $HOME/project; echo mine > $HOME/project/notes; exec {docker_world.serve}"
        )
        runtime, request = await started(docker_world, script)
        await runtime.stop(request.workspace_id, LONG)

    assert await docker_world.read(request.volume, "project/notes") == "mine\n"


@pytest.mark.parametrize("way", ["stop", "start"])
async def test_what_an_earlier_start_let_into_such_a_volume_stays_on_the_engine(
    docker_world: DockerWorld, way: str
) -> None:
    """A container as this hub would have made it without the check, with files in it."""
    runtime = docker_world.open()
    request = await new_request(docker_world, runtime)
    ref = request.volume
    container = docker_world.foreign_container(
        container_name(ref.workspace_id),
        Entrypoint=["sh", "-c", f"echo mine > {HOME}/project/notes"],
        Volumes={f"{HOME}/project": {}},
        HostConfig={"Mounts": [{"Type": "volume", "Source": ref.name, "Target": HOME}]},
        Labels={**container_labels(docker_world.hub_id, request), TEST: docker_world.hub_id},
    )
    docker_world.client.start(container)
    docker_world.client.wait(container, timeout=60)
    mounts = docker_world.container(ref.workspace_id)["Mounts"]
    (kept,) = (each["Name"] for each in mounts if each["Destination"] != HOME)
    try:
        if way == "stop":
            await runtime.stop(ref.workspace_id, LONG)
        else:
            await runtime.start(request, leads)
            await runtime.stop(ref.workspace_id, LONG)

        assert kept in volumes(docker_world)
    finally:
        with suppress(NotFound):
            docker_world.client.remove_volume(kept)
