"""Who may start: the places that limits leave, given out in order of asking.

Those that run, start or stop have a place. The others that want to run and may, queue by the time
they asked; a place of one owner's is counted before the hub's, so that somebody over their own
limit takes nobody else's place. Asked by the leader before it claims STARTING, so limits are hard.

What counts is said here once, of a workspace `w`: whoever counts against a limit, or shows how many
places are in use, counts by `COUNTED`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

_CEILING: Final = """CASE WHEN NOT w.pinned AND w.override_until > now() THEN w.override_state
         ELSE w.declared_state END"""

# The one half of `core/give_way.py`: what is blind for its archive is not offered to be stopped.
_GIVES_WAY: Final = """w.operation IN ('STARTING', 'ARCHIVING') AND w.error_reason = 'Unreachable'
        AND w.retry_at IS NOT NULL AND w.home_store_key IS NOT NULL"""

HAS_PLACE: Final = "(w.phase = 'RUNNING' OR w.operation IN ('STARTING', 'STOPPING'))"
"""It runs, or is about to, or not gone yet: that counts, whatever is wanted of it."""

COUNTED: Final = f"""(w.deleted_at IS NULL AND ({HAS_PLACE}
    OR (w.phase <> 'ERROR' OR w.error_reason IS NULL) AND NOT w.suspend
    AND (w.desired_state = 'RUNNING' OR w.pinned AND w.desired_state <> 'DELETED')
    AND {_CEILING} = 'RUNNING'))"""
"""It has a place, or wants one and may have it.

What is in ERROR, suspended or held below RUNNING does not start by itself, and takes nobody's
place. Without a reason an ERROR is one that was recovered from and not looked at since.
"""

STOPPABLE: Final = f"""(w.phase <> 'ERROR' AND NOT w.suspend
    AND NOT (w.pinned AND w.declared_state = 'RUNNING') AND w.desired_state <> 'DELETED'
    AND {_CEILING} IN ('RUNNING', 'STANDBY')
    AND (w.operation = 'NONE' OR w.desired_state <> 'RUNNING' OR {_GIVES_WAY}))"""
"""Whoever asks for STANDBY is not refused (`service/permit.py`), and it happens."""

PLACES: Final = f"""
WITH wanting AS (
    SELECT w.id, w.owner_user_id, w.desired_at, {HAS_PLACE} AS has_place
    FROM workspaces w WHERE {COUNTED}
), of_owner AS (
    SELECT wanting.*,
           row_number() OVER (PARTITION BY wanting.owner_user_id
                              ORDER BY has_place DESC, desired_at NULLS FIRST, wanting.id) AS own,
           COALESCE(u.max_running, (h.spec ->> 'max_running_per_user')::integer, %(per_user)s)
               AS own_limit
    FROM wanting JOIN users u ON u.id = wanting.owner_user_id LEFT JOIN hub h ON true
), of_all AS (
    SELECT id, own, own_limit,
           row_number() OVER (ORDER BY has_place DESC, own > own_limit, desired_at NULLS FIRST, id)
               AS place
    FROM of_owner
)
SELECT of_all.id, own, own_limit, place,
       COALESCE((h.spec ->> 'max_running_global')::integer, %(everybody)s) AS all_limit
FROM of_all LEFT JOIN hub h ON true
WHERE of_all.id = ANY(%(ids)s)
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one stands among its owner's and among all, and how many may run."""

    own: int
    own_limit: int
    overall: int
    overall_limit: int

    @property
    def fits(self) -> bool:
        return self.own <= self.own_limit and self.overall <= self.overall_limit


async def read_places(
    conn: AsyncConnection[DictRow], ids: Sequence[UUID], *, per_user: int, everybody: int
) -> dict[UUID, Place]:
    """The place of each; one that does not want to run, or may not, has none."""
    values = {"ids": list(ids), "per_user": per_user, "everybody": everybody}
    return {
        row["id"]: Place(row["own"], row["own_limit"], row["place"], row["all_limit"])
        for row in await fetch(conn, PLACES, values)
    }
