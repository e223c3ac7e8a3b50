"""Moving a workspace on somebody's word: the one way to desired_state, overrides and recovery.

CLI, API, proxy and TTL call this; only the loader writes many at once, with the same statement.
Each call is one transaction: the row is locked, the rules are asked (`permit`, `limits`), and the
change is written together with its audit row. A refusal changes nothing. Who may see a workspace
at all is decided before, where the caller is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.core.admit import start_state
from codehub.core.suggest import did_you_mean
from codehub.errors import NotFound
from codehub.model.decision import DISCARD_DATA
from codehub.model.events import EventKind
from codehub.model.states import DesiredState, IntentSource, Phase, RecoverMode
from codehub.service.limits import DEFAULTS, check_limits
from codehub.service.permit import (
    LIMITED,
    PEOPLE,
    check_admin,
    check_desired,
    check_discard,
    check_override,
    check_recover,
    check_undelete,
)
from codehub.store import intent as stored
from codehub.store.activity import record_activity
from codehub.store.advisory import Lock, lock_transaction
from codehub.store.connect import transaction
from codehub.store.events import append, entry, has_said
from codehub.store.intent import Asked
from codehub.store.revisions import declares
from codehub.store.workspaces import lock_deleted, lock_live, read_names

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace
    from codehub.service.limits import LimitDefaults
    from codehub.store.workspaces import Found

TOUCHES_APART: Final = timedelta(minutes=5)
"""One person's touches of one workspace are this far apart in the audit, at least."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What came of asking; `changed` is False where it was desired already."""

    name: str
    old: DesiredState
    new: DesiredState
    changed: bool


async def set_desired(
    conn: AsyncConnection[DictRow],
    name: str,
    state: DesiredState,
    *,
    source: IntentSource,
    by: str,
    reason: str = "",
    limits: LimitDefaults = DEFAULTS,
) -> Moved:
    """Ask for a state: NotFound, Conflict, LimitReached or Refused say why it may not be.

    Asking for what is desired already is fine and writes nothing: the first asking keeps its
    place in the queue. Not so for people who ask in ERROR: it would not happen.
    """
    async with transaction(conn):
        counted = state is DesiredState.RUNNING and source in LIMITED
        if counted:
            # First of all: nobody may wait for this lock with a row locked.
            await lock_transaction(conn, Lock.LIMITS)
        found = await _locked(conn, name, source)
        workspace = found.workspace
        old = workspace.intent.desired
        if old is state and not (source in PEOPLE and workspace.status.phase is Phase.ERROR):
            return Moved(name, old, state, changed=False)
        check_desired(workspace, state, source, now=found.read_at, commit=found.commit)
        if counted:
            await check_limits(conn, workspace, limits)
        await stored.move(conn, [Asked(workspace.id, state, reason)], source=source, by=by)
        return Moved(name, old, state, changed=True)


async def undelete(
    conn: AsyncConnection[DictRow], name: str, *, source: IntentSource, by: str, reason: str = ""
) -> Moved:
    """Bring back a workspace that the specs declare; for others the specs are the way."""
    async with transaction(conn):
        found = await lock_live(conn, name) or await lock_deleted(conn, name)
        if found is None:
            raise await _unknown(conn, name, source)
        workspace = found.workspace
        declared = await declares(conn, name, workspace.declaration.owner)
        check_undelete(workspace, declared=declared)
        if workspace.status.deleted_at is not None:
            await _revive(conn, workspace, _audit(source, by, reason, old=Phase.DELETED.value))
        state = start_state(workspace.declaration)
        await stored.move(conn, [Asked(workspace.id, state, reason)], source=source, by=by)
        return Moved(name, DesiredState.DELETED, state, changed=True)


async def set_override(
    conn: AsyncConnection[DictRow],
    name: str,
    state: DesiredState,
    *,
    lasts: timedelta,
    reason: str,
    by: str,
    source: IntentSource,
    admin: bool,
    asked: str = "",
) -> datetime:
    """Put another ceiling in place of the declared one, for a while; returns when it ends.

    `asked` says how and from where, for the audit: people read the reason in every plan.
    """
    async with transaction(conn):
        found = await _locked(conn, name, source)
        check_override(found.workspace, state, lasts, reason, admin=admin)
        audit = _audit(source, by, reason, old=_ceiling_override(found.workspace))
        told = f"{reason} ({asked})" if asked else reason
        workspace_id = found.workspace.id
        return await stored.write_override(conn, workspace_id, state, lasts, told=told, **audit)


async def clear_override(
    conn: AsyncConnection[DictRow],
    name: str,
    *,
    by: str,
    source: IntentSource,
    admin: bool,
    reason: str = "",
) -> bool:
    """End an override before its time; False when there is none."""
    async with transaction(conn):
        found = await _locked(conn, name, source)
        check_admin(admin)
        if found.workspace.intent.override is None:
            return False
        audit = _audit(source, by, reason, old=_ceiling_override(found.workspace))
        await stored.remove_override(conn, found.workspace.id, **audit)
        return True


async def request_recover(
    conn: AsyncConnection[DictRow],
    name: str,
    mode: RecoverMode = RecoverMode.PLAIN,
    *,
    by: str,
    source: IntentSource,
    reason: str = "",
) -> None:
    """Ask the controller to leave ERROR; after a loss a person says what takes the data's place."""
    async with transaction(conn):
        found = await _locked(conn, name, source)
        check_recover(found.workspace, mode)
        await _ask_recover(conn, found.workspace, mode.value, source, by, reason)


async def request_discard(
    conn: AsyncConnection[DictRow],
    name: str,
    *,
    by: str,
    source: IntentSource,
    admin: bool,
    reason: str = "",
) -> None:
    """`delete --discard-data`: let a deletion that is stuck in ERROR go on without an archive."""
    async with transaction(conn):
        found = await _locked(conn, name, source)
        check_discard(found.workspace, source, admin=admin)
        asked = [Asked(found.workspace.id, DesiredState.DELETED, reason)]
        await stored.move(conn, asked, source=source, by=by)
        await _ask_recover(conn, found.workspace, DISCARD_DATA, source, by, reason)


async def touch(
    conn: AsyncConnection[DictRow], name: str, *, by: str, source: IntentSource, reason: str = ""
) -> None:
    """Say "still working": idleness counts from now.

    The audit has it once in a while for each person, however often a script of theirs says it.
    """
    async with transaction(conn):
        found = await _locked(conn, name, source)
        workspace = found.workspace
        await record_activity(conn, {workspace.id: None}, "touch")
        if not await has_said(conn, workspace.id, EventKind.TOUCH, by, TOUCHES_APART):
            audit = _audit(source, by, reason, old="")
            kind, new = EventKind.TOUCH, "active"
            await append(conn, [entry(workspace.id, workspace.name, kind, new=new, **audit)])


async def _locked(conn: AsyncConnection[DictRow], name: str, source: IntentSource) -> Found:
    found = await lock_live(conn, name)
    if found is None:
        raise await _unknown(conn, name, source)
    return found


async def _unknown(conn: AsyncConnection[DictRow], name: str, source: IntentSource) -> NotFound:
    """Only operators are told what is or was there: for others, gone and never known look alike."""
    hint = "'codehub status' lists the workspaces there are"
    if source is not IntentSource.CLI:
        return NotFound(f'there is no workspace "{name}"', hint=hint)
    if await lock_deleted(conn, name):
        return NotFound(
            f'workspace "{name}" was deleted',
            hint="put it back into the specs and run 'codehub apply' to have it again",
        )
    suggestion = did_you_mean(name, await read_names(conn))
    return NotFound(f'there is no workspace "{name}"{suggestion}', hint=hint)


async def _revive(
    conn: AsyncConnection[DictRow], workspace: Workspace, audit: dict[str, str]
) -> None:
    phases = await stored.undelete_rows(conn, [workspace.id])
    phase = phases[workspace.id]
    await append(conn, [entry(workspace.id, workspace.name, EventKind.PHASE, new=phase, **audit)])


async def _ask_recover(
    conn: AsyncConnection[DictRow],
    workspace: Workspace,
    mode: str,
    source: IntentSource,
    by: str,
    reason: str,
) -> None:
    old = workspace.intent.recover_requested or ""
    if old != mode:
        audit = _audit(source, by, reason, old=old)
        await stored.write_recover(conn, workspace.id, mode, **audit)


def _ceiling_override(workspace: Workspace) -> str:
    override = workspace.intent.override
    return "" if override is None else override.state.value


def _audit(source: IntentSource, by: str, reason: str, *, old: str) -> dict[str, str]:
    return {"old": old, "source": source.value, "by": by, "reason": reason}
