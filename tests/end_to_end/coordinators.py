"""Two coordinators of one hub, as processes: the one that leads, and the one that stands by."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.end_to_end.hub import PATIENCE, until

if TYPE_CHECKING:
    from tests.end_to_end.hub import Hub

STANDS_BY = """
SELECT FROM pg_stat_activity WHERE datname = current_database()
AND position('pg_try_advisory_lock' IN query) > 0
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
        self.leader = hub.coordinate()
        self._until_leading(PATIENCE)
        self.other = hub.coordinate()
        self.until_standing()

    def until_standing(self) -> None:
        until(lambda: self.hub.ask(STANDS_BY), "one that stands by")

    def kill_leader(self) -> float:
        """The other one leads after so many seconds; then a third one stands by."""
        self.leader.kill()
        killed = time.monotonic()
        self.leader.wait(timeout=PATIENCE)
        self.leader = self.other
        self._until_leading(20)
        took = time.monotonic() - killed
        self.other = self.hub.coordinate()
        return took

    def _until_leading(self, patience: float) -> None:
        def leads() -> bool:
            assert self.leader.poll() is None, f"it ended: {self.hub.said(self.leader)}"
            return self.hub.leader() == self.leader.pid

        until(leads, "the leader", patience)
