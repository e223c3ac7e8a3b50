"""The advisory locks, all numbers in one place so that no two purposes share one.

Two-part keys keep us apart from other applications in the same database: the first part is ours.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

OURS: Final = 0x0C0DE4B
"""The first part of every key."""


class Lock(IntEnum):
    """What is done by one at a time."""

    SCHEMA = 1
    """Changing the schema."""
    LOADER = 2
    """Loading a revision of the specs."""
    LIMITS = 3
    """Counting what runs, and starting one more."""
    LEADER = 4
    """Being the coordinator; held on a connection of its own."""
    PROBE = 5
    """Showing that a session is one's own; held for a moment by `codehub doctor`."""


# A key in two parts shows in pg_locks with objsubid 2; each database of a server has its own.
_HELD: Final = """
SELECT FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND classid = %s::bigint::oid AND objid = %s::bigint::oid
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
LEADS: Final = f"SELECT EXISTS ({_HELD}) AS taken"
OWN: Final = f"SELECT EXISTS ({_HELD} AND pid = pg_backend_pid()) AS taken"
"""Whether this very session has the lock."""


async def lock_transaction(conn: AsyncConnection[DictRow], lock: Lock) -> None:
    """Waits for a lock and keeps it until the transaction ends, which must have begun."""
    await conn.execute("SELECT pg_advisory_xact_lock(%s, %s)", (OURS, lock))


async def try_lock_transaction(conn: AsyncConnection[DictRow], lock: Lock) -> bool:
    """Takes a lock until the transaction ends, unless somebody has it."""
    return await _answer(conn, "SELECT pg_try_advisory_xact_lock(%s, %s) AS taken", lock)


async def try_lock_session(conn: AsyncConnection[DictRow], lock: Lock) -> bool:
    """Takes a lock for as long as the connection lives, unless somebody has it."""
    return await _answer(conn, "SELECT pg_try_advisory_lock(%s, %s) AS taken", lock)


@asynccontextmanager
async def session_lock(conn: AsyncConnection[DictRow], lock: Lock) -> AsyncIterator[None]:
    """Waits for a lock and keeps it for a block of any number of transactions."""
    await conn.execute("SELECT pg_advisory_lock(%s, %s)", (OURS, lock))
    try:
        yield
    finally:
        if not conn.broken:
            await conn.execute("SELECT pg_advisory_unlock(%s, %s)", (OURS, lock))


async def somebody_leads(conn: AsyncConnection[DictRow]) -> bool:
    """Whether a coordinator holds the leader's lock of this database."""
    return await _answer(conn, LEADS, Lock.LEADER)


async def has_lock(conn: AsyncConnection[DictRow], lock: Lock) -> bool:
    """Whether the server process behind this connection has it."""
    return await _answer(conn, OWN, lock)


async def _answer(conn: AsyncConnection[DictRow], query: str, lock: Lock) -> bool:
    cursor = await conn.execute(query, (OURS, lock))
    row = await cursor.fetchone()
    return bool(row and row["taken"])
