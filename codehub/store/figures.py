"""What metrics tell of a hub and no part of the coordinator reads by itself, in one small query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

READ: Final = """
SELECT f.id AS revision, EXTRACT(epoch FROM now() - f.created_at)::float8 AS age,
       COALESCE(l.problems, 0) AS problems, (h.spec ->> 'max_running_global')::integer AS running
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (
    SELECT id, created_at FROM spec_revisions WHERE applied ORDER BY id DESC LIMIT 1) AS f ON true
LEFT JOIN LATERAL (
    SELECT jsonb_array_length(problems) AS problems FROM spec_revisions
    ORDER BY id DESC LIMIT 1) AS l ON true
LEFT JOIN hub h ON true
"""


@dataclass(frozen=True, slots=True)
class HubFigures:
    """The revision in force and its age in seconds, None before the first; problems of the last
    load; and how many may run, None where no spec says."""

    revision: int | None
    age: float | None
    problems: int
    running_limit: int | None


async def read_figures(conn: AsyncConnection[DictRow]) -> HubFigures:
    row = (await fetch(conn, READ))[0]
    return HubFigures(row["revision"], row["age"], row["problems"], row["running"])
