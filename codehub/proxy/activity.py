"""Who was active, on its way to Redis: the first of three buffers, in this process's memory.

Times are kept as ages on a clock that never jumps; Redis stamps them with its own. What was sent
is sent again for a while, so a flushed Redis loses nothing, and while Redis is away Postgres gets
it all directly. A flush that fails keeps everything for the next.

Who comes back after more than a flush's time may come just when a TTL has run out: that Postgres
hears at once. Whoever goes on is told of in time by the flushes, so these wait for nothing else.

In time is within a flush interval and the slack: `core/horizon.py` takes silence beyond that for
nobody being there. `patience` is where the slack is spent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.errors import CodeHubError, Unreachable
from codehub.proxy.direct import Direct
from codehub.telemetry.instruments import TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from codehub.config import Settings
    from codehub.ports import Signals
    from codehub.store.pool import Pool

    Key = tuple[UUID, str]
    Ages = Mapping[Key, timedelta]

log: Final = logging.getLogger("codehub.proxy")

BACK_SECONDS: Final = 1.0
"""The shortest time between two writes for those who come back."""
RETRY_SECONDS: Final = 1.0
"""How long after a flush that failed the next one begins."""
LEAST_PATIENCE: Final = 0.5


def patience(slack: float) -> float:
    """How long Redis may take before it counts as away, and Postgres after it.

    A third of the slack for each; the last is for all that takes its time by the way. A slack of
    less than a second leaves no time for both.
    """
    return max(LEAST_PATIENCE, slack / 3)


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
        self._patience = patience(settings.activity_slack_seconds)
        self._direct = Direct(pool, self._patience)
        self._interval = settings.activity_flush_interval
        self._resend = settings.activity_resend_seconds
        self._clock = clock
        self._seen: dict[Key, float] = {}
        self._told: dict[Key, float] = {}
        self._back: set[Key] = set()
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
            left = await self._tell(self._ages(sending))
            self._told.update((key, at) for key, at in sending.items() if key not in left)
        if left:
            raise Unreachable(f"{len(left)} of {len(sending)} rows are locked, and Redis is away")

    async def run(self) -> None:
        """Flush every interval until cancelled; whoever cancels flushes once more."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_flushing())
                tasks.create_task(self._keep_telling_who_is_back())
        finally:
            await self._direct.close()

    async def _keep_flushing(self) -> None:
        """An interval lies between two beginnings, however long a flush takes."""
        due = self._clock() + self._interval
        while True:
            await asyncio.sleep(max(due - self._clock(), 0))
            begun = self._clock()
            went_well = await self.try_flush()
            due = begun + self._interval
            if not went_well:
                due = min(due, self._clock() + RETRY_SECONDS)

    async def _keep_telling_who_is_back(self) -> None:
        while True:
            await self._came_back.wait()
            await self._tell_who_is_back()
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
        """Straight to Postgres: the next flush and the next look may be too late for them.

        Who could not be told of is told of again; a flush may have done so and forgotten it since.
        """
        self._came_back.clear()
        back, self._back = self._back, set()
        at = {key: self._seen[key] for key in back if key in self._seen}
        if not at:
            return
        left = frozenset(at)
        try:
            left = await self._direct.write(self._ages(at))
        except CodeHubError as error:
            log.info("who came back is told of once more: %s", error.message)
        if left:
            self._back |= left
            self._came_back.set()

    def _ages(self, at: Mapping[Key, float]) -> Ages:
        now = self._clock()
        return {key: timedelta(seconds=now - each) for key, each in at.items()}

    def _due(self) -> dict[Key, float]:
        """What was not told yet, or lately enough to be told again; what is old is forgotten."""
        oldest = self._clock() - self._resend
        for key, at in list(self._seen.items()):
            if at < oldest and self._told.get(key) == at:
                del self._seen[key], self._told[key]
        return dict(self._seen)

    async def _tell(self, ages: Ages) -> frozenset[Key]:
        """Redis, or else Postgres; returns what neither has heard."""
        try:
            async with asyncio.timeout(self._patience):
                await self._signals.record_activity(ages)
        except (Unreachable, TimeoutError) as error:
            TRAFFIC.activity_fallbacks += 1
            log.info("Redis is away (%s): activity goes to Postgres", error)
            return await self._direct.write(ages)
        return frozenset()
