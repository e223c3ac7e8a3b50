"""From names to workspaces and to the addresses where they answer.

Both are asked for at most once a second, whatever the load, and by one question at a time. While
the database or the runtime gives no answer the last known one counts: a running workspace stays
reachable.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from codehub.store.workspaces import find_live

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

    from codehub.model.runtime import Upstream
    from codehub.store.pool import Pool
    from codehub.store.workspaces import Found

log: Final = logging.getLogger("codehub.proxy")

FRESH_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 2.0
"""How long a request waits for news of what is known already."""

MOST: Final = 10_000
"""Answers kept; names that do not exist are answers too, and anybody can ask for those."""

K = TypeVar("K")
V = TypeVar("V")


class Routes:
    """`upstream` is a runtime's: where the running workspace answers, None when it does not run."""

    def __init__(self, pool: Pool, upstream: Callable[[UUID], Awaitable[Upstream | None]]) -> None:
        self._pool = pool
        self._found = Remembered(self._look)
        self._upstreams = Remembered(upstream)

    async def find(self, name: str) -> Found | None:
        """The workspace; None where there is none. Raises Unreachable if nobody ever could say."""
        return await self._found.get(name)

    async def upstream(self, workspace_id: UUID) -> Upstream | None:
        """Where it answers; None when it does not run."""
        return await self._upstreams.get(workspace_id)

    def forget(self, name: str, workspace_id: UUID) -> None:
        """What was known turned out to be wrong: ask again next time."""
        self._found.age(name)
        self._upstreams.age(workspace_id)

    async def close(self) -> None:
        """Ask nothing more."""
        await self._found.close()
        await self._upstreams.close()

    async def _look(self, name: str) -> Found | None:
        async with self._pool.connection() as conn:
            return await find_live(conn, name)


@dataclass(slots=True)
class _Known(Generic[V]):
    value: V
    at: float


class Remembered(Generic[K, V]):
    """Answers that are good for a second, and for longer while there are no others."""

    def __init__(
        self, ask: Callable[[K], Awaitable[V]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._known: dict[K, _Known[V]] = {}
        self._asking: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K) -> V:
        """The answer, fresh if it comes in time."""
        known = self._known.get(key)
        if known is not None and self._clock() - known.at < FRESH_SECONDS:
            return known.value
        task = self._asking.get(key) or self._begin(key)
        await asyncio.wait({task}, timeout=None if known is None else PATIENCE_SECONDS)
        if task.done() and not task.cancelled() and task.exception() is None:
            return task.result()
        if known is None:
            return task.result()
        # No news: what was known holds, and nobody else waits for news within this second.
        known.at = self._clock()
        return known.value

    def age(self, key: K) -> None:
        """Ask again next time."""
        if key in self._known:
            self._known[key].at = float("-inf")

    async def close(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, key: K) -> asyncio.Task[V]:
        async def ask() -> V:
            return await self._ask(key)

        task = asyncio.create_task(ask())
        self._asking[key] = task
        task.add_done_callback(lambda done: self._end(key, done))
        return task

    def _end(self, key: K, task: asyncio.Task[V]) -> None:
        del self._asking[key]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.warning("%s is not known at the moment: %s", key, error)
            return
        self._known.pop(key, None)
        self._known[key] = _Known(task.result(), self._clock())
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]
