"""What somebody who follows workspaces reads, again and again, and how they hear of changes.

A notice only says "look": what is shown is always read anew, so a lost notice costs a moment and
nothing else. One look is one snapshot of the database.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.model.states import Operation, Phase
from codehub.store.advisory import somebody_leads
from codehub.store.connect import transaction, translated
from codehub.store.places import read_places
from codehub.store.rows import COLUMNS, workspace_of
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace
    from codehub.store.places import Place

CHANNELS: Final = ("ws_sse", "ws_wake", "ws_deleted")

_READ: Final = f"""
SELECT {COLUMNS}, u.name AS owner
FROM workspaces w JOIN users u ON u.id = w.owner_user_id
"""

READ_SOME: Final = f"{_READ} WHERE w.id = ANY(%(ids)s) ORDER BY w.name, w.id"

# Who watches the fleet is told of a deletion too: what went since they began is still read.
READ_FLEET: Final = f"""
{_READ} WHERE w.deleted_at IS NULL OR w.deleted_at > %(since)s ORDER BY w.name, w.id
"""

# A name may belong to several rows: the one that lives is meant, or the last that was deleted.
RESOLVE: Final = """
SELECT DISTINCT ON (name) name, id FROM workspaces WHERE name = ANY(%(names)s)
ORDER BY name, deleted_at DESC NULLS FIRST, id
"""

# Owners of what runs and is to stop: its place is free soon.
LEAVING: Final = """
SELECT DISTINCT u.name AS owner FROM workspaces w JOIN users u ON u.id = w.owner_user_id
WHERE w.deleted_at IS NULL AND (w.operation = 'STOPPING'
    OR (w.phase = 'RUNNING' OR w.operation = 'STARTING')
    AND (w.desired_state = 'DELETED' OR NOT w.suspend AND (
        NOT w.pinned AND w.desired_state <> 'RUNNING'
        OR CASE WHEN NOT w.pinned AND w.override_until > now() THEN w.override_state
                ELSE w.declared_state END <> 'RUNNING')))
"""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look saw.

    `places` are those of the workspaces that wait to start; `leaving` are the owners of some that
    will give up theirs.
    """

    at: datetime
    workspaces: tuple[Workspace, ...]
    places: Mapping[UUID, Place]
    leaving: frozenset[str]
    led: bool


async def resolve(conn: AsyncConnection[DictRow], names: Sequence[str]) -> dict[str, UUID]:
    """The ids behind names, of those that there are or were."""
    with translated():
        rows = await fetch(conn, RESOLVE, {"names": list(names)})
    return {row["name"]: row["id"] for row in rows}


async def look(
    conn: AsyncConnection[DictRow],
    ids: Sequence[UUID] | None,
    *,
    since: datetime | None,
    per_user: int,
    everybody: int,
) -> Look:
    """These workspaces, or the whole fleet with what was deleted after `since`."""
    async with transaction(conn, snapshot=True):
        at = (await fetch(conn, "SELECT now() AS at"))[0]["at"]
        if ids is None:
            rows = await fetch(conn, READ_FLEET, {"since": since or at})
        else:
            rows = await fetch(conn, READ_SOME, {"ids": list(ids)})
        workspaces = tuple(workspace_of(row) for row in rows)
        waiting = [each.id for each in workspaces if _may_start(each)]
        return Look(
            at,
            workspaces,
            await read_places(conn, waiting, per_user=per_user, everybody=everybody),
            frozenset(row["owner"] for row in await fetch(conn, LEAVING)),
            await somebody_leads(conn),
        )


async def listen(conn: AsyncConnection[DictRow]) -> None:
    """Have changes told on this connection."""
    with translated():
        for channel in CHANNELS:
            await conn.execute(f"LISTEN {channel}")


async def hear(conn: AsyncConnection[DictRow], seconds: float, gather: float) -> None:
    """Wait for a change, at most so long, and then for those that come right after it."""
    with translated():
        async for _ in conn.notifies(timeout=seconds, stop_after=1):
            pass
    await asyncio.sleep(gather)


def _may_start(workspace: Workspace) -> bool:
    status = workspace.status
    return status.phase is Phase.STANDBY and status.operation is Operation.NONE
