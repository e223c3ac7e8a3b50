"""What a hub sees of an engine: all that is its own, in two calls, if it is its engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from codehub.adapters.docker import DockerRuntime
from codehub.adapters.docker.labels import (
    HUB,
    NAME,
    container_labels,
    container_name,
    read_container,
)
from codehub.errors import Unreachable, VolumeInUse
from codehub.model.runtime import VolumeRef
from tests.contract.docker_proxy import Asked, engine_proxy
from tests.contract.docker_world import provide_bench, provide_docker_world  # noqa: F401
from tests.contract.runtime_world import (
    LONG,
    is_running,
    leads,
    new_volume,
    request_for,
    seen,
    started,
    volume_names,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.contract.docker_world import DockerWorld

pytestmark = pytest.mark.anyio


def leftover(world: DockerWorld, ref: VolumeRef, name: str | None = None) -> str:
    """A container with all our labels that was made and never started, as a dead leader's."""
    labels = container_labels(world.hub_id, request_for(world, ref, ""))
    return world.foreign_container(name or container_name(ref.workspace_id), Labels=labels)


# ---- Two calls ----


@pytest.mark.parametrize("count", [0, 1, 12])
async def test_a_listing_takes_two_calls_whatever_there_is(
    docker_world: DockerWorld, count: int
) -> None:
    with engine_proxy() as proxy:
        runtime = docker_world.open(base_url=proxy.base_url)
        refs = [VolumeRef(uuid4(), 1) for _ in range(count)]
        for ref in refs:
            await docker_world.open().create_volume(ref)
            leftover(docker_world, ref)
        await runtime.list()
        proxy.asked.clear()

        listing = await runtime.list()

        assert proxy.asked == [Asked("GET", "/volumes"), Asked("GET", "/containers/json")]
    assert {each.workspace_id for each in listing.containers} == {
        each.workspace_id for each in refs
    }
    assert {each.name for each in listing.volumes} == {each.name for each in refs}


async def test_the_marker_is_not_a_home(docker_world: DockerWorld) -> None:
    listing = await docker_world.open().list()

    assert listing.volumes == ()


# ---- What counts as ours ----


async def test_labels_without_the_name_that_goes_with_them_are_not_ours(
    docker_world: DockerWorld,
) -> None:
    """A container of an image that was made of ours has our labels too."""
    runtime, request = await started(docker_world)
    leftover(docker_world, VolumeRef(request.workspace_id, 1), f"copy-{uuid4()}")
    docker_world.client.create_volume(
        f"copy-{uuid4()}",
        labels={HUB: docker_world.hub_id, "dev.codehub.workspace": str(uuid4())},
    )

    container = await seen(runtime, request.workspace_id)
    assert container is not None
    assert container.running
    assert await volume_names(runtime) == {request.volume.name}


async def test_a_workspace_under_another_name_is_not_joined_by_a_second_one(
    docker_world: DockerWorld,
) -> None:
    runtime, request = await started(docker_world)
    docker_world.client.rename(container_name(request.workspace_id), f"renamed-{uuid4()}")

    with pytest.raises(VolumeInUse, match="renamed-"):
        await runtime.start(replace(request, op_id=uuid4()), leads)
    with pytest.raises(VolumeInUse, match="renamed-"):
        await runtime.require_unused(request.volume)


async def test_a_paused_workspace_runs_and_can_be_stopped(docker_world: DockerWorld) -> None:
    runtime, request = await started(docker_world)
    docker_world.client.pause(container_name(request.workspace_id))

    assert await is_running(runtime, request.workspace_id)
    await runtime.stop(request.workspace_id, LONG)

    assert (await runtime.list()).containers == ()


@pytest.mark.parametrize(
    ("state", "status", "running", "code"),
    [
        ("running", "Up 3 minutes", True, None),
        ("running", "Up 2 hours (healthy)", True, None),
        ("paused", "Up 2 hours (Paused)", True, None),
        ("exited", "Exited (0) 2 days ago", False, 0),
        ("exited", "Exited (137) Less than a second ago", False, 137),
        ("created", "Created", False, None),
        ("removing", "Removal In Progress", False, None),
        ("dead", "Dead", False, None),
    ],
)
def test_the_engines_words_for_a_container(
    state: str, status: str, running: bool, code: int | None
) -> None:
    workspace_id = uuid4()
    entry = {
        "Names": [f"/ws-{workspace_id}"],
        "Labels": {"dev.codehub.workspace": str(workspace_id)},
        "State": state,
        "Status": status,
        "Created": 0,
    }

    container = read_container(entry)

    assert container is not None
    assert (container.running, container.exit_code) == (running, code)


@pytest.mark.parametrize("labels", [None, {}, {"dev.codehub.workspace": "x"}])
def test_labels_that_cannot_be_read_are_nobodys(labels: dict[str, str] | None) -> None:
    entry = {"Names": ["/x"], "Labels": labels, "State": "running", "Status": "", "Created": 0}

    assert read_container(entry) is None


async def test_a_home_bears_the_name_of_its_workspace(docker_world: DockerWorld) -> None:
    runtime = docker_world.open()
    ref = VolumeRef(uuid4(), 1, "payments")

    await runtime.create_volume(ref)

    assert docker_world.client.inspect_volume(ref.name)["Labels"][NAME] == "payments"
    assert [each.workspace_name for each in (await runtime.list()).volumes] == ["payments"]


@pytest.mark.parametrize("called", ["", "payments"], ids=["nothing", "something else"])
async def test_a_home_is_the_hubs_whatever_its_workspace_was_called(
    docker_world: DockerWorld, called: str
) -> None:
    runtime = docker_world.open()
    ref = VolumeRef(uuid4(), 1, called)
    await runtime.create_volume(ref)
    now = VolumeRef(ref.workspace_id, 1, "billing")

    await runtime.create_volume(now)

    assert await runtime.volume_path(now) == docker_world.home(ref)
    await runtime.delete_volume(now)
    assert (await runtime.list()).volumes == ()


# ---- The engine that the hub knows ----

CALLS: dict[str, Callable[[DockerRuntime, VolumeRef], Awaitable[object]]] = {
    "list": lambda runtime, ref: runtime.list(),
    "create_volume": lambda runtime, ref: runtime.create_volume(ref),
    "delete_volume": lambda runtime, ref: runtime.delete_volume(ref),
    "volume_path": lambda runtime, ref: runtime.volume_path(ref),
    "stop": lambda runtime, ref: runtime.stop(ref.workspace_id, LONG),
    "upstream": lambda runtime, ref: runtime.upstream(ref.workspace_id),
    "stats": lambda runtime, ref: runtime.stats(ref.workspace_id),
    "claim": lambda runtime, ref: runtime.claim(expects_data=True),
}


@pytest.mark.parametrize("name", CALLS)
async def test_on_another_engine_nothing_is_absent_and_nothing_is_made(
    docker_world: DockerWorld, name: str
) -> None:
    docker_world.client.remove_volume(docker_world.marker)
    before = {each["Name"] for each in docker_world.client.volumes()["Volumes"]}

    with pytest.raises(Unreachable, match="not the Docker engine of this hub"):
        await CALLS[name](docker_world.open(), VolumeRef(uuid4(), 1))

    after = {each["Name"] for each in docker_world.client.volumes()["Volumes"]}
    assert docker_world.marker not in after
    assert not {each for each in after - before if each.startswith("ws-")}


async def test_a_start_on_another_engine_is_not_the_workspaces_fault(
    docker_world: DockerWorld,
) -> None:
    docker_world.client.remove_volume(docker_world.marker)
    request = request_for(docker_world, VolumeRef(uuid4(), 1), "true")

    with pytest.raises(Unreachable):
        await docker_world.open().start(request, leads)


async def test_a_start_makes_no_network_on_an_engine_without_the_mark(
    docker_world: DockerWorld,
) -> None:
    runtime = docker_world.open(network=None)
    request = request_for(docker_world, await new_volume(runtime), "true")
    docker_world.client.remove_volume(docker_world.marker)

    with pytest.raises(Unreachable, match="not the Docker engine of this hub"):
        await runtime.start(request, leads)

    assert docker_world.client.networks(names=[f"codehub-{docker_world.hub_id}"]) == []


async def test_the_marker_made_by_hand_as_the_hint_says_is_one(docker_world: DockerWorld) -> None:
    runtime = docker_world.open()
    docker_world.client.remove_volume(docker_world.marker)
    with pytest.raises(Unreachable) as failure:
        await runtime.list()
    hint = failure.value.hint or ""
    *_, option, name = hint.rstrip("'").split()
    key, _, value = option.partition("=")

    docker_world.client.create_volume(name, labels={key: value})

    assert (await runtime.list()).volumes == ()


async def test_an_engine_is_claimed_once_and_known_again(docker_world: DockerWorld) -> None:
    marker = docker_world.client.inspect_volume(docker_world.marker)

    await docker_world.open().claim(expects_data=False)
    await docker_world.open().claim(expects_data=True)

    assert docker_world.client.inspect_volume(docker_world.marker) == marker
    assert marker["Labels"]["dev.codehub.engine"] == docker_world.client.info()["ID"]


@pytest.mark.parametrize("hub_id", ["", "a/b", "../x", "a b", "a\nb", "-x"])
def test_a_hub_id_fits_into_names(hub_id: str) -> None:
    with pytest.raises(ValueError, match="hub id"):
        DockerRuntime(hub_id)


async def test_volumes_of_a_remote_engine_have_no_path_here(docker_world: DockerWorld) -> None:
    runtime = docker_world.open(base_url="tcp://127.0.0.1:1")

    assert not runtime._site.engine.is_local
    with pytest.raises(Unreachable):
        await runtime.volume_path(VolumeRef(UUID(int=1), 1))


# ---- The engine is met when it is first listed ----


async def test_a_new_engine_becomes_the_hubs_when_it_is_first_listed(
    docker_world: DockerWorld,
) -> None:
    docker_world.client.remove_volume(docker_world.marker)
    runtime = docker_world.open(expects_data=_answer(False))
    assert (await runtime.list()).volumes == ()
    assert docker_world.client.inspect_volume(docker_world.marker)["Name"] == docker_world.marker


async def test_an_engine_without_the_homes_that_are_recorded_is_another_one(
    docker_world: DockerWorld,
) -> None:
    docker_world.client.remove_volume(docker_world.marker)
    runtime = docker_world.open(expects_data=_answer(True))
    for _ in range(2):
        with pytest.raises(Unreachable, match="not the Docker engine of this hub"):
            await runtime.list()
    await docker_world.open().claim(expects_data=False)
    assert (await runtime.list()).volumes == ()


async def test_an_engine_that_was_away_is_met_when_it_is_back(
    docker_world: DockerWorld, tmp_path: Path
) -> None:
    docker_world.client.remove_volume(docker_world.marker)
    socket = tmp_path / "engine.sock"
    runtime = docker_world.open(base_url=f"unix://{socket}", expects_data=_answer(False))
    with pytest.raises(Unreachable):
        await runtime.list()
    socket.symlink_to("/var/run/docker.sock")
    assert (await runtime.list()).containers == ()


async def test_an_engine_that_nobody_needs_is_left_alone(docker_world: DockerWorld) -> None:
    docker_world.client.remove_volume(docker_world.marker)
    runtime = docker_world.open(expects_data=_answer(None))
    with pytest.raises(Unreachable, match="needed"):
        await runtime.list()
    assert docker_world.client.volumes(filters={"name": docker_world.marker})["Volumes"] == []


def _answer(expected: bool | None) -> Callable[[], Awaitable[bool | None]]:
    async def answer() -> bool | None:
        return expected

    return answer
