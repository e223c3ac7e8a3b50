"""Reading workspaces: all of them in one query, or one by its name.

`fetch` is the only place that runs a query for `rows.workspace_of`. A name may belong to several
rows, one that lives and others that were deleted; which one is meant is said by the function.
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg import capabilities
from psycopg.rows import dict_row, tuple_row
from psycopg.types.string import TextLoader

from codehub.store.rows import COLUMNS, workspace_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from psycopg import AsyncConnection, AsyncCursor
    from psycopg.rows import DictRow

    from codehub.model.explanation import Queued
    from codehub.model.workspace import Workspace

# Purged rows are kept for the audit only; nothing plans or moves them.
READ_ALL: Final = f"""
SELECT {COLUMNS}, u.name AS owner
FROM workspaces w JOIN users u ON u.id = w.owner_user_id
WHERE w.purged_at IS NULL
ORDER BY w.id
"""

READ_OWNED: Final = f"""
SELECT {COLUMNS}, u.name AS owner
FROM workspaces w JOIN users u ON u.id = w.owner_user_id
WHERE w.purged_at IS NULL AND u.name = %(owner)s
ORDER BY w.id
"""

# In no order: the first rows are read while the server is still looking for the others.
STREAM_ALL: Final = f"""
SELECT {COLUMNS}, u.name AS owner
FROM workspaces w JOIN users u ON u.id = w.owner_user_id
WHERE w.purged_at IS NULL
"""

STREAM_SOME: Final = f"{STREAM_ALL} AND w.id = ANY(%(ids)s)"

# Every write moves a row and is a transaction's: the two together never come twice.
READ_VERSIONS: Final = """
SELECT id, xmin::text || ctid::text FROM workspaces WHERE purged_at IS NULL
"""

# Beside the workspace, what a rule or a message about it needs: the server's clock, and the commit
# of the revision that last changed its declaration.
_FOUND: Final = f"""
SELECT {COLUMNS}, u.name AS owner, now() AS read_at, r.git_commit
FROM workspaces w JOIN users u ON u.id = w.owner_user_id
LEFT JOIN spec_revisions r ON r.id = w.spec_revision
"""

FIND_LIVE: Final = f"{_FOUND} WHERE w.name = %(name)s AND w.deleted_at IS NULL"
FIND_LIVE_BY_ID: Final = f"{_FOUND} WHERE w.id = %(id)s AND w.deleted_at IS NULL"

# The lock keeps what was judged true until it is written. It is the lock that an UPDATE takes, so
# it waits for writers only and lets foreign keys through.
LOCK_LIVE: Final = f"{FIND_LIVE} FOR NO KEY UPDATE OF w"

# Of several deleted ones, the last: undelete means what was there most recently.
LOCK_DELETED: Final = f"""
{_FOUND} WHERE w.name = %(name)s AND w.deleted_at IS NOT NULL
ORDER BY w.deleted_at DESC, w.id LIMIT 1
FOR NO KEY UPDATE OF w
"""

NAMES: Final = "SELECT name FROM workspaces WHERE deleted_at IS NULL ORDER BY name"

# Every writer of many rows takes its row locks in this order, so that two of them cannot deadlock.
LOCK_ROWS: Final = """
SELECT id FROM workspaces WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE
"""

BREATH: Final = 100
"""Rows that are made into workspaces before others get their turn."""


@dataclass(frozen=True, slots=True)
class Found:
    """One workspace, the server's time when it was read, and the commit that declares it.

    `queued` is its place behind a limit, where somebody has looked for it.
    """

    workspace: Workspace
    read_at: datetime
    commit: str | None = None
    queued: Queued | None = None


async def fetch(
    conn: AsyncConnection[DictRow], query: str, params: Mapping[str, object] | None = None
) -> list[DictRow]:
    """The rows of a query, JSON as text: `rows.py` decodes what is looked at, equal texts once."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        cursor.adapters.register_loader("jsonb", TextLoader)
        await cursor.execute(query, params)
        return await cursor.fetchall()


async def read_workspaces(
    conn: AsyncConnection[DictRow], owner: str | None = None
) -> tuple[Workspace, ...]:
    """All that are not purged, or an owner's, deleted ones within the retention included, by id.

    Ten thousand rows take a fifth of a second to become workspaces, in which a web process would
    answer nobody: so others on this loop get their turn after every few.
    """
    async with conn.cursor(row_factory=_workspace_row) as cursor:
        cursor.adapters.register_loader("jsonb", TextLoader)
        if owner is None:
            await cursor.execute(READ_ALL)
        else:
            await cursor.execute(READ_OWNED, {"owner": owner})
        found: list[Workspace] = []
        with collector_paused():
            while some := await cursor.fetchmany(BREATH):
                found += some
                await asyncio.sleep(0)
        return tuple(found)


async def stream_workspaces(
    conn: AsyncConnection[DictRow], ids: Sequence[UUID] | None = None, *, size: int = 2000
) -> AsyncIterator[list[Workspace]]:
    """Those with these ids, or all, in no order, in lists of some size.

    It is one query, whose answer is never held as a whole.
    """
    query, values = (STREAM_ALL, None) if ids is None else (STREAM_SOME, {"ids": list(ids)})
    async with conn.cursor(row_factory=_workspace_row) as cursor:
        cursor.adapters.register_loader("jsonb", TextLoader)
        gathered: list[Workspace] = []
        at_once = size if capabilities.has_stream_chunked() else 1
        async for workspace in cursor.stream(query, values, size=at_once):
            gathered.append(workspace)
            if len(gathered) >= size:
                yield gathered
                gathered = []
        if gathered:
            yield gathered


async def read_versions(conn: AsyncConnection[DictRow]) -> dict[UUID, str]:
    """What tells one state of a row from every other, for all that are not purged."""
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(READ_VERSIONS)
        return dict(await cursor.fetchall())


def _workspace_row(cursor: AsyncCursor[Any]) -> Callable[[Sequence[Any]], Workspace]:
    """A row factory: each row becomes its workspace at once, and no list of rows is kept."""
    names = [column.name for column in cursor.description or ()]
    return lambda values: workspace_of(dict(zip(names, values, strict=True)))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Many new objects make the garbage collector walk them over and over; none of them is any.

    For a while only, and for what makes no reference cycles: those are found after it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def find_live(conn: AsyncConnection[DictRow], name: str) -> Found | None:
    """The workspace of this name that is not deleted."""
    return await _find(conn, FIND_LIVE, name=name)


async def find_live_by_id(conn: AsyncConnection[DictRow], workspace_id: UUID) -> Found | None:
    """The workspace with this id, if it is not deleted."""
    return await _find(conn, FIND_LIVE_BY_ID, id=workspace_id)


async def lock_live(conn: AsyncConnection[DictRow], name: str) -> Found | None:
    """The same, locked until the transaction ends.

    One that becomes another's while its lock is waited for is not found by the first look, which
    has put it together with its old owner.
    """
    return await _find(conn, LOCK_LIVE, name=name) or await _find(conn, LOCK_LIVE, name=name)


async def lock_deleted(conn: AsyncConnection[DictRow], name: str) -> Found | None:
    """The workspace of this name that was deleted last, locked until the transaction ends."""
    return await _find(conn, LOCK_DELETED, name=name)


async def lock_rows(conn: AsyncConnection[DictRow], ids: list[UUID]) -> None:
    """Lock many rows, until the transaction ends, in the one order that cannot deadlock."""
    await conn.execute(LOCK_ROWS, {"ids": ids})


async def read_names(conn: AsyncConnection[DictRow]) -> tuple[str, ...]:
    """The names in use, for "did you mean"."""
    return tuple(row["name"] for row in await fetch(conn, NAMES))


async def _find(conn: AsyncConnection[DictRow], query: str, **values: object) -> Found | None:
    rows = await fetch(conn, query, values)
    if not rows:
        return None
    return Found(workspace_of(rows[0]), rows[0]["read_at"], rows[0]["git_commit"])
