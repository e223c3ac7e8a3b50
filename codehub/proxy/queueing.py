"""Reading one workspace with its place behind a limit, where it waits for one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.core.target import aim
from codehub.model.states import DesiredState, Operation, Phase
from codehub.store.circumstances import read_queue
from codehub.store.workspaces import find_live, find_live_by_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codehub.service.limits import LimitDefaults
    from codehub.store.pool import Pool
    from codehub.store.workspaces import Found

_ID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def finder(pool: Pool, limits: LimitDefaults) -> Callable[[str], Awaitable[Found | None]]:
    """Reads workspaces of the hub in this database, by their names or else by their ids."""

    async def find(name: str) -> Found | None:
        async with pool.connection() as conn:
            found = await find_live(conn, name)
            if found is None and _ID.fullmatch(name):
                found = await find_live_by_id(conn, UUID(name))
            if found is None or not _may_queue(found):
                return found
            queued = await read_queue(
                conn,
                found.workspace,
                per_user=limits.max_running_per_user,
                everybody=limits.max_running_global,
            )
            return replace(found, queued=queued)

    return find


def _may_queue(found: Found) -> bool:
    status = found.workspace.status
    rests = status.phase is Phase.STANDBY and status.operation is Operation.NONE
    return rests and aim(found.workspace, found.read_at) is DesiredState.RUNNING
