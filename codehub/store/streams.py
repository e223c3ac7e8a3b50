"""What the streams of events read: what they heard of, what nobody told of, and pages of it all.

Whoever follows workspaces gets all of theirs first, page by page in the order of ids, and then each
one that changed. All of it carries its row's version, so that nothing is told twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.store.rows import COLUMNS, workspace_of
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace

START: Final = UUID(int=0)
"""Before every id."""

# Every write moves a row and is a transaction's: the two together never come twice.
_VERSION: Final = "w.xmin::text || w.ctid::text AS version"
_READ: Final = f"""
SELECT {COLUMNS}, u.name AS owner, now() AS read_at, {_VERSION}
FROM workspaces w JOIN users u ON u.id = w.owner_user_id
"""

READ_SOME: Final = f"{_READ} WHERE w.id = ANY(%(ids)s)"

READ_PAGE: Final = f"""
{_READ} WHERE w.deleted_at IS NULL AND w.id > %(after)s ORDER BY w.id LIMIT %(limit)s
"""

READ_NAMED: Final = f"{_READ} WHERE w.deleted_at IS NULL AND w.name = ANY(%(names)s) ORDER BY w.id"

# A page for each of many people, all in one answer.
READ_OWNED: Final = f"""
SELECT page.*, asked.owner, asked.after, now() AS read_at
FROM unnest(%(owners)s::text[], %(afters)s::uuid[]) AS asked (owner, after)
JOIN users u ON u.name = asked.owner
CROSS JOIN LATERAL (
    SELECT {COLUMNS}, {_VERSION} FROM workspaces w
    WHERE w.owner_user_id = u.id AND w.deleted_at IS NULL AND w.id > asked.after
    ORDER BY w.id LIMIT %(limit)s) AS page
ORDER BY page.id
"""

# What is written from now on is of this transaction or a later one.
READ_HORIZON: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text AS horizon"

# By age, since the numbers of transactions go round. Where a transaction takes long, that is more
# than what changed since; the versions tell.
READ_CHANGES: Final = """
SELECT w.id, w.xmin::text || w.ctid::text AS version FROM workspaces w
WHERE age(w.xmin) <= age(%(horizon)s::xid)
"""


@dataclass(frozen=True, slots=True)
class Sight:
    """A workspace as it was read; `version` tells this state of its row from every other."""

    workspace: Workspace
    version: str
    at: datetime


async def read_some(conn: AsyncConnection[DictRow], ids: Iterable[UUID]) -> list[Sight]:
    """Those with these ids that there are or were."""
    return _sights(await fetch(conn, READ_SOME, {"ids": list(ids)}))


async def read_page(conn: AsyncConnection[DictRow], after: UUID, limit: int) -> list[Sight]:
    """The next ones after an id, whosever they are."""
    return _sights(await fetch(conn, READ_PAGE, {"after": after, "limit": limit}))


async def read_named(conn: AsyncConnection[DictRow], names: Collection[str]) -> list[Sight]:
    """Those of these names, whosever they are."""
    return _sights(await fetch(conn, READ_NAMED, {"names": list(names)}))


async def read_owned(
    conn: AsyncConnection[DictRow], asked: Sequence[tuple[str, UUID]], limit: int
) -> dict[tuple[str, UUID], list[Sight]]:
    """For each owner and id, the owner's next ones after it."""
    values = {
        "owners": [owner for owner, _ in asked],
        "afters": [after for _, after in asked],
        "limit": limit,
    }
    found: dict[tuple[str, UUID], list[Sight]] = {each: [] for each in asked}
    for row in await fetch(conn, READ_OWNED, values):
        found[row["owner"], row["after"]].append(_sight(row))
    return found


async def read_horizon(conn: AsyncConnection[DictRow]) -> str:
    """A mark for `read_changes`: what is not visible now is found by it."""
    horizon: str = (await fetch(conn, READ_HORIZON))[0]["horizon"]
    return horizon


async def read_changes(conn: AsyncConnection[DictRow], horizon: str) -> dict[UUID, str]:
    """The versions of all rows that may have been written since the mark was made."""
    rows = await fetch(conn, READ_CHANGES, {"horizon": horizon})
    return {row["id"]: row["version"] for row in rows}


def _sights(rows: Iterable[DictRow]) -> list[Sight]:
    return [_sight(row) for row in rows]


def _sight(row: DictRow) -> Sight:
    return Sight(workspace_of(row), row["version"], row["read_at"])
