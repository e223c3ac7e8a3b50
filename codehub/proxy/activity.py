"""Who was active, on its way to Redis: the first of three buffers, in this process's memory.

Times are kept as ages on a clock that never jumps; Redis stamps them with its own. What was sent
is sent again for a while, so a flushed Redis loses nothing, and while Redis is away Postgres gets
it all directly. A flush that fails keeps everything for the next.

Who comes back after more than a flush's time may come just when a TTL has run out: that Postgres
hears at once. Whoever goes on is told of in time by the flushes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.errors import CodeHubError, Unreachable
from codehub.store.activity import record_activity
from codehub.store.clock import read_now
from codehub.store.connect import transaction
from codehub.telemetry.instruments import TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from uuid import UUID

    from codehub.config import Settings
    from codehub.ports import Signals
    from codehub.store.pool import Pool

    Ages = Mapping[tuple[UUID, str], timedelta]

log: Final = logging.getLogger("codehub.proxy")

BACK_SECONDS: Final = 1.0
"""The shortest time between two writes for those who come back."""
PATIENCE_SECONDS: Final = 10.0
"""How long Redis may take before it counts as away."""


class ActivityBuffer:
    """The latest time each workspace was active, for each way of knowing it."""

    def __init__(
        self,
        signals: Signals,
        pool: Pool,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._signals = signals
        self._pool = pool
        self._interval = settings.activity_flush_interval
        self._resend = settings.activity_resend_seconds
        self._clock = clock
        self._seen: dict[tuple[UUID, str], float] = {}
        self._told: dict[tuple[UUID, str], float] = {}
        self._back: set[tuple[UUID, str]] = set()
        self._came_back = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._lasting: list[Callable[[], None]] = []

    def record(self, workspace_id: UUID, source: str, *, lasts: bool = False) -> None:
        """Somebody is active there, now; called for every request, so it only notes the time.

        `lasts` is for what goes on from flush to flush: there nobody comes back.
        """
        key, now = (workspace_id, source), self._clock()
        before = self._seen.get(key)
        if before is None or (now - before > self._interval and not lasts):
            self._back.add(key)
            self._came_back.set()
        self._seen[key] = now

    def before_flush(self, note: Callable[[], None]) -> None:
        """Have `note` called before each flush, to record what lasts."""
        self._lasting.append(note)

    async def flush(self) -> None:
        """Tell what is new, and what is recent once more. Raises Unreachable if nobody listens."""
        async with self._flushing:
            for note in self._lasting:
                note()
            sending = self._due()
            if not sending:
                return
            now = self._clock()
            ages = {key: timedelta(seconds=now - at) for key, at in sending.items()}
            await self._tell(ages)
            self._told.update(sending)

    async def run(self) -> None:
        """Flush every interval until cancelled; whoever cancels flushes once more."""
        due = self._clock() + self._interval
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(due - self._clock(), 0)):
                    await self._came_back.wait()
            if self._came_back.is_set():
                await self._tell_who_is_back()
            if self._clock() >= due:
                await self.try_flush()
                due = self._clock() + self._interval
            await asyncio.sleep(min(BACK_SECONDS, self._interval))

    async def try_flush(self) -> bool:
        """Flush; False and a line in the log where that failed, and nothing is lost."""
        try:
            await self.flush()
        except CodeHubError as error:
            TRAFFIC.activity_failures += 1
            log.warning("activity is kept for the next flush: %s", error.message)
            return False
        return True

    async def _tell_who_is_back(self) -> None:
        """Straight to Postgres: the next flush and the next look may be too late for them."""
        self._came_back.clear()
        back, self._back = self._back, set()
        now = self._clock()
        try:
            await self._write(
                {key: timedelta(seconds=now - self._seen.get(key, now)) for key in back}
            )
        except CodeHubError as error:
            log.info("who came back is told with the next flush: %s", error.message)

    def _due(self) -> dict[tuple[UUID, str], float]:
        """What was not told yet, or lately enough to be told again; what is old is forgotten."""
        oldest = self._clock() - self._resend
        for key, at in list(self._seen.items()):
            if at < oldest and self._told.get(key) == at:
                del self._seen[key], self._told[key]
        return dict(self._seen)

    async def _tell(self, ages: Ages) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._signals.record_activity(ages)
        except (Unreachable, TimeoutError) as error:
            TRAFFIC.activity_fallbacks += 1
            log.info("Redis is away (%s): activity goes to Postgres", error)
            await self._write(ages)

    async def _write(self, ages: Ages) -> None:
        """Straight to Postgres, by its clock."""
        async with self._pool.connection() as conn, transaction(conn):
            now = await read_now(conn)
            by_source: dict[str, dict[UUID, datetime | None]] = defaultdict(dict)
            for (workspace_id, source), age in ages.items():
                by_source[source][workspace_id] = now - age
            for source, seen in sorted(by_source.items()):
                await record_activity(conn, seen, source)
