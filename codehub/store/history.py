"""What the audit tells of a window of time, in one query that costs no more than the window.

The audit has no index on time, and needs none: ids grow with time. So the id at which the window
begins is found by bisection, some thirty looks at the primary key. Ids are given out before their
transactions commit and times are those of their beginning, which are not quite the same order:
the search aims a little earlier than the window, and the times decide.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from psycopg.rows import tuple_row

from codehub.model.events import EventKind
from codehub.model.history import Move, Opening, Past
from codehub.store.workspaces import collector_paused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

MOST_MOVES: Final = 50_000
"""Moves that a page counts; with more in the window, it covers the time of the last ones."""

_AIMED_EARLIER: Final = timedelta(hours=1)
"""Longer than any transaction that writes to the audit."""

_BREATH: Final = 1000
"""Rows that are made into moves before others on this loop get their turn."""

_NEVER: Final = 2**63 - 1
_OPENING: Final = "opening"
_TTL_WORD: Final = "e.kind = 'desired' AND e.source = 'ttl' AND e.new <> 'RUNNING'"
_OTHER_WORD: Final = "e.kind = 'desired' AND NOT (e.source = 'ttl' AND e.new <> 'RUNNING')"

# `narrowed`: before `low` all is older than the window, from `high` on nothing is.
# `moves`: the newest ones of the window, as many as may be read.
# `candidates`: whose past decides what the window says: those that did not run when it began,
#   unless somebody else than a TTL had the last word and still has, and those just leaving.
# `openings`: how they stood, by what was told of them since the last word that was no TTL's.
READ: Final = f"""
WITH RECURSIVE narrowed (low, high) AS (
    SELECT COALESCE(min(id), 0), COALESCE(max(id), -1) + 1 FROM workspace_events
    UNION ALL
    SELECT CASE WHEN e.at < %(aim)s THEN e.id + 1 ELSE n.low END,
        CASE WHEN e.at < %(aim)s THEN n.high ELSE n.low + (n.high - n.low) / 2 END
    FROM narrowed n CROSS JOIN LATERAL (
        SELECT id, at FROM workspace_events
        WHERE id >= n.low + (n.high - n.low) / 2 ORDER BY id LIMIT 1) AS e
    WHERE n.low < n.high
), moves AS MATERIALIZED (
    SELECT id, workspace_id, at, kind, old, new, source FROM workspace_events
    WHERE id >= (SELECT low FROM narrowed WHERE low >= high) AND at >= %(since)s
        AND kind IN ('desired', 'phase') AND {{mine}}
    ORDER BY id DESC LIMIT %(limit)s
), firsts AS (
    SELECT workspace_id, min(id) AS id, min(id) FILTER (WHERE kind = 'phase') AS phase_id,
        bool_or(kind = 'desired') AS moved
    FROM moves GROUP BY workspace_id
), candidates AS (
    SELECT w.id, COALESCE(f.id, %(never)s) AS before
    FROM workspaces w LEFT JOIN firsts f ON f.workspace_id = w.id
        LEFT JOIN moves m ON m.id = f.phase_id
    WHERE (w.purged_at IS NULL OR f.id IS NOT NULL) AND {{own}}
        AND (COALESCE(m.old, w.phase) <> 'RUNNING' AND (w.desired_source = 'ttl' OR f.moved)
            OR m.old = 'RUNNING' AND f.id = f.phase_id)
), openings AS (
    SELECT c.id, since.asked IS NOT NULL AS told,
        COALESCE(since.gone > since.asked, false) AS asleep
    FROM candidates c
    LEFT JOIN LATERAL (
        SELECT e.id FROM workspace_events e
        WHERE e.workspace_id = c.id AND e.id < c.before AND {_OTHER_WORD}
        ORDER BY e.id DESC LIMIT 1) AS other ON true
    CROSS JOIN LATERAL (
        SELECT min(e.id) FILTER (WHERE {_TTL_WORD}) AS asked,
            max(e.id) FILTER (WHERE e.kind = 'phase' AND e.old = 'RUNNING') AS gone
        FROM workspace_events e
        WHERE e.workspace_id = c.id AND e.id < c.before AND e.id > COALESCE(other.id, 0)) AS since
)
SELECT id, workspace_id, at, kind, old, new, source FROM moves
UNION ALL
SELECT 0, id, NULL, '{_OPENING}', told::text, asleep::text, '' FROM openings WHERE told
ORDER BY id
"""

_ALL: Final = {"mine": "true", "own": "true"}
_SOME: Final = {"mine": "workspace_id = ANY(%(ids)s)", "own": "w.id = ANY(%(ids)s)"}
_KINDS: Final = {each.value: each for each in EventKind}


async def read_past(
    conn: AsyncConnection[DictRow],
    since: datetime,
    until: datetime,
    *,
    ids: Sequence[UUID] | None = None,
    most: int = MOST_MOVES,
) -> Past:
    """The moves of all workspaces, or of those with these ids, between two moments.

    With more than `most` of them it is the latest, and the window begins with the first of those.
    """
    values: dict[str, Any] = {
        "since": since,
        "aim": since - _AIMED_EARLIER,
        "limit": most,
        "never": _NEVER,
    }
    if ids is not None:
        values["ids"] = list(ids)
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(READ.format(**(_ALL if ids is None else _SOME)), values)
        openings: dict[UUID, Opening] = {}
        moves: list[Move] = []
        with collector_paused():
            while rows := await cursor.fetchmany(_BREATH):
                openings |= {row[1]: _opening(row) for row in rows if row[3] == _OPENING}
                moves += [_move(row) for row in rows if row[3] != _OPENING]
                await asyncio.sleep(0)
    cut = len(moves) >= most
    begin = min((each.at for each in moves), default=since) if cut else since
    return Past(begin, until, tuple(moves), openings, cut)


def _move(row: tuple[Any, ...]) -> Move:
    _, workspace_id, at, kind, old, new, source = row
    return Move(workspace_id, at, _KINDS[kind], old, new, source)


def _opening(row: tuple[Any, ...]) -> Opening:
    return Opening(told=row[4] == "true", asleep=row[5] == "true")
