"""How far activity was read from Redis: one row, so that a new leader knows what the last one saw.

`core/horizon.py` says what follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.core.horizon import Watch
from codehub.store.fence import HOLDS, fenced
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.store.fence import Fence

# The time is read here, before Redis is: what the drain misses is later than that.
READ: Final = """
SELECT now() AS now, s.drained_at, s.blind_until, COALESCE(s.sentinel, '') AS sentinel
FROM (SELECT 1) AS one LEFT JOIN activity_sync s ON true
"""

# Blindness ends here, after the read: what was lost before the read is older than that.
WRITE: Final = f"""
INSERT INTO activity_sync AS s (drained_at, blind_until, sentinel)
SELECT %(drained_at)s, CASE WHEN %(blind)s THEN now() END, %(sentinel)s WHERE {HOLDS}
ON CONFLICT (is_one) DO UPDATE
SET drained_at = EXCLUDED.drained_at, sentinel = EXCLUDED.sentinel,
    blind_until = COALESCE(EXCLUDED.blind_until, s.blind_until)
RETURNING drained_at, blind_until
"""

# No sentinel is empty, so the next good read differs from this, whoever makes it.
MISTRUST: Final = f"UPDATE activity_sync SET sentinel = '' WHERE sentinel <> '' AND {HOLDS}"


@dataclass(frozen=True, slots=True)
class Drained:
    """A good drain: the time before it, and the end of the last blindness."""

    at: datetime
    blind_until: datetime


async def read_watch(conn: AsyncConnection[DictRow]) -> tuple[datetime, Watch]:
    """The time, and what is remembered of the last drain."""
    row = (await fetch(conn, READ))[0]
    return row["now"], Watch(row["drained_at"], row["blind_until"], row["sentinel"])


async def write_drain(
    conn: AsyncConnection[DictRow], fence: Fence, at: datetime, sentinel: str, *, blind: bool
) -> Drained:
    """Remember a drain that began `at` and was recorded; a blind one ends the blindness now."""
    values = {"drained_at": at, "sentinel": sentinel, "blind": blind}
    row = await (await fenced(conn, fence, WRITE, values)).fetchone()
    assert row is not None  # an upsert returns its row, and a lost fence has raised
    return Drained(row["drained_at"], row["blind_until"])


async def mistrust(conn: AsyncConnection[DictRow], fence: Fence) -> None:
    """Remember that Redis gave no answer: the time until its next one is blind."""
    await fenced(conn, fence, MISTRUST)
