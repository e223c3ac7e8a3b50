"""Two coordinators of one hub, and `kill -9` for the leader in the middle of its work."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from codehub.model.states import DesiredState
from tests.end_to_end.coordinators import CLAIMS, Coordinators
from tests.end_to_end.hub import DEMO, PATIENCE, Hub, a_hub, until
from tests.end_to_end.moments import (
    NEVER,
    gate,
    gated,
    halt_archive,
    leaders,
    starts,
    until_starting,
)
from tests.end_to_end.tree import processes_of
from tests.integration.homes import describe, fill_home

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with a_hub() as made:
        made.declare(gated=f"{gated(made)}, {NEVER}", mover=f"{DEMO}, {NEVER}, startOn: visit")
        yield made


def test_the_other_one_finishes_what_the_leader_began(hub: Hub) -> None:
    coordinators = Coordinators(hub)
    hub.until_settled(mover="STANDBY")
    until_starting(hub, "gated")
    begun = leaders(hub)

    took = coordinators.kill_leader()
    print(f"killed in a start: another one led after {took:.2f} s")  # noqa: T201
    gate(hub).touch()

    assert hub.until_settled(gated="RUNNING")["gated"].error_count == 0
    assert leaders(hub) == begun, "the very same process"
    assert len(starts(hub)) == 1
    assert hub.ask(CLAIMS, "gated", "STARTING") == [(1,)]

    (hub.home("mover") / "large").write_bytes(os.urandom(8_000_000))
    fill_home(hub.home("mover"))
    before = describe(hub.home("mover"))
    coordinators.until_standing()
    halt_archive(hub, "mover")

    took = coordinators.kill_leader()
    print(f"killed in an archive: another one led after {took:.2f} s")  # noqa: T201

    mover = hub.until_settled(mover="ARCHIVED")["mover"]
    until(lambda: not processes_of(hub.data, lambda each: each.is_job), "the end of all jobs")
    committed = list((hub.data / "archives").glob(f"*/{mover.id}/*/*/*.meta"))
    assert len(committed) == 1
    assert hub.ask(CLAIMS, "mover", "ARCHIVING") == [(1,)]
    hub.want("mover", DesiredState.STANDBY)
    hub.until_settled(mover="STANDBY")
    assert describe(hub.home("mover")) == before

    coordinators.until_standing()
    for each in (coordinators.other, coordinators.leader):
        each.send_signal(signal.SIGTERM)
        assert each.wait(timeout=PATIENCE) == 0, hub.said(each)
    left = processes_of(hub.data)
    assert {each.is_workspace for each in left} == {True}, "workspaces run on, services do not"
    assert leaders(hub) == begun
