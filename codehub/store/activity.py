"""When somebody last worked in a workspace: one query, whoever reports it.

A report may be old, doubled or from a clock that runs ahead; it only ever moves the time forward,
and never past the server's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

# A report without a time means now, on the server's clock.
RECORD: Final = """
WITH seen AS (
    SELECT id, LEAST(COALESCE(at, now()), now()) AS at
    FROM unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) AS reported (id, at)
), later AS (
    SELECT w.id, seen.at FROM workspaces w JOIN seen USING (id)
    WHERE w.deleted_at IS NULL AND (w.last_access_at IS NULL OR w.last_access_at < seen.at)
    ORDER BY w.id FOR NO KEY UPDATE OF w
)
UPDATE workspaces w
SET last_access_at = GREATEST(w.last_access_at, later.at), last_access_source = %(source)s
FROM later WHERE w.id = later.id
"""


async def record_activity(
    conn: AsyncConnection[DictRow], seen: Mapping[UUID, datetime | None], source: str
) -> int:
    """Record when each was last active, None for now; returns how many rows that moved."""
    values = {"ids": list(seen), "times": list(seen.values()), "source": source}
    return (await conn.execute(RECORD, values)).rowcount
