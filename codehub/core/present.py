"""Present a workspace: what is shown of it, and which buttons make sense.

The buttons are offers, not rules: `permit` has those, and may still refuse. What would surely be
refused is not offered.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from codehub.core.advise import advise
from codehub.core.forecast import forecast
from codehub.core.recover import found_again
from codehub.core.summarise import progress, reason
from codehub.core.target import ceiling
from codehub.model.states import LEVELS, DesiredState, ErrorReason, Operation, Phase
from codehub.model.view import Action, View
from codehub.model.voice import Voice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.model.plan import Forecast, PlanOptions
    from codehub.model.workspace import Workspace

_BY_PHASE: Final = {
    Phase.PENDING: (Action.START,),
    Phase.RUNNING: (Action.OPEN, Action.STOP, Action.ARCHIVE),
    Phase.STANDBY: (Action.START, Action.ARCHIVE),
    Phase.ARCHIVED: (Action.RESTORE,),
}
_GOALS: Final = {
    Action.START: DesiredState.RUNNING,
    Action.RESTORE: DesiredState.RUNNING,
    Action.STOP: DesiredState.STANDBY,
    Action.ARCHIVE: DesiredState.ARCHIVED,
}


def present(
    workspace: Workspace, now: datetime, options: PlanOptions, voice: Voice = Voice.COMMANDS
) -> View:
    """All that is shown of it at this moment."""
    return View(
        workspace=workspace,
        at=now,
        why=reason(workspace, now, options, voice),
        actions=actions(workspace, now),
        version=version(workspace, now),
        advice=advise(workspace, voice) if workspace.status.phase is Phase.ERROR else "",
        progress=progress(workspace.status),
        next_move=_first_move(workspace, now, options),
    )


def actions(workspace: Workspace, now: datetime) -> tuple[Action, ...]:
    """What can be done with it now."""
    status = workspace.status
    if status.phase is Phase.ERROR:
        return tuple(_recoveries(workspace))
    if workspace.intent.desired is DesiredState.DELETED or status.operation is not Operation.NONE:
        return ()
    offered = _BY_PHASE.get(status.phase, ())
    moves = tuple(each for each in offered if _may_move(workspace, each, now))
    return (*moves, *_deletion(workspace))


def _may_move(workspace: Workspace, action: Action, now: datetime) -> bool:
    """As `permit` judges it: neither above the ceiling, nor below where it is pinned."""
    goal = _GOALS.get(action)
    if goal is None:
        return True
    declaration = workspace.declaration
    if declaration.suspend or LEVELS[goal] > LEVELS[ceiling(workspace, now)]:
        return False
    return not declaration.pinned or LEVELS[goal] >= LEVELS[declaration.declared_state]


def _deletion(workspace: Workspace) -> tuple[Action, ...]:
    """What a spec declares is deleted there."""
    return (Action.DELETE,) if workspace.orphaned else ()


def version(workspace: Workspace, now: datetime) -> str:
    """A digest of everything that somebody may have based a decision on.

    An override counts while it lasts: nobody writes anything when it ends.
    """
    intent, status = workspace.intent, workspace.status
    lasts = intent.override is not None and intent.override.until > now
    parts = (
        *(workspace.id, workspace.generation, workspace.orphaned),
        *(intent.desired, intent.at, intent.override if lasts else None, intent.recover_requested),
        *(status.phase, status.phase_changed_at, status.operation, status.op_id),
        *(status.error_reason, status.error_count, status.archive_key, status.deleted_at),
    )
    return sha256("\n".join(map(repr, parts)).encode()).hexdigest()[:32]


def _recoveries(workspace: Workspace) -> Iterator[Action]:
    lost = workspace.status.error_reason is ErrorReason.DATA_LOST and not found_again(workspace)
    if not lost:
        yield Action.RECOVER
    elif workspace.status.archive_key is not None:
        yield Action.RECOVER_FROM_ARCHIVE
    if lost or workspace.status.error_reason is ErrorReason.ARCHIVE_CORRUPTED:
        yield Action.RECOVER_EMPTY
    if workspace.intent.desired is not DesiredState.DELETED:
        yield from _deletion(workspace)


def _first_move(workspace: Workspace, now: datetime, options: PlanOptions) -> Forecast | None:
    """The next thing that idleness does to it, however far ahead."""
    until = datetime.max.replace(tzinfo=now.tzinfo)
    moves = forecast((workspace,), now=now, until=until, options=options)
    return moves[0] if moves else None
