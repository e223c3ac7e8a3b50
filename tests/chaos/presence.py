"""People in the one workspace: when they were there, what proxies tell of it, and who was put out.

Nobody may be stopped for idleness who was there inside the TTL, as far as anybody could know. What
really happened is kept here; what the hub did is read from its audit.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from codehub.errors import Unreachable
from codehub.store.activity import record_activity
from tests.chaos.actor import SETTINGS

if TYPE_CHECKING:
    from uuid import UUID

    from psycopg.rows import DictRow

    from tests.chaos.stage import Stage

RESENT = timedelta(seconds=SETTINGS.activity_resend_seconds)
PUT_OUT = """
SELECT id, at, kind FROM workspace_events WHERE id > %s
    AND (kind = 'desired' AND source = 'ttl' AND new = 'STANDBY'
        OR kind = 'operation' AND new = 'STOPPING')
ORDER BY id
"""


class Presence:
    """`moments` are when somebody was there, `known` when activity was last read for sure.

    `happened` counts what was judged, so that nobody takes a judge without cases for a good one.
    """

    def __init__(self, stage: Stage, workspace_id: UUID) -> None:
        self.moments: list[datetime] = []
        self.known: datetime | None = None
        self.happened: Counter[str] = Counter()
        self._stage = stage
        self._id = workspace_id
        self._judged = stage.begun_at

    async def work(self) -> None:
        """Somebody does something, and a proxy tells of it."""
        self.moments.append(self._stage.now())
        await self.report()

    async def report(self) -> None:
        """A proxy's flush: the last of the last minutes, straight to Postgres if need be."""
        if not self.moments or (age := self._stage.now() - self.moments[-1]) > RESENT:
            return
        try:
            await self._stage.signals.record_activity({(self._id, "input"): age})
        except Unreachable:
            seen: dict[UUID, datetime | None] = {self._id: datetime.now(UTC) - age}
            await record_activity(self._stage.conn, seen, "input")
            self.known = self._stage.now()

    async def judge(self, before: DictRow) -> None:
        """Every lowering and every stop for idleness since; `before` is the row they rested on."""
        rows = await (await self._stage.conn.execute(PUT_OUT, (self._judged,))).fetchall()
        for row in rows:
            self._judged = row["id"]
            if row["kind"] == "desired":
                self._was_away(row["at"] + self._stage.later, before, "lowered")
            elif before["desired_source"] == "ttl" and before["desired_state"] == "STANDBY":
                self._was_away(row["at"] + self._stage.later, before, "stopped")

    def _was_away(self, at: datetime, row: DictRow, what: str) -> None:
        """But for who came back after the TTL had run out, and was not known of yet."""
        self.happened[what] += 1
        ttl = timedelta(seconds=row["standby_ttl_seconds"] or SETTINGS.ttl_standby_seconds)
        earlier = None
        for each in self.moments:
            if at - ttl <= each <= at:
                unknown = self.known is None or each > self.known
                assert unknown, f"{what} though somebody was there {at - each} before"
                never_left = earlier is not None and each - earlier <= ttl
                assert not never_left, f"{what} though somebody never left"
            earlier = each
