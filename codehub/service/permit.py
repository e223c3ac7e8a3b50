"""Who may move a workspace where: the rules behind every refusal, as pure functions.

`service/intent.py` calls them with the row locked, so that what they judge is what is written.
Each raises one sentence for the person who asked, and what to do instead. Loader, TTL and visits
are never refused for an operation in flight or an ERROR: the controller gets there when it is free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.give_way import may_give_way
from codehub.core.recover import found_again
from codehub.core.target import ceiling
from codehub.errors import Conflict, NotAllowed, Refused
from codehub.model.states import (
    LEVELS,
    DesiredState,
    ErrorReason,
    IntentSource,
    Operation,
    Phase,
    RecoverMode,
)
from codehub.model.view import LABELS, Action

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from codehub.model.workspace import Workspace

PEOPLE: Final = frozenset({IntentSource.API, IntentSource.CLI})
"""Sources where somebody asked for a state by name and waits for the answer."""

LIMITED: Final = PEOPLE | {IntentSource.VISIT}
"""Sources that limits refuse; the loader and TTL are not."""

LOSSES: Final = frozenset({ErrorReason.DATA_LOST, ErrorReason.ARCHIVE_CORRUPTED})
"""Errors after which an empty home may be the best there is."""


def check_desired(
    workspace: Workspace,
    state: DesiredState,
    source: IntentSource,
    *,
    now: datetime,
    commit: str | None = None,
) -> None:
    """Raise unless `source` may set `state`; `commit` is that of the spec, for the message."""
    if source is IntentSource.SPEC:
        return
    if state is DesiredState.DELETED:
        check_delete(workspace, source)
        return
    check_staying(workspace)
    check_suspended(workspace)
    if source in PEOPLE:
        check_free(workspace)
    check_ceiling(workspace, state, now=now, commit=commit)
    check_pinned(workspace, state)


def check_delete(workspace: Workspace, source: IntentSource) -> None:
    """People delete what no spec declares; everything else is deleted by removing its spec."""
    if source not in PEOPLE:
        raise Refused(
            f"a {source} cannot delete {workspace.name}",
            hint="only the specs or a person delete a workspace",
        )
    if not workspace.orphaned:
        place = workspace.declaration.source
        raise Refused(
            f"{workspace.name} is declared at {place}, so it is deleted there",
            hint=f"remove it from {place.file} and run 'codehub apply'",
            on_page=f"remove it from {place.file}",
        )


def check_staying(workspace: Workspace) -> None:
    if workspace.intent.desired is DesiredState.DELETED:
        raise Conflict(
            f"{workspace.name} is being deleted",
            hint="put it back into the specs and run 'codehub apply' to keep it",
            on_page="put it back into the specs to keep it",
        )


def check_suspended(workspace: Workspace) -> None:
    if workspace.declaration.suspend:
        place = workspace.declaration.source
        raise Refused(
            f"{workspace.name} is suspended at {place}, so nothing moves it",
            hint=f"remove 'suspend: true' in {place.file} and run 'codehub apply'",
            on_page=f"remove 'suspend: true' in {place.file}",
        )


def check_free(workspace: Workspace) -> None:
    """Somebody who waits for an answer is told at once that it would not happen now."""
    status = workspace.status
    if status.phase is Phase.ERROR:
        why = f" ({status.error_reason})" if status.error_reason else ""
        raise Conflict(
            f"{workspace.name} is in ERROR{why}",
            hint=f"see 'codehub explain {workspace.name}', then 'codehub recover {workspace.name}'",
            on_page="its own page says what happened, and has the buttons to go on",
        )
    if status.operation is not Operation.NONE and not may_give_way(status):
        raise Conflict(
            f"{workspace.name} is busy: {status.operation} is under way",
            hint=f"ask again when it is done; 'codehub status {workspace.name} --watch' follows it",
            on_page="ask again when it is done",
        )


def check_ceiling(
    workspace: Workspace, state: DesiredState, *, now: datetime, commit: str | None = None
) -> None:
    """Git declares how high a workspace may go; an override replaces that while it lasts."""
    highest = ceiling(workspace, now)
    if LEVELS[state] <= LEVELS[highest]:
        return
    place = workspace.declaration.source
    override = workspace.intent.override
    if override is not None and override.until > now and override.state is highest:
        raise Refused(
            f"{workspace.name} may not go above {highest}: overridden until "
            f"{override.until:%Y-%m-%d %H:%M %Z} ({override.reason})",
            hint="an admin can end it with 'codehub override --clear'",
        )
    where = f"{place}, commit {commit[:12]}" if commit else f"{place}"
    raise Refused(
        f"{workspace.name} may not go above {highest}: declared at {where}",
        hint=f"change desiredState in {place.file}, or ask an admin for 'codehub override'",
    )


def check_pinned(workspace: Workspace, state: DesiredState) -> None:
    declared = workspace.declaration.declared_state
    if workspace.declaration.pinned and LEVELS[state] < LEVELS[declared]:
        place = workspace.declaration.source
        raise Refused(
            f"{workspace.name} is pinned to {declared} at {place}",
            hint=f"remove 'pinned: true' in {place.file} and run 'codehub apply'",
            on_page=f"remove 'pinned: true' in {place.file}",
        )


def check_override(
    workspace: Workspace, state: DesiredState, lasts: timedelta, reason: str, *, admin: bool
) -> None:
    """An override replaces the ceiling, so it must be an admin's, end, and say why."""
    check_admin(admin)
    if not reason.strip():
        raise Refused("an override needs a reason", hint="add --reason 'why'")
    if lasts.total_seconds() <= 0:
        raise Refused("an override must last a while", hint="say how long, for example --for 8h")
    if state is DesiredState.DELETED:
        raise Refused("an override cannot delete", hint="remove the workspace from the specs")
    check_staying(workspace)
    check_suspended(workspace)
    if workspace.declaration.pinned:
        place = workspace.declaration.source
        raise Refused(
            f"{workspace.name} is pinned at {place}, so an override has no effect",
            hint=f"remove 'pinned: true' in {place.file} and run 'codehub apply'",
        )


def check_admin(admin: bool) -> None:
    if not admin:
        raise NotAllowed("only an admin may override what the specs declare", hint="ask an admin")


def check_recover(workspace: Workspace, mode: RecoverMode) -> None:
    """Lost data is never recovered silently: a person chooses what takes its place."""
    status, name = workspace.status, workspace.name
    if status.phase is not Phase.ERROR:
        raise Conflict(f"{name} is not in ERROR, there is nothing to recover")
    lost = status.error_reason is ErrorReason.DATA_LOST and not found_again(workspace)
    if mode is RecoverMode.PLAIN and lost:
        archive = f"'codehub recover {name} --from-archive' or " if status.archive_key else ""
        choice = f"{archive}'codehub recover {name} --accept-empty'"
        raise Refused(
            f"the home of {name} was lost, so a plain recovery cannot bring it back",
            hint=f"look for the volume first; then choose {choice}",
            on_page="look for the volume first; then choose what takes its place on its own page",
        )
    if mode is not RecoverMode.PLAIN and status.error_reason not in LOSSES:
        raise Refused(
            f"the home of {name} is not lost, so --{mode} would throw it away",
            hint=f"use plain 'codehub recover {name}'",
            on_page=f"press “{LABELS[Action.RECOVER]}”",
        )
    if mode is RecoverMode.FROM_ARCHIVE and status.archive_key is None:
        raise Refused(
            f"{name} has no archive to recover from",
            hint=f"'codehub recover {name} --accept-empty' starts with an empty home",
            on_page=f"press “{LABELS[Action.RECOVER_EMPTY]}”",
        )


def check_discard(workspace: Workspace, source: IntentSource, *, admin: bool) -> None:
    """Giving up data takes an admin, a workspace on its way out, and a failure to archive it."""
    if not admin:
        raise NotAllowed("only an admin may discard a home", hint="ask an admin")
    if workspace.intent.desired is not DesiredState.DELETED:
        check_delete(workspace, source)
    if workspace.status.phase is not Phase.ERROR:
        raise Conflict(
            f"{workspace.name} is not in ERROR, so its home can be archived",
            hint=f"delete it without --discard-data; 'codehub explain {workspace.name}' tells more",
        )


def check_undelete(workspace: Workspace, *, declared: bool) -> None:
    """The specs say what exists; only what they declare can come back."""
    place = workspace.declaration.source
    if not declared:
        raise Refused(
            f"no spec declares {workspace.name}, so it would only be deleted again",
            hint=f"put it back (it was at {place}, owner {workspace.declaration.owner}) "
            "and run 'codehub apply'",
        )
    if workspace.status.purged_at is not None:
        raise Refused(f"the archive of {workspace.name} is gone: its retention has ended")
    if workspace.intent.desired is not DesiredState.DELETED:
        raise Conflict(f"{workspace.name} is not deleted")
