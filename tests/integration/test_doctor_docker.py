"""`codehub doctor` and Docker: engines that are away, closed, foreign, old or far, told apart."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.labels import HUB, NAME
from codehub.adapters.docker.marker import Marker
from codehub.adapters.docker.survey import NoEngine, Survey, survey_engine
from codehub.adapters.docker.volumes import Volumes
from codehub.model.checkup import Health
from codehub.model.runtime import VolumeRef
from codehub.service.check_docker import (
    free_at,
    is_open,
    judge_engine,
    judge_homes,
    judge_space,
)
from codehub.service.check_machine import FULL, SCARCE
from codehub.service.checkup import Place, examine
from tests.contract.docker_engine import SOCKET, engine_client, remove_labelled, require_engine
from tests.contract.docker_proxy import Harm, engine_proxy
from tests.contract.test_local_store import unprivileged
from tests.integration.command_line import run_codehub
from tests.integration.doctor_world import (  # noqa: F401
    about,
    check_up,
    make_docker_hub,
    make_hub,
    readable,
    record,
    text_snapshot,
)
from tests.integration.stored import number

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path
    from uuid import UUID

    from syrupy.assertion import SnapshotAssertion

    from codehub.model.checkup import Finding

PARTS = ("engine", "space", "mark", "homes", "volumes")
ENGINE, SPACE, MARK, HOMES, VOLUMES = (f"Docker {each}" for each in PARTS)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's engine, as one that is new enough."""
    require_engine()
    monkeypatch.setattr("codehub.service.check_docker.SAFE", ())


@pytest.fixture(name="found")
def provide_found(engine: None) -> Survey:
    """What this machine's engine says of itself."""
    return asyncio.run(survey_engine(None, None))


@contextmanager
def marked(hub_id: UUID, *, label: str | None = None) -> Iterator[None]:
    """The engine is this hub's, or bears a mark with another hub's label."""

    async def claim() -> None:
        engine = Engine()
        try:
            await Marker(engine, str(hub_id)).claim(expects_data=False)
        finally:
            engine.close()

    owner = label or str(hub_id)
    with engine_client() as client:
        try:
            if label is None:
                asyncio.run(claim())
            else:
                client.create_volume(f"codehub-{hub_id}-marker", labels={HUB: label})
            yield
        finally:
            remove_labelled(client, f"{HUB}={owner}")


def make_homes(hub_id: UUID, *refs: VolumeRef) -> None:
    """Of a hub that has marked the engine; they go with the mark."""

    async def make() -> None:
        engine = Engine()
        try:
            volumes = Volumes(engine, str(hub_id), Marker(engine, str(hub_id)))
            for ref in refs:
                await volumes.create(ref)
        finally:
            engine.close()

    asyncio.run(make())


@contextmanager
def listener(path: Path, mode: int) -> Iterator[str]:
    """A socket on which nobody ever answers."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(mode)
        server.listen()
        yield f"unix://{path}"


@asynccontextmanager
async def far_engine() -> AsyncIterator[str]:
    """This machine's engine as one that is reached over the network."""

    async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(65536):
            sink.write(piece)
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_unix_connection(SOCKET)
        await asyncio.gather(pipe(reader, ours), pipe(theirs, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def docker_findings(tmp_path: Path, url: str | None, **fields: Any) -> dict[str, Finding]:
    fields = {"docker": True, "docker_asked_for": True} | fields
    return about(check_up(tmp_path, url=url, **fields), "Docker")


# An engine that answers


def test_the_engine_of_this_hub(
    engine: None,
    tmp_path: Path,
    database_url: str,
    found: Survey,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    hub_id = make_docker_hub(database_url)
    record(database_url, home_store_key="ws-home-g1")
    with marked(hub_id):
        told = docker_findings(tmp_path, database_url)
    assert [each.health for each in told.values()] == [Health.OK] * 5
    assert readable(told, root=found.root) == text_snapshot


def test_an_engine_that_is_new_to_the_hub_is_in_order_and_stays_unmarked(
    engine: None, tmp_path: Path, database_url: str
) -> None:
    hub_id = make_docker_hub(database_url)
    told = docker_findings(tmp_path, database_url)
    assert told[MARK].health is Health.OK
    assert "not marked yet" in told[MARK].verdict.message
    with engine_client() as client:
        assert not client.volumes(filters={"label": [f"{HUB}={hub_id}"]})["Volumes"]


def test_an_engine_without_the_homes_it_should_have_is_another_one(
    engine: None,
    tmp_path: Path,
    database_url: str,
    found: Survey,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    make_docker_hub(database_url)
    record(database_url, home_store_key="ws-home-g1")
    told = docker_findings(tmp_path, database_url)
    assert told[MARK].health is Health.PROBLEM
    assert readable(told, root=found.root) == text_snapshot


def test_a_mark_with_another_hubs_label_is_a_problem(
    engine: None, tmp_path: Path, database_url: str
) -> None:
    hub_id = make_docker_hub(database_url)
    with marked(hub_id, label=f"not-{hub_id}"):
        told = docker_findings(tmp_path, database_url)
    assert told[MARK].health is Health.PROBLEM
    assert "not the Docker engine of this hub" in told[MARK].verdict.message


def test_without_a_hub_the_engine_is_judged_and_no_mark_is_asked_for(
    engine: None, tmp_path: Path
) -> None:
    told = docker_findings(tmp_path, None)
    assert set(told) == {ENGINE, SPACE, HOMES}
    assert told[ENGINE].health is Health.OK


def test_homes_on_the_engine_that_no_workspace_has_are_named_and_left(
    engine: None, tmp_path: Path, database_url: str
) -> None:
    hub_id = make_docker_hub(database_url)
    own = VolumeRef(number(1), 1, "api")
    strange = VolumeRef(uuid4(), 3, "payments")
    old = VolumeRef(uuid4(), 1)  # made when volumes did not bear their workspace's name
    with marked(hub_id):
        make_homes(hub_id, own)
        verdict = docker_findings(tmp_path, database_url)[VOLUMES].verdict
        assert verdict.health is Health.OK
        assert verdict.message == "1 on the engine, all of workspaces that are known"
        make_homes(hub_id, strange, old)
        verdict = docker_findings(tmp_path, database_url)[VOLUMES].verdict
        with engine_client() as client:
            assert client.inspect_volume(strange.name)["Labels"][NAME] == "payments"
            assert NAME not in client.inspect_volume(old.name)["Labels"]
    assert verdict.health is Health.WARNING
    assert "2 on the engine with homes of no workspace that is known" in verdict.message
    assert f"payments ({strange.name})" in verdict.message
    assert old.name in verdict.message
    assert own.name not in verdict.message
    assert "docker volume rm" in verdict.fix


def test_a_hub_without_docker_is_not_asked_about_it(tmp_path: Path) -> None:
    assert docker_findings(tmp_path, None, docker=False) == {}


def test_an_engine_far_away_loses_something_of_each_home(
    engine: None,
    tmp_path: Path,
    found: Survey,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    async def scene() -> tuple[Finding, ...]:
        async with far_engine() as address:
            place = Place(
                data=tmp_path,
                embedded=False,
                archive_url=tmp_path.as_uri(),
                docker=True,
                docker_host=address,
            )
            return await examine(place)

    told = about(asyncio.run(scene()), "Docker")
    assert told[HOMES].health is Health.WARNING
    assert "extended attributes" in told[HOMES].verdict.message
    assert readable(told, root=found.root) == text_snapshot


def test_homes_that_only_root_may_read_go_through_the_engine(found: Survey) -> None:
    assert is_open(found) is True
    with unprivileged():
        direct = is_open(found)
        free = free_at(found)
    assert direct is False
    assert free is not None
    verdict = judge_homes(found, direct=direct)
    assert verdict.health is Health.WARNING
    assert f"{found.root}/volumes" in verdict.fix


@pytest.mark.parametrize(
    ("changed", "words", "fix"),
    [
        ({"api": (1, 40), "version": "19.03.15"}, "older than 20.10", "20.10 or newer"),
        ({"api": ()}, "older than 20.10", "20.10 or newer"),
        ({"system": "windows"}, "containers of windows", "Linux containers"),
    ],
)
def test_an_engine_that_cannot_be_used(
    found: Survey, changed: dict[str, Any], words: str, fix: str
) -> None:
    assert judge_engine(found, needed=True).health is Health.OK
    verdict = judge_engine(replace(found, **changed), needed=True)
    assert verdict.health is Health.PROBLEM
    assert words in verdict.message
    assert fix in verdict.fix


SURVEY = Survey(
    address="unix:///var/run/docker.sock",
    is_docker=True,
    version="28.3.3",
    api=(1, 51),
    system="linux",
    root=None,
    is_local=True,
    is_marked=False,
    stranger=None,
    homes=None,
)


def test_another_kind_of_engine_is_judged_by_the_api_it_speaks() -> None:
    podman = replace(SURVEY, is_docker=False, version="4.9.3", api=(1, 41))
    assert judge_engine(podman, needed=True).health is Health.OK


@pytest.mark.parametrize(
    ("version", "health"),
    [
        ("20.10.24+dfsg1", Health.WARNING),
        ("28.3.2", Health.WARNING),
        ("28.3", Health.WARNING),
        ("", Health.WARNING),
        ("28.3.3", Health.OK),
        ("28.10.0-rc.1", Health.OK),
        ("29.0.0", Health.OK),
    ],
)
def test_an_engine_that_opens_loopback_to_its_neighbours_is_warned_of(
    version: str, health: Health
) -> None:
    found = replace(SURVEY, version=version)
    verdict = judge_engine(found, needed=True)
    assert verdict.health is health
    assert ("past the hub's login" in verdict.message) is (health is Health.WARNING)
    assert ("Docker 28.3.3 or newer" in verdict.fix) is (health is Health.WARNING)
    assert judge_engine(found, needed=False).health is Health.OK


def test_this_machines_engine_is_judged_by_its_version(
    found: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judge_engine(found, needed=True).health is Health.OK
    monkeypatch.setattr("codehub.service.check_docker.SAFE", (999,))
    assert judge_engine(found, needed=True).health is Health.WARNING


@pytest.mark.parametrize(
    ("free", "health"),
    [
        (SCARCE, Health.OK),
        (SCARCE - 1, Health.WARNING),
        (FULL, Health.WARNING),
        (FULL - 1, Health.PROBLEM),
        (None, Health.OK),
    ],
)
def test_room_where_the_engine_keeps_its_data(
    found: Survey, free: int | None, health: Health
) -> None:
    verdict = judge_space(found, free)
    assert verdict.health is health
    assert ("make room" in verdict.fix) is (health is not Health.OK)


# An engine that does not


def test_no_engine_is_a_problem_where_one_is_asked_for(
    tmp_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    told = docker_findings(tmp_path, None, docker_host=f"unix://{tmp_path}/none.sock")
    assert told[ENGINE].health is Health.PROBLEM
    assert readable(told, directory=tmp_path) == text_snapshot


def test_no_engine_is_a_problem_where_a_workspace_wants_one(
    tmp_path: Path, database_url: str
) -> None:
    host = f"unix://{tmp_path}/none.sock"
    wanted = {"docker_asked_for": False, "docker_host": host}
    make_hub(database_url)
    assert docker_findings(tmp_path, database_url, **wanted)[ENGINE].health is Health.WARNING
    record(database_url, instance_backend="local-docker", storage_backend="docker-volume")
    assert docker_findings(tmp_path, database_url, **wanted)[ENGINE].health is Health.PROBLEM


def test_a_machine_without_docker_is_in_order_where_nobody_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codehub.adapters.docker.engine._SOCKET", str(tmp_path / "none.sock"))
    told = docker_findings(tmp_path, None, docker_asked_for=False)
    assert told[ENGINE].health is Health.OK
    assert "run as processes" in told[ENGINE].verdict.message


def test_a_socket_without_permission_is_not_an_absent_engine(
    open_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    with listener(open_path / "engine.sock", 0o000) as address, unprivileged():
        me = os.geteuid()
        told = docker_findings(open_path, None, docker_host=address)
    assert told[ENGINE].health is Health.PROBLEM
    assert "may not use" in told[ENGINE].verdict.message
    assert "group" in told[ENGINE].verdict.fix
    if me == 65534:
        assert readable(told, directory=open_path) == text_snapshot


def test_a_socket_that_an_engine_left_behind(
    tmp_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    with listener(tmp_path / "engine.sock", 0o600) as address:
        pass
    told = docker_findings(tmp_path, None, docker_host=address)
    assert told[ENGINE].health is Health.PROBLEM
    assert readable(told, directory=tmp_path) == text_snapshot


def test_an_engine_that_hangs_is_given_up(tmp_path: Path) -> None:
    with (
        listener(tmp_path / "engine.sock", 0o600) as address,
        pytest.raises(NoEngine, match="did not answer in time") as caught,
    ):
        asyncio.run(survey_engine(address, None, seconds=0.2))
    assert "DOCKER_HOST" in (caught.value.hint or "")


@pytest.mark.parametrize("harm", [Harm.GARBAGE, Harm.CUT, Harm.REFUSE])
def test_what_answers_and_is_no_engine(engine: None, tmp_path: Path, harm: Harm) -> None:
    with engine_proxy() as proxy:
        proxy.harm("GET", "/version", harm)
        told = docker_findings(tmp_path, None, docker_host=proxy.base_url)
    assert set(told) == {ENGINE}
    assert told[ENGINE].health is Health.PROBLEM
    assert "0x" not in told[ENGINE].verdict.message
    assert told[ENGINE].verdict.fix


def test_a_far_engine_that_does_not_listen(
    tmp_path: Path,
    text_snapshot: SnapshotAssertion,  # noqa: F811
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    told = docker_findings(tmp_path, None, docker_host=f"tcp://127.0.0.1:{port}")
    assert told[ENGINE].health is Health.PROBLEM
    assert readable(told) == text_snapshot


def test_an_address_of_no_known_kind(tmp_path: Path) -> None:
    told = docker_findings(tmp_path, None, docker_host="npipe:////./pipe/docker")
    assert told[ENGINE].health is Health.PROBLEM
    assert "DOCKER_HOST" in told[ENGINE].verdict.fix


@pytest.mark.parametrize("asked_for", [True, False])
@pytest.mark.parametrize("host", ["tcp://192.0.2.1:2375", "ssh://build-1"])
def test_an_engine_of_another_machine_is_a_problem(
    tmp_path: Path, host: str, asked_for: bool
) -> None:
    told = docker_findings(tmp_path, None, docker_host=host, docker_asked_for=asked_for)
    assert set(told) == {ENGINE}
    assert told[ENGINE].health is Health.PROBLEM
    assert f"{host} is on another machine" in told[ENGINE].verdict.message
    assert "run the hub on the engine's machine" in told[ENGINE].verdict.fix


# The command


def test_the_command_fails_without_the_engine_that_its_settings_name(tmp_path: Path) -> None:
    env = {"RUNTIME_ENABLED": "docker", "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    ran = run_codehub("doctor", cwd=tmp_path, env=env)
    assert ran.code == 1
    assert "there is no Docker engine" in ran.out
    assert "Docker space" not in ran.out
    env["RUNTIME_ENABLED"] = "process"
    ran = run_codehub("doctor", cwd=tmp_path, env=env)
    assert ran.code == 0, ran.out
    assert "Docker" not in ran.out
