"""How many workspaces may run: per owner and in all, counted where nobody else counts meanwhile.

Asked before somebody's RUNNING is accepted, under one lock that is taken first in its transaction.
The loader is not asked: what it wants and does not fit is held by the leader, in order of asking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.errors import LimitReached
from codehub.store.intent import count_running

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace
    from codehub.store.intent import Running


@dataclass(frozen=True, slots=True)
class LimitDefaults:
    """The settings: they count where neither the User spec nor the Hub spec says otherwise."""

    max_running_per_user: int = 2
    max_running_global: int = 100


DEFAULTS = LimitDefaults()


async def check_limits(
    conn: AsyncConnection[DictRow], workspace: Workspace, defaults: LimitDefaults = DEFAULTS
) -> None:
    """Raise LimitReached if `workspace` would be one too many; call it under `Lock.LIMITS`."""
    running = await count_running(conn, workspace.id)
    _check_owner(workspace, running, defaults)
    _check_hub(workspace, running, defaults)


def _check_owner(workspace: Workspace, running: Running, defaults: LimitDefaults) -> None:
    limit, owner = running.limit_per_user, workspace.declaration.owner
    limit = defaults.max_running_per_user if limit is None else limit
    if len(running.own) < limit:
        return
    position = len(running.own) + 1
    others = ", ".join(running.own)
    raise LimitReached(
        f"{owner} may run {limit} at once, and {workspace.name} would be number {position}"
        + (f" (running or waiting: {others})" if others else ""),
        hint=_room(running),
        limit=limit,
        position=position,
        running=running.own,
        stoppable=running.stoppable,
        owner=owner,
    )


def _room(running: Running) -> str:
    """How to get a place."""
    if running.stoppable:
        return f"stop one first, for example 'codehub stop {running.stoppable[0]}'"
    ask = "ask an admin to raise maxRunning in the specs"
    return f"none of them can be stopped now: try again later, or {ask}" if running.own else ask


def _check_hub(workspace: Workspace, running: Running, defaults: LimitDefaults) -> None:
    limit = running.limit_of_all
    limit = defaults.max_running_global if limit is None else limit
    if running.everybody < limit:
        return
    position = running.everybody + 1
    raise LimitReached(
        f"this hub runs {limit} at once, and {workspace.name} would be number {position}",
        hint="try again later, or ask an admin to raise maxRunningGlobal in the specs",
        limit=limit,
        position=position,
    )
