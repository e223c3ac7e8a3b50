"""Counting what is asked of Postgres and what is written there, from outside the code measured.

Statements are counted where every cursor sends them. Rows written are counted twice: by the server
(inserted, updated and deleted in all tables), and by whether each row still is the very version it
was.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from psycopg import AsyncConnection, AsyncCursor

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import AsyncIterator

    from psycopg.rows import DictRow

    from codehub.store.pool import Pool

TABLES = "workspaces, workspace_events, users, hub, system_locks, activity_sync, leader_requests"

VERSIONS = " UNION ALL ".join(
    f"SELECT '{table}' AS name, ctid::text AS place, xmin::text AS writer FROM {table}"
    for table in TABLES.split(", ")
)
REMEMBER = f"CREATE TEMP TABLE remembered AS {VERSIONS}"
MOVED = f"""
SELECT count(*) AS n FROM
    ((SELECT * FROM remembered EXCEPT ({VERSIONS}))
    UNION ALL (({VERSIONS}) EXCEPT SELECT * FROM remembered)) AS moved
"""
TOLD = """
SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint AS n FROM pg_stat_user_tables
WHERE schemaname = 'public'
"""
TELL = "SELECT pg_stat_force_next_flush()"


def counting(statements: Counter[str]) -> type[AsyncConnection[DictRow]]:
    """A connection class that counts what is sent, by its text, into `statements`."""

    class Cursor(AsyncCursor[Any]):
        async def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
            statements[str(query)] += 1
            return await super().execute(query, *args, **kwargs)

        async def executemany(self, query: Any, *args: Any, **kwargs: Any) -> None:
            statements[str(query)] += 1
            await super().executemany(query, *args, **kwargs)

        def stream(self, query: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            statements[str(query)] += 1
            return super().stream(query, *args, **kwargs)

    class Connection(AsyncConnection[Any]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.cursor_factory = Cursor

    return Connection


class Written:
    """How many rows were written, by the two counts; `rows` is the larger."""

    def __init__(self) -> None:
        self.told = 0
        self.moved = 0

    @property
    def rows(self) -> int:
        return max(self.told, self.moved)


@asynccontextmanager
async def count_writes(conn: AsyncConnection[DictRow], pool: Pool) -> AsyncIterator[Written]:
    """Counts what is written inside the block by `conn` and by the only connection of the pool."""
    written = Written()
    await conn.execute(REMEMBER)
    before = await _told(conn, pool)
    yield written
    written.told = await _told(conn, pool) - before
    written.moved = await _number(conn, MOVED)
    await conn.execute("DROP TABLE remembered")


async def _told(conn: AsyncConnection[DictRow], pool: Pool) -> int:
    """A server process tells of its writes now and then; these two, at once."""
    await conn.execute(TELL)
    async with pool.connection() as other:
        await other.execute(TELL)
    return await _number(conn, TOLD)


async def _number(conn: AsyncConnection[DictRow], query: str) -> int:
    row = await (await conn.execute(query)).fetchone()
    assert row is not None
    return int(row["n"] or 0)
