"""The engine restarts, crashes and hangs while twenty workspaces run on it.

Nothing is concluded from its silence: what runs goes on, nothing is begun, and what was asked for
meanwhile is done once, when it answers again.
"""

from __future__ import annotations

import os
import signal
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from codehub.adapters.docker.labels import container_name
from codehub.model.states import LEVELS, DesiredState
from codehub.model.workspace import StartOn
from tests.conftest import database, open_directory
from tests.engine.live_hub import LiveHub, live_hub
from tests.engine.second_engine import IMAGE, SecondEngine, second_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.timeout(300),
    # The SDK drops a socket that it could not connect, and leaves it to Python to close it.
    pytest.mark.filterwarnings("ignore:unclosed <socket.*family=1:ResourceWarning"),
]

AWAKE = [f"awake-{number:02}" for number in range(20)]
HOMES = "SELECT name, home_store_key, home_generation FROM workspaces ORDER BY name"
ASLEEP = [f"asleep-{number}" for number in range(3)]
QUICK: Final[dict[str, Any]] = {
    "docker_look_timeout": 1.0,
    "docker_act_timeout": 5.0,
    "coordinator_actions": 4,
    "coordinator_idle_interval": 0.5,
    "coordinator_active_interval": 0.2,
    "operation_stop_grace_seconds": 1.0,
    "operation_backoff_seconds": 0.1,
    "operation_backoff_max_seconds": 1.0,
    "operation_retries": 100,
}


@pytest.fixture(scope="module", name="engine")
def provide_engine() -> Iterator[SecondEngine]:
    with second_engine() as engine:
        yield engine


@contextmanager
def a_database(server: str, template: str) -> Iterator[str]:
    name = f"codehub_engine_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield database(server, name)
        finally:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module", name="shared_hub")
def provide_shared_hub(
    engine: SecondEngine, postgres_url: str, migrated_template: str, redis_url: str
) -> Iterator[LiveHub]:
    with (
        a_database(postgres_url, migrated_template) as url,
        open_directory() as path,
        live_hub(url, redis_url, path, engine.base_url, **QUICK) as hub,
    ):
        hub.declare([*AWAKE, *ASLEEP], IMAGE, start_on=StartOn.VISIT)
        hub.until_settled(STANDBY=[*AWAKE, *ASLEEP])
        yield hub


@pytest.fixture(name="hub")
def provide_hub(shared_hub: LiveHub) -> LiveHub:
    """Twenty workspaces run, three sleep."""
    shared_hub.want(DesiredState.RUNNING, *AWAKE)
    shared_hub.want(DesiredState.STANDBY, *ASLEEP)
    shared_hub.until_settled(RUNNING=AWAKE, STANDBY=ASLEEP)
    return shared_hub


@contextmanager
def nothing_follows(engine: SecondEngine, hub: LiveHub) -> Iterator[None]:
    """Whatever happens inside: nothing is written, nothing is done, and all of it goes on."""
    before, since, acts = ids(engine, hub), len(hub.written()), len(hub.runtime.acts)
    yield
    hub.until(lambda: all(each.ready == "True" for each in awake(hub)), "all are known to run")
    hub.until_answered(2)
    assert hub.written()[since:] == []
    assert hub.runtime.acts[acts:] == []
    assert ids(engine, hub) == before
    assert all(map(answers, engine.ports()))


def ids(engine: SecondEngine, hub: LiveHub) -> dict[str, str]:
    """The id of each container that runs, by the name of its workspace."""
    names = {container_name(row.id): name for name, row in hub.rows().items()}
    return {names[each]: found for each, found in engine.ids().items()}


def awake(hub: LiveHub) -> list[Any]:
    rows = hub.rows()
    return [rows[each] for each in AWAKE]


def begun(hub: LiveHub, since: int) -> list[tuple[str, str]]:
    """The operations that were claimed since."""
    return sorted(
        (each.name, each.new_operation)
        for each in hub.written()[since:]
        if each.new_operation not in ("NONE", each.old_operation)
    )


def falls(hub: LiveHub, since: int) -> set[str]:
    """Those whose phase became a lower one since, or none of the order."""
    return {
        each.name
        for each in hub.written()[since:]
        if LEVELS.get(each.new_phase, -2) < LEVELS.get(each.old_phase, -2)
    }


def answers(port: int) -> bool:
    """Whatever it says: of an empty home there is nothing to show."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().status in (200, 404)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_of_the_engine_is_no_event_for_workspaces(
    engine: SecondEngine, hub: LiveHub, end: signal.Signals
) -> None:
    with nothing_follows(engine, hub):
        engine.stop(end)
        hub.until_unanswered(3)
        assert {each.phase for each in awake(hub)} == {"RUNNING"}
        engine.start()


def test_an_engine_that_hangs_makes_facts_unknown_and_nothing_more(
    engine: SecondEngine, hub: LiveHub
) -> None:
    with nothing_follows(engine, hub), engine.paused():
        hub.until_unanswered(3)
        hub.until(lambda: all(each.ready == "Unknown" for each in awake(hub)), "all are unknown")
        assert {each.phase for each in awake(hub)} == {"RUNNING"}


def test_what_is_asked_for_while_the_engine_hangs_is_done_once_when_it_answers(
    engine: SecondEngine, hub: LiveHub
) -> None:
    stopped, others = AWAKE[:3], AWAKE[3:]
    before, since, acts = ids(engine, hub), len(hub.written()), len(hub.runtime.acts)
    with engine.paused():
        hub.until_unanswered(1)
        hub.want(DesiredState.STANDBY, *stopped)
        hub.want(DesiredState.RUNNING, *ASLEEP)
        hub.until_unanswered(3)
        assert hub.written()[since:] == []
        assert hub.runtime.acts[acts:] == []
    hub.until_settled(RUNNING=[*ASLEEP, *others], STANDBY=stopped)
    once = [(each, "STARTING") for each in ASLEEP] + [(each, "STOPPING") for each in stopped]
    assert begun(hub, since) == sorted(once)
    assert falls(hub, since) == set(stopped)
    after = ids(engine, hub)
    assert sorted(after) == sorted([*ASLEEP, *others])
    assert {each: after[each] for each in others} == {each: before[each] for each in others}
    assert all(map(answers, engine.ports()))


def test_what_was_under_way_when_the_engine_hung_is_carried_on(
    engine: SecondEngine, hub: LiveHub
) -> None:
    stopped, others = AWAKE[:3], AWAKE[3:]
    before, since, acts = ids(engine, hub), len(hub.written()), len(hub.runtime.acts)
    hub.want(DesiredState.STANDBY, *stopped)
    hub.want(DesiredState.RUNNING, *ASLEEP)
    hub.until(lambda: len(hub.runtime.acts) > acts, "something is under way")
    with engine.paused():
        hub.until_unanswered(7)
        assert falls(hub, since) <= set(stopped)
    hub.until_settled(RUNNING=[*ASLEEP, *others], STANDBY=stopped)
    once = [(each, "STARTING") for each in ASLEEP] + [(each, "STOPPING") for each in stopped]
    assert begun(hub, since) == sorted(once)
    assert falls(hub, since) == set(stopped)
    after = ids(engine, hub)
    assert sorted(after) == sorted([*ASLEEP, *others])
    assert {each: after[each] for each in others} == {each: before[each] for each in others}
    assert {each.error_reason for each in hub.rows().values()} == {None}


def test_without_live_restore_containers_end_with_the_engine_and_come_back_with_their_homes(
    database_url: str, redis_url: str
) -> None:
    names = AWAKE[:4]
    with (
        second_engine(live_restore=False) as engine,
        open_directory() as path,
        live_hub(
            database_url, redis_url, path, engine.base_url, docker_network="bridge", **QUICK
        ) as hub,
    ):
        hub.declare(names, IMAGE)
        hub.until_settled(RUNNING=names)
        before, homes = ids(engine, hub), hub.ask(HOMES)
        for home in homes:
            (engine.volume(home.home_store_key) / "notes.txt").write_text(home.name)
        engine.stop()
        hub.until_unanswered(2)
        engine.start()
        hub.until(lambda: len(engine.ids()) == len(names), "all run again")
        hub.until_settled(RUNNING=names)
        after = ids(engine, hub)
        assert sorted(after) == names
        assert not set(after.values()) & set(before.values())
        assert "ERROR" not in {each.new_phase for each in hub.written()}
        assert hub.ask(HOMES) == homes
        for home in homes:
            assert (engine.volume(home.home_store_key) / "notes.txt").read_text() == home.name
