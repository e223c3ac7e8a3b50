"""An engine that is away, slow, wrong, or does what it is asked and never says so."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from docker.errors import APIError

from codehub.adapters.docker.translate import explain_act
from codehub.errors import ActionFailed, Unreachable
from codehub.model.runtime import VolumeRef
from tests.contract.docker_proxy import Harm, asked, engine_proxy
from tests.contract.docker_world import provide_bench, provide_docker_world  # noqa: F401
from tests.contract.runtime_world import (
    LONG,
    answers,
    eventually,
    is_running,
    leads,
    new_volume,
    request_for,
    seen,
    started,
    volume_names,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from codehub.adapters.docker import DockerRuntime
    from tests.contract.docker_proxy import Proxy
    from tests.contract.docker_world import DockerWorld

pytestmark = pytest.mark.anyio

STREAMS = "docker-stream"

CALLS: dict[str, Callable[[DockerRuntime, VolumeRef], Awaitable[Any]]] = {
    "claim": lambda runtime, ref: runtime.claim(expects_data=False),
    "list": lambda runtime, ref: runtime.list(),
    "create_volume": lambda runtime, ref: runtime.create_volume(ref),
    "stop": lambda runtime, ref: runtime.stop(ref.workspace_id, LONG),
    "delete_volume": lambda runtime, ref: runtime.delete_volume(ref),
    "volume_path": lambda runtime, ref: runtime.volume_path(ref),
    "upstream": lambda runtime, ref: runtime.upstream(ref.workspace_id),
    "stats": lambda runtime, ref: runtime.stats(ref.workspace_id),
    "logs": lambda runtime, ref: anext(runtime.logs(ref.workspace_id, lines=1, follow=False)),
    "events": lambda runtime, ref: anext(runtime.events()),
}


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with engine_proxy() as proxy:
        yield proxy


# ---- Nobody answers ----


@pytest.mark.parametrize("name", CALLS)
async def test_without_an_engine_nothing_is_known(
    docker_world: DockerWorld, tmp_path: Path, name: str
) -> None:
    runtime = docker_world.open(base_url=f"unix://{tmp_path}/engine.sock")

    with pytest.raises(Unreachable) as failure:
        await CALLS[name](runtime, VolumeRef(uuid4(), 1))

    assert failure.value.hint == "is the Docker engine running?"


async def test_an_engine_that_hangs_is_unknown_and_known_again_when_it_goes_on(
    docker_world: DockerWorld, proxy: Proxy
) -> None:
    runtime = docker_world.open(base_url=proxy.base_url, look_seconds=0.3, act_seconds=5)
    ref = await new_volume(docker_world.open())
    proxy.harm("GET", "/volumes", Harm.HANG)

    with pytest.raises(Unreachable, match="in time"):
        await runtime.list()

    proxy.release()
    patient = docker_world.open(base_url=proxy.base_url)
    assert await volume_names(patient) == {ref.name}


@pytest.mark.parametrize("harm", [Harm.CUT, Harm.TRUNCATE, Harm.GARBAGE, Harm.REFUSE])
@pytest.mark.parametrize("path", ["/volumes", "/containers/json"])
async def test_a_listing_is_whole_or_unknown(
    docker_world: DockerWorld, proxy: Proxy, path: str, harm: Harm
) -> None:
    runtime = docker_world.open(base_url=proxy.base_url)
    ref = await new_volume(runtime)
    proxy.harm("GET", path, harm)

    with pytest.raises(Unreachable):
        await runtime.list()

    proxy.heal()
    assert await volume_names(runtime) == {ref.name}


async def test_an_engine_of_another_version_is_asked_which_it_is(
    docker_world: DockerWorld, proxy: Proxy
) -> None:
    runtime = docker_world.open(base_url=proxy.base_url)
    await runtime.list()
    proxy.harm("GET", "/volumes", Harm.TOO_OLD, times=1)
    proxy.asked.clear()

    with pytest.raises(Unreachable):
        await runtime.list()
    await runtime.list()

    assert [each.path for each in proxy.asked] == [
        "/volumes",
        "/version",
        "/volumes",
        "/containers/json",
    ]


@pytest.mark.parametrize(
    ("status", "said", "error", "words"),
    [
        (409, "the name is taken", ActionFailed, "the name is taken"),
        (500, "OCI runtime create failed: no such\nthing", ActionFailed, "no such thing"),
        (500, "write /x: no space left on device", ActionFailed, "disk is full"),
        (500, "context deadline exceeded", Unreachable, "cannot be reached"),
        (500, "rpc error: code = Unavailable desc = transport", Unreachable, "cannot be reached"),
        (503, "later", Unreachable, "cannot be reached"),
    ],
)
def test_the_engines_refusals_and_its_own_troubles(
    status: int, said: str, error: type[Exception], words: str
) -> None:
    response = SimpleNamespace(status_code=status, url="http://engine/", reason="")

    explained = explain_act(APIError("no", response=response, explanation=said))

    assert isinstance(explained, error)
    assert words in explained.message


# ---- Done, and the answer lost ----


async def test_a_start_whose_answer_was_lost_is_found_by_the_next_one(
    docker_world: DockerWorld, proxy: Proxy
) -> None:
    runtime = docker_world.open(base_url=proxy.base_url)
    script = f"echo start >> $HOME/starts; exec {docker_world.serve}"
    request = request_for(docker_world, await new_volume(runtime), script)
    proxy.harm("POST", "/start", Harm.LOSE_ANSWER)

    with pytest.raises(Unreachable):
        await runtime.start(request, leads)
    assert await is_running(runtime, request.workspace_id), "unknown is not failed: it was left"
    await runtime.start(request, leads)

    assert await answers(await runtime.upstream(request.workspace_id))
    assert await docker_world.read(request.volume, "starts") == "start\n"


async def test_a_container_whose_making_was_not_heard_of_is_made_anew(
    docker_world: DockerWorld, proxy: Proxy
) -> None:
    runtime = docker_world.open(base_url=proxy.base_url)
    request = request_for(docker_world, await new_volume(runtime), f"exec {docker_world.serve}")
    proxy.harm("POST", "/containers/create", Harm.LOSE_ANSWER, times=1)

    with pytest.raises(Unreachable):
        await runtime.start(request, leads)
    left = docker_world.container(request.workspace_id)
    assert left["State"]["Status"] == "created"
    container = await seen(runtime, request.workspace_id)
    assert container is not None
    assert not container.running
    await runtime.start(request, leads)

    assert docker_world.container(request.workspace_id)["Id"] != left["Id"]
    assert await is_running(runtime, request.workspace_id)


async def test_a_stop_whose_answer_was_lost_is_finished_by_the_next_one(
    docker_world: DockerWorld, proxy: Proxy
) -> None:
    _, request = await started(docker_world)
    runtime = docker_world.open(base_url=proxy.base_url)
    proxy.harm("POST", "/stop", Harm.LOSE_ANSWER, times=1)

    with pytest.raises(Unreachable):
        await runtime.stop(request.workspace_id, LONG)
    await runtime.stop(request.workspace_id, LONG)

    assert (await runtime.list()).containers == ()
    assert await volume_names(runtime) == {request.volume.name}


async def test_a_volume_whose_end_was_not_heard_of_is_gone_for_the_next_try(
    docker_world: DockerWorld, proxy: Proxy
) -> None:
    runtime = docker_world.open(base_url=proxy.base_url)
    ref = await new_volume(runtime)
    proxy.harm("DELETE", ref.name, Harm.LOSE_ANSWER, times=1)

    with pytest.raises(Unreachable):
        await runtime.delete_volume(ref)
    await runtime.delete_volume(ref)

    assert await volume_names(runtime) == set()


async def test_a_volume_that_goes_while_it_is_mounted_is_never_replaced_by_an_empty_one(
    docker_world: DockerWorld, proxy: Proxy
) -> None:
    runtime = docker_world.open(base_url=proxy.base_url)
    ref = await new_volume(runtime)
    proxy.before("POST", "/containers/create", lambda: docker_world.client.remove_volume(ref.name))

    with pytest.raises(ActionFailed, match="is not there"):
        await runtime.start(
            request_for(docker_world, ref, f"touch $HOME/ran; exec {docker_world.serve}"), leads
        )

    assert docker_world.home(ref) is None, "what the engine made in its place is gone too"
    assert (await runtime.list()).containers == ()


# ---- Streams end ----


async def test_events_end_when_the_runtime_is_closed(
    docker_world: DockerWorld, proxy: Proxy
) -> None:
    runtime = docker_world.open(base_url=proxy.base_url)

    async def listen() -> None:
        async for _ in runtime.events():
            pass

    listener = asyncio.create_task(listen())
    await eventually(lambda: asked(proxy, "/events"), "it listens")
    await runtime.close()

    with pytest.raises(Unreachable):
        await listener
    await eventually(_no_stream, "its thread ends")


async def test_events_end_when_the_engine_goes(docker_world: DockerWorld, proxy: Proxy) -> None:
    runtime = docker_world.open(base_url=proxy.base_url)
    listener = asyncio.ensure_future(anext(runtime.events()))
    await eventually(lambda: asked(proxy, "/events"), "it listens")

    proxy.cut_streams()

    with pytest.raises(Unreachable):
        await listener


async def test_a_listener_that_is_given_up_leaves_no_thread(
    docker_world: DockerWorld, proxy: Proxy
) -> None:
    runtime = docker_world.open(base_url=proxy.base_url)
    listener = asyncio.ensure_future(anext(runtime.events()))
    await eventually(lambda: asked(proxy, "/events"), "it listens")
    assert not await _no_stream()

    listener.cancel()

    await eventually(_no_stream, "its thread ends")


async def test_a_follower_that_has_read_enough_leaves_no_thread(docker_world: DockerWorld) -> None:
    runtime, request = await started(docker_world, f"echo hello; exec {docker_world.serve}")

    async with aclosing(runtime.logs(request.workspace_id, lines=9, follow=True)) as chunks:  # type: ignore[type-var]
        assert await anext(chunks) == b"hello\n"
        assert not await _no_stream()

    await eventually(_no_stream, "its thread ends")


async def _no_stream() -> bool:
    return not any(each.name.startswith(STREAMS) for each in threading.enumerate())
