"""What surrounds one workspace, for explanations: read as of one moment, and nothing is locked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codehub.model.events import EventKind
from codehub.model.explanation import Circumstances, Leadership, Queued
from codehub.model.states import Operation, Phase
from codehub.store.advisory import somebody_leads
from codehub.store.connect import transaction
from codehub.store.events import last_event
from codehub.store.places import HAS_PLACE, STOPPABLE, read_places
from codehub.store.revisions import declares
from codehub.store.rows import COLUMNS, workspace_of
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace
    from codehub.store.places import Place

_MOVING: Final = (Operation.STARTING, Operation.STOPPING)

# The one that lives, else the one that was deleted last.
FIND: Final = f"""
SELECT {COLUMNS}, u.name AS owner, now() AS read_at, r.git_commit
FROM workspaces w JOIN users u ON u.id = w.owner_user_id
LEFT JOIN spec_revisions r ON r.id = w.spec_revision
WHERE w.name = %(name)s
ORDER BY w.deleted_at DESC NULLS FIRST, w.id LIMIT 1
"""

# What has a place among those that run: the owner's by name, the rest by number.
RUNNING: Final = f"""
SELECT count(*) AS everybody,
       COALESCE(array_agg(w.name ORDER BY w.name)
                FILTER (WHERE u.name = %(owner)s), '{{}}') AS own,
       COALESCE(array_agg(w.name ORDER BY w.name)
                FILTER (WHERE u.name = %(owner)s AND {STOPPABLE}), '{{}}') AS stoppable
FROM workspaces w JOIN users u ON u.id = w.owner_user_id
WHERE w.deleted_at IS NULL AND {HAS_PLACE}
"""

ACTIVITY: Final = "SELECT drained_at, blind_until FROM activity_sync"

# The last one who led; whether somebody does shows in the lock that a leader's session holds.
LEADER: Final = """
SELECT holder_id, epoch, acquired_at FROM system_locks WHERE lock_name = 'coordinator'
"""


async def read_circumstances(
    conn: AsyncConnection[DictRow], name: str, *, per_user: int, everybody: int
) -> tuple[Workspace, Circumstances] | None:
    """The workspace of this name, deleted or not, with what surrounds it; None if none ever was.

    The limits are the settings, for where the specs say nothing.
    """
    async with transaction(conn, snapshot=True):
        rows = await fetch(conn, FIND, {"name": name})
        if not rows:
            return None
        workspace = workspace_of(rows[0])
        activity = await _first(conn, ACTIVITY)
        places = await read_places(conn, [workspace.id], per_user=per_user, everybody=everybody)
        return workspace, Circumstances(
            now=rows[0]["read_at"],
            commit=rows[0]["git_commit"],
            moved=await last_event(conn, workspace.id, EventKind.DESIRED),
            declared=await _declared(conn, workspace),
            leader=await read_leadership(conn),
            queued=await _queued(conn, workspace, places.get(workspace.id)),
            blind_until=activity.get("blind_until"),
            drained_at=activity.get("drained_at"),
        )


async def read_queue(
    conn: AsyncConnection[DictRow], workspace: Workspace, *, per_user: int, everybody: int
) -> Queued | None:
    """Its place behind those that run; None where it has one of theirs, or none at all."""
    places = await read_places(conn, [workspace.id], per_user=per_user, everybody=everybody)
    return await _queued(conn, workspace, places.get(workspace.id))


async def read_leadership(conn: AsyncConnection[DictRow]) -> Leadership:
    """Who leads now, or led last."""
    held, row = await somebody_leads(conn), await _first(conn, LEADER)
    if not row:
        return Leadership(held=held)
    return Leadership(held, row["holder_id"], row["epoch"], row["acquired_at"])


async def _declared(conn: AsyncConnection[DictRow], workspace: Workspace) -> bool:
    """A row that lives says itself whether a spec declares it."""
    if workspace.status.deleted_at is None:
        return not workspace.orphaned
    return await declares(conn, workspace.name, workspace.declaration.owner)


async def _queued(
    conn: AsyncConnection[DictRow], workspace: Workspace, place: Place | None
) -> Queued | None:
    """Its place behind those that run, by the same count as the leader's."""
    status = workspace.status
    has_place = status.phase is Phase.RUNNING or status.operation in _MOVING
    if place is None or place.fits or has_place:
        return None
    owner = workspace.declaration.owner
    running = await _first(conn, RUNNING, {"owner": owner})
    if place.own > place.own_limit:
        own, stoppable = tuple(running["own"]), tuple(running["stoppable"])
        ahead = max(place.own_limit, len(own))
        return Queued(place.own - ahead, place.own_limit, owner, own, stoppable)
    taken = max(place.overall_limit, running["everybody"])
    return Queued(place.overall - taken, place.overall_limit)


async def _first(
    conn: AsyncConnection[DictRow], query: str, values: dict[str, object] | None = None
) -> dict[str, Any]:
    rows = await fetch(conn, query, values)
    return rows[0] if rows else {}
