"""Activity straight to Postgres, for what cannot wait for Redis and for when that is away.

A row that somebody has locked keeps nobody else's activity back, and a database that gives no
answer keeps whoever writes no longer than said: both are tried again, by whoever has kept it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from codehub.errors import Unreachable
from codehub.store.activity import record_free
from codehub.store.clock import read_now
from codehub.store.connect import transaction
from codehub.store.session import ask, forget

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.store.pool import Pool

    Key = tuple[UUID, str]
    Ages = Mapping[Key, timedelta]


class Direct:
    """Writes, each within `seconds`; `close` is for when there will be no more."""

    def __init__(self, pool: Pool, seconds: float) -> None:
        self._pool = pool
        self._seconds = seconds
        self._under_way: set[asyncio.Task[frozenset[Key]]] = set()

    async def write(self, ages: Ages) -> frozenset[Key]:
        """Record it by the database's clock; what could not be, as another has its row locked.

        To get out of a silent connection takes longer than the time there is: nobody waits for it.
        """
        task = asyncio.create_task(self._write(ages))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        forget(task)
        try:
            await asyncio.wait({task}, timeout=self._seconds)
        finally:
            task.cancel()
        if task.done():
            return task.result()
        raise Unreachable(f"the database gave no answer within {self._seconds:g} seconds")

    async def close(self) -> None:
        """What was given up is at its end, or is not waited for any longer."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=self._seconds)

    async def _write(self, ages: Ages) -> frozenset[Key]:
        async with self._pool.connection() as conn:
            return await ask(conn, _record(conn, ages), self._seconds)


async def _record(conn: AsyncConnection[DictRow], ages: Ages) -> frozenset[Key]:
    left: set[Key] = set()
    async with transaction(conn):
        now = await read_now(conn)
        by_source: dict[str, dict[UUID, datetime]] = defaultdict(dict)
        for (workspace_id, source), age in ages.items():
            by_source[source][workspace_id] = now - age
        for source, seen in sorted(by_source.items()):
            left |= {(each, source) for each in await record_free(conn, seen, source)}
    return frozenset(left)
