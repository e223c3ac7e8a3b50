"""Looks at the work of those that a TTL would lower soon, and remembers the last look.

Whatever cannot be measured (a first look, no answer, a restart in between) is left running: the
doubt is the user's. Looks are kept in memory only; a new leader just looks twice again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.core.work import Work, judge_work, too_soon
from codehub.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from codehub import ports
    from codehub.coordinator.pace import Failures
    from codehub.model.runtime import Stats
    from codehub.model.workspace import Runtime
    from codehub.store.ttl import Watched

PATIENCE: Final = 10.0
"""Seconds for one look; a workspace that cannot be measured holds up no other."""

AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Looked:
    """Who works, and who surely does not; of all others nothing is known."""

    busy: frozenset[UUID]
    quiet: frozenset[UUID]


class CpuWatch:
    """The last look at each workspace that falls soon."""

    def __init__(
        self,
        runtimes: Mapping[Runtime, ports.Runtime],
        interval: timedelta,
        failures: Failures,
    ) -> None:
        self._runtimes = runtimes
        self._shortest = interval / 2
        self._longest = 3 * interval
        self._failures = failures
        self._looks: dict[UUID, Stats] = {}

    async def look(self, watched: Sequence[Watched]) -> Looked:
        """Measure these, judge them by the look before, and forget all others."""
        free = asyncio.Semaphore(AT_ONCE)
        found = await asyncio.gather(*(self._measure(each, free) for each in watched))
        before, self._looks = self._looks, {}
        told: dict[Work, set[UUID]] = {each: set() for each in Work}
        for each, stats in zip(watched, found, strict=True):
            if stats is not None:
                told[self._judge(each, before.get(each.id), stats)].add(each.id)
        return Looked(frozenset(told[Work.BUSY]), frozenset(told[Work.QUIET]))

    def _judge(self, watched: Watched, earlier: Stats | None, later: Stats) -> Work:
        if earlier is not None and too_soon(earlier, later, shortest=self._shortest):
            self._looks[watched.id] = earlier
        else:
            self._looks[watched.id] = later
        return judge_work(
            earlier, later, watched.busy_cpu, shortest=self._shortest, longest=self._longest
        )

    async def _measure(self, watched: Watched, free: asyncio.Semaphore) -> Stats | None:
        """None when it does not run, by the runtime's word, or gives no answer."""
        runtime = self._runtimes.get(watched.runtime)
        if runtime is None:
            return None
        try:
            async with free, asyncio.timeout(PATIENCE):
                return await runtime.stats(watched.id)
        except (Unreachable, TimeoutError):
            return None
        except Exception as error:
            self._failures.note("ttl", error)
            return None
