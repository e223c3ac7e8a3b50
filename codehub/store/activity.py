"""When somebody last worked in a workspace: one query, whoever reports it.

A report may be old, doubled or from a clock that runs ahead; it only ever moves the time forward,
and never past the server's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codehub.store.fence import HOLDS, fenced
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.core.horizon import Seen
    from codehub.store.fence import Fence


def _recording(condition: str, *, passing: str = "") -> str:
    """The query behind its WITH. A report without a time has an age or is of now.

    `passing` may have rows that somebody else has locked passed over.
    """
    return f"""seen AS (
    SELECT id, LEAST(COALESCE(at, now() - age, now()), now()) AS at, source
    FROM unnest(%(ids)s::uuid[], %(times)s::timestamptz[], %(ages)s::interval[],
                %(sources)s::text[]) AS reported (id, at, age, source)
), later AS (
    SELECT w.id, seen.at, seen.source FROM workspaces w JOIN seen USING (id)
    WHERE w.deleted_at IS NULL AND (w.last_access_at IS NULL OR w.last_access_at < seen.at)
        AND {condition}
    ORDER BY w.id FOR NO KEY UPDATE OF w {passing}
)
UPDATE workspaces w
SET last_access_at = GREATEST(w.last_access_at, later.at), last_access_source = later.source
FROM later WHERE w.id = later.id
"""


RECORD: Final = f"WITH {_recording('true')}"

RECORD_FREE: Final = f"WITH {_recording('true', passing='SKIP LOCKED')}"

BEHIND: Final = """
SELECT w.id FROM workspaces w
JOIN unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) AS seen (id, at) USING (id)
WHERE w.deleted_at IS NULL AND (w.last_access_at IS NULL OR w.last_access_at < LEAST(at, now()))
"""
"""Those of which less is known than was reported: after RECORD_FREE, the rows it passed over."""

# For the leader: `fenced` puts the WITH and the fence before it.
RECORD_FENCED: Final = f", {_recording(HOLDS)}"

KNOWN: Final = "SELECT id FROM workspaces WHERE id = ANY(%(ids)s)"


async def record_activity(
    conn: AsyncConnection[DictRow], seen: Mapping[UUID, datetime | None], source: str
) -> int:
    """Record when each was last active, None for now; returns how many rows that moved."""
    return (await conn.execute(RECORD, _reported(seen, source))).rowcount


async def record_free(
    conn: AsyncConnection[DictRow], seen: Mapping[UUID, datetime], source: str
) -> frozenset[UUID]:
    """As `record_activity`, waiting for nobody: those whose rows are locked are returned."""
    values = _reported(seen, source)
    await conn.execute(RECORD_FREE, values)
    return frozenset(row["id"] for row in await fetch(conn, BEHIND, values))


async def record_seen(
    conn: AsyncConnection[DictRow], fence: Fence, seen: Mapping[UUID, Seen]
) -> int:
    """Record how long ago each was last active, as the leader; returns how many rows that moved."""
    values: dict[str, Any] = {
        "ids": list(seen),
        "times": [None] * len(seen),
        "ages": [each.age for each in seen.values()],
        "sources": [each.source for each in seen.values()],
    }
    return (await fenced(conn, fence, RECORD_FENCED, values)).rowcount


async def known_ids(conn: AsyncConnection[DictRow], ids: Iterable[UUID]) -> frozenset[UUID]:
    """Those of the ids that are this hub's, deleted ones included."""
    return frozenset(row["id"] for row in await fetch(conn, KNOWN, {"ids": list(ids)}))


def _reported(
    seen: Mapping[UUID, datetime | None] | Mapping[UUID, datetime], source: str
) -> dict[str, Any]:
    return {
        "ids": list(seen),
        "times": list(seen.values()),
        "ages": [None] * len(seen),
        "sources": [source] * len(seen),
    }
