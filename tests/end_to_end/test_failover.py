"""Two coordinators of one hub, and `kill -9` for the leader in the middle of its work."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from codehub.model.states import DesiredState
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
    import subprocess
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)

STANDS_BY = """
SELECT FROM pg_stat_activity WHERE position('pg_try_advisory_lock' IN query) > 0
AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory') AND pid <> pg_backend_pid()
"""
CLAIMS = """
SELECT count(*) FROM workspace_events JOIN workspaces ON workspaces.id = workspace_id
WHERE name = %s AND kind = 'operation' AND workspace_events.new = %s
"""


class Coordinators:
    """One that leads and one that stands by."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.leader = self._launch()
        until(lambda: hub.leader() == self.leader.pid, "a leader")
        self.other = self._launch()
        until(lambda: hub.ask(STANDS_BY), "one that stands by")

    def kill_leader(self) -> float:
        """The other one leads after so many seconds; then a third one stands by."""
        self.leader.kill()
        killed = time.monotonic()
        self.leader.wait(timeout=PATIENCE)
        self.leader = self.other
        until(lambda: self.hub.leader() == self.leader.pid, "another leader", patience=20)
        took = time.monotonic() - killed
        self.other = self._launch()
        return took

    def _launch(self) -> subprocess.Popen[bytes]:
        words = ("serve", "coordinator", "--data", str(self.hub.data), "--specs", "specs")
        return self.hub.launch(*words)


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
    until(lambda: hub.ask(STANDS_BY), "one that stands by")
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

    until(lambda: hub.ask(STANDS_BY), "one that stands by")
    for each in (coordinators.other, coordinators.leader):
        each.send_signal(signal.SIGTERM)
        assert each.wait(timeout=PATIENCE) == 0, hub.said(each)
    left = processes_of(hub.data)
    assert {each.is_workspace for each in left} == {True}, "workspaces run on, services do not"
    assert leaders(hub) == begun
