"""Asking something of a workspace for somebody who sees only their own.

The command line is the operator's; here somebody else is at the other end. So whose a workspace is
gets looked at in the same transaction that changes it, with the row locked: between a look and a
change it cannot become another's. What they do not see is not there, in the same words.
"""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from enum import Enum
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.errors import NotFound
from codehub.model.scalars import NAME_LENGTH, NAME_PATTERN
from codehub.model.states import LEVELS, PHASE_OF, DesiredState, IntentSource, Phase
from codehub.service.intent import set_desired
from codehub.service.permit import check_ceiling, check_suspended
from codehub.store.advisory import Lock, lock_transaction
from codehub.store.connect import transaction
from codehub.store.workspaces import find_live, find_live_by_id, lock_deleted, lock_live

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace
    from codehub.service.limits import LimitDefaults
    from codehub.store.workspaces import Found

    Conn = AsyncConnection[DictRow]
    Sees = Callable[[str], bool]
    """Whether somebody sees what this owner has."""

_NAME: Final = re.compile(NAME_PATTERN)
_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Only(Enum):
    """The one direction in which something asked for may move a workspace."""

    UP = "up"
    DOWN = "down"


def missing() -> NotFound:
    """Not there, or not theirs: nobody can tell which, so it repeats not even the name."""
    return NotFound("there is no such workspace", hint="the list shows those that you have")


def is_name(text: str) -> bool:
    """Whether a workspace could have this name; nothing else is worth a question."""
    return len(text) <= NAME_LENGTH and _NAME.fullmatch(text) is not None


async def find_theirs(conn: Conn, key: str, sees: Sees) -> Found:
    """The workspace of this name or id, if it lives and they see it."""
    if _ID.fullmatch(key):
        found = await find_live_by_id(conn, UUID(key))
        if found is not None and sees(found.workspace.declaration.owner):
            return found
    found = await find_live(conn, key) if is_name(key) else None
    if found is None or not sees(found.workspace.declaration.owner):
        raise missing()
    return found


async def name_theirs(conn: Conn, key: str, sees: Sees) -> str:
    """The name that is meant: of an id's workspace, else what is said, which may be deleted."""
    if _ID.fullmatch(key):
        found = await find_live_by_id(conn, UUID(key))
        if found is not None and sees(found.workspace.declaration.owner):
            return found.workspace.name
    if not is_name(key):
        raise missing()
    return key


@asynccontextmanager
async def held_still(
    conn: Conn, key: str, sees: Sees, *, counted: bool = False, deleted: bool = False
) -> AsyncIterator[Found]:
    """Their workspace, locked until the block ends; all of it is one transaction.

    `counted` where the block may ask for RUNNING: nobody may wait for the lock on limits with a
    row locked. `deleted` where one that is gone will do.
    """
    async with transaction(conn):
        if counted:
            await lock_transaction(conn, Lock.LIMITS)
        name = await name_theirs(conn, key, sees)
        found = await lock_live(conn, name)
        if found is None and deleted:
            found = await lock_deleted(conn, name)
        if found is None or not sees(found.workspace.declaration.owner):
            raise missing()
        yield found


async def ask_for(
    conn: Conn,
    found: Found,
    state: DesiredState,
    *,
    by: str,
    reason: str,
    limits: LimitDefaults,
    only: Only | None = None,
) -> None:
    """Ask for a state; what is asked for already is fine, unless the specs keep it from happening.

    `only` keeps stopping from restoring, and restoring from stopping.
    """
    workspace = found.workspace
    if workspace.status.phase is not Phase.ERROR and _is_beyond(workspace, state, only):
        return
    moved = await set_desired(
        conn,
        workspace.name,
        state,
        source=IntentSource.API,
        by=by,
        reason=reason,
        limits=limits,
    )
    if not moved.changed and state is not DesiredState.DELETED:
        _check_possible(found, state)


def _is_beyond(workspace: Workspace, state: DesiredState, only: Only | None) -> bool:
    wanted = workspace.intent.desired
    if only is None or wanted is DesiredState.DELETED:
        return False
    above = LEVELS[wanted] - LEVELS[state]
    return above > 0 if only is Only.UP else above < 0


def _check_possible(found: Found, state: DesiredState) -> None:
    """Whoever asks again for what is held back is told so, as the first time."""
    if found.workspace.status.phase is PHASE_OF[state]:
        return
    check_suspended(found.workspace)
    check_ceiling(found.workspace, state, now=found.read_at, commit=found.commit)
