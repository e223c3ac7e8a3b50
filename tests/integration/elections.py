"""What tests of the election share: leaders with one component, and looks at who holds the lock."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codehub.coordinator.leader import Leader
from codehub.coordinator.pace import Failures
from codehub.store.advisory import OURS, Lock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Component

    Act = Callable[[Lead], Awaitable[None]]
    Conn = AsyncConnection[DictRow]

INTERVAL = 0.02
PATIENCE = 60
HOLDERS = """
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND classid::bigint = %s AND objid::bigint = %s AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@dataclass(slots=True)
class Part:
    """A component that does one thing."""

    lead: Lead
    act: Act
    name: str = "part"

    async def run(self) -> None:
        await self.act(self.lead)


@dataclass(slots=True)
class Candidate:
    """A leader, and what came of it."""

    url: str
    act: Act
    holder: str = "one"
    leads: list[Lead] = field(default_factory=list)
    changes: list[bool] = field(default_factory=list)
    failures: Failures = field(default_factory=Failures)
    leader: Leader = field(init=False)

    def __post_init__(self) -> None:
        self.leader = Leader(
            self.url,
            self.holder,
            interval=INTERVAL,
            components=self.components,
            failures=self.failures,
            on_change=self.changes.append,
        )

    @asynccontextmanager
    async def components(self, lead: Lead) -> AsyncIterator[Sequence[Component]]:
        self.leads.append(lead)
        yield [Part(lead, self.act)]

    @property
    def epochs(self) -> list[int]:
        return [lead.fence.epoch for lead in self.leads]


async def rest(lead: Lead) -> None:
    """A component that never ends by itself."""
    await asyncio.Event().wait()


@asynccontextmanager
async def standing(candidate: Candidate) -> AsyncIterator[asyncio.Task[None]]:
    """Let it stand for a while; in the end it must go when it is told."""
    task = asyncio.create_task(candidate.leader.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)
        assert task.cancelled()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)


async def holders(conn: Conn) -> list[int]:
    """The server processes that hold the leader's lock: one or none."""
    rows = await (await conn.execute(HOLDERS, (OURS, Lock.LEADER))).fetchall()
    return [row["pid"] for row in rows]


async def until_free(conn: Conn) -> None:
    """The server hears of a closed connection a little later."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if not await holders(conn):
                return
            await asyncio.sleep(0.005)


async def end_session(conn: Conn) -> None:
    """The leader's session dies, as by a restart of the server or a lost network."""
    for pid in await holders(conn):
        await conn.execute("SELECT pg_terminate_backend(%s)", (pid,))


async def one_value(conn: Conn, query: str) -> Any:
    row = await (await conn.execute(query)).fetchone()
    return next(iter(row.values())) if row else None


async def until_true(conn: Conn, query: str) -> None:
    """Ask until the answer is neither null, false nor none."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await one_value(conn, query):
                return
            await asyncio.sleep(0.005)
