"""kill -9 of everything, at several moments, then `codehub up` again: nothing lost, all converges.

Each moment comes twice: workspaces outlive the hub that started them, or they die with it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.states import DesiredState
from tests.end_to_end.hub import DEMO, Hub, a_hub, until
from tests.end_to_end.moments import (
    NEVER,
    gate,
    gated,
    halt_archive,
    halt_restore,
    leaders,
    until_starting,
)
from tests.end_to_end.reboot import bystander, rewrite_numbers
from tests.end_to_end.tree import processes_of
from tests.end_to_end.visits import visit
from tests.integration.homes import describe, fill_home

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)

SETTINGS = {
    "OPERATION_SETTLED_SECONDS": "0",
    "OPERATION_BACKOFF_SECONDS": "0.1",
    "COORDINATOR_IDLE_INTERVAL": "1",
}
"""So many deaths in so short a time would count as a crash loop of the workspaces."""
PIECE = 2_000_000
ALL = {"calm": "RUNNING", "gated": "RUNNING", "mover": "STANDBY"}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    """Three workspaces with homes worth keeping, and a hub that is up before and after each."""
    with a_hub(**SETTINGS) as made:
        made.declare(
            calm=f"{DEMO}, {NEVER}",
            gated=f"{gated(made)}, {NEVER}",
            mover=f"{DEMO}, {NEVER}, startOn: visit",
        )
        gate(made).touch()
        made.start()
        made.until_settled(**ALL)
        fill_home(made.home("calm"))
        (made.home("gated") / "notes.txt").write_text("mine")
        for number in range(4):
            (made.home("mover") / f"file-{number}").write_bytes(os.urandom(PIECE))
        fill_home(made.home("mover"))
        yield made


@pytest.fixture(scope="module")
def homes(hub: Hub) -> dict[str, Any]:
    """Every file of every home as it was first, by hash and all else."""
    return {name: describe(hub.home(name)) for name in ALL}


def starting(hub: Hub) -> dict[str, str]:
    """In the middle of a start; the process runs, and its port does not answer yet."""
    gate(hub).unlink()
    hub.want("gated", DesiredState.STANDBY)
    hub.until_settled(gated="STANDBY")
    hub.want("gated", DesiredState.RUNNING)
    until_starting(hub, "gated")
    return ALL


def running(hub: Hub) -> dict[str, str]:
    """Workspaces run, and nothing is under way."""
    return ALL


def archiving(hub: Hub) -> dict[str, str]:
    halt_archive(hub, "mover")
    return {**ALL, "mover": "ARCHIVED"}


def restoring(hub: Hub) -> dict[str, str]:
    hub.want("mover", DesiredState.ARCHIVED)
    hub.until_settled(mover="ARCHIVED")
    halt_restore(hub, "mover")
    return ALL


def idle(hub: Hub) -> dict[str, str]:
    """Everything sleeps."""
    for name in ("calm", "gated"):
        hub.want(name, DesiredState.STANDBY)
    asleep = dict.fromkeys(ALL, "STANDBY")
    hub.until_settled(**asleep)
    return asleep


AWAKE = [starting, running, archiving, restoring]
MOMENTS = [*((each, False) for each in AWAKE), *((each, True) for each in (*AWAKE, idle))]


def named(value: Any) -> str:
    return value.__name__ if callable(value) else ("all-die" if value else "workspaces-live")


@pytest.mark.parametrize(("moment", "workspaces"), MOMENTS, ids=named)
def test_killed_and_started_again(
    hub: Hub, homes: dict[str, Any], moment: Any, workspaces: bool
) -> None:
    make_ready(hub)
    expected = moment(hub)
    before = leaders(hub)

    hub.kill(workspaces=workspaces)
    hub.start()
    gate(hub).touch()

    rows = hub.until_settled(**expected)
    assert {row.error_reason for row in rows.values()} == {None}
    assert_one_of_each(hub)
    assert workspaces or leaders(hub) == before, "who lived on was found again"
    assert_same(hub, homes)


def test_after_a_reboot_nobody_else_is_taken_for_ours(hub: Hub, homes: dict[str, Any]) -> None:
    """Every number that was noted before belongs to somebody else now."""
    make_ready(hub)
    hub.kill()
    with bystander() as (pid, ticks):
        rewrite_numbers(hub, pid, ticks)

        hub.start()

        rows = hub.until_settled(**ALL)
        assert {row.error_reason for row in rows.values()} == {None}
        assert visit(hub.port, "/w/calm/").status == 200
        assert hub.signal() == 0
        assert processes_of(hub.data) == []
    hub.start()
    assert_same(hub, homes)


def make_ready(hub: Hub) -> None:
    """As every test finds it, wherever the one before ended."""
    hub.revive()
    gate(hub).touch()
    rows = hub.rows()
    for name, phase in ALL.items():
        if rows[name].desired != phase:
            hub.want(name, DesiredState(phase))
    hub.until_settled(**ALL)
    until(lambda: not any(row.error_count for row in hub.rows().values()), "forgiveness")


def assert_one_of_each(hub: Hub) -> None:
    """One hub, one of each service, one start of each workspace that runs, and nothing more."""
    found = processes_of(hub.data)
    assert len({each.mark for each in found if each.mark}) == len(hub.alive())
    awake = {str(row.id) for row in hub.rows().values() if row.phase == "RUNNING"}
    assert hub.alive() == awake
    hub.assert_no_second()


def assert_same(hub: Hub, homes: dict[str, Any]) -> None:
    """What is archived is brought back to be looked at."""
    make_ready(hub)
    for name, before in homes.items():
        assert describe(hub.home(name)) == before, name
