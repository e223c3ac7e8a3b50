"""One workspace's line in the plan: what its admission means for it and for the people in it.

The operations shown are those the controller will run: they come from the same `path`, `aim` and
drain as its decisions do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codehub.core.compare import compare_declarations
from codehub.core.detect import outdated
from codehub.core.hold import held, may_be_held
from codehub.core.interrupt import awake, lowering_waits, restart_waits, waiting_words, who
from codehub.core.path import path
from codehub.core.step import RESULT
from codehub.core.target import aim
from codehub.model.plan import Action, Change, Kind
from codehub.model.states import DesiredState, IntentSource, Operation, Phase
from codehub.model.workspace import UpdatePolicy

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.admission import Admission
    from codehub.model.plan import PlanOptions
    from codehub.model.workspace import Declaration, Workspace

NEXT_START: Final = "takes effect at the next start"
RESTARTS_NOW: Final = "restarts now"
RESTARTS_LATER: Final = "restarts once it is idle"


def preview(admission: Admission, *, now: datetime, options: PlanOptions) -> Change | None:
    """What the plan says of one workspace; None when there is nothing to say."""
    row, declaration = admission.existing, admission.declaration
    if row is None:
        return _created(admission, declaration, options) if declaration else None
    if declaration is None:
        if admission.action is Action.DELETE:
            return _deleted(row, now, options)
        return replace(_listed(row, now, options), action=Action.ORPHAN, source=None)
    if admission.action is Action.NONE:
        return _unchanged(row, declaration, now, options)
    return _updated(admission, row, now, options)


def after(admission: Admission, row: Workspace, now: datetime) -> Workspace:
    """The row as the loader would leave it."""
    declaration = admission.declaration or row.declaration
    intent, since = row.intent, row.declared_at
    if admission.desired is not None:
        intent = replace(intent, desired=admission.desired, source=IntentSource.SPEC, at=now)
    moved = declaration.declared_state is not row.declaration.declared_state
    if moved or admission.template_changed:
        since = now
    return replace(row, declaration=declaration, intent=intent, declared_at=since)


def seen(row: Workspace) -> str:
    """What a saved plan is bound to; anything else than this later makes it stale."""
    return f"generation {row.generation}, {row.status.phase}, {row.status.operation}"


def _created(admission: Admission, declaration: Declaration, options: PlanOptions) -> Change:
    top = declaration.declared_state
    target = top if declaration.pinned else admission.desired or top
    notes: tuple[str, ...] = ()
    if declaration.suspend:
        notes = ("suspended: nothing happens until that is taken back",)
    elif target is not top:
        notes = ("starts on the first visit",)
    return Change(
        kind=Kind.WORKSPACE,
        name=admission.name,
        action=Action.CREATE,
        source=declaration.source,
        fields=compare_declarations(None, declaration, show_env=options.show_env),
        path=path(Phase.PENDING, None if declaration.suspend else target),
        notes=notes,
    )


def _deleted(row: Workspace, now: datetime, options: PlanOptions) -> Change:
    asked = replace(row.intent, desired=DesiredState.DELETED, source=IntentSource.SPEC, at=now)
    going = replace(row, intent=asked)
    waits = lowering_waits(going, now, options)
    notes = []
    if row.status.phase is not Phase.PENDING:
        notes.append(f"archive kept until {now + options.retention:%Y-%m-%d}")
    if row.declaration.protect:
        notes.append("protected")
    return Change(
        kind=Kind.WORKSPACE,
        name=row.name,
        action=Action.DELETE,
        path=_path(going, now),
        notes=tuple(notes),
        deferred=_joined(waiting_words(options) if waits else None, _in_flight(row)),
        stops_now=who(row, now) if awake(row) and not waits else None,
        stops_later=who(row, now) if waits else None,
        seen=seen(row),
    )


def _unchanged(
    row: Workspace, declaration: Declaration, now: datetime, options: PlanOptions
) -> Change | None:
    # A cheap first look: most workspaces of a large hub have nothing to tell.
    lowered = declaration.declared_state is not DesiredState.RUNNING and awake(row)
    if not (lowered or may_be_held(row) or outdated(row)):
        return None
    change = _listed(replace(row, declaration=declaration), now, options)
    return change if change.held or change.deferred else None


def _listed(row: Workspace, now: datetime, options: PlanOptions) -> Change:
    """A workspace that the plan does not change, but that a reader should know of."""
    why = held(row, now, options)
    return Change(
        kind=Kind.WORKSPACE,
        name=row.name,
        action=Action.HELD if why else Action.NONE,
        source=row.declaration.source,
        deferred=_still_waiting(row, now, options),
        held=why,
        seen=seen(row),
    )


def _still_waiting(row: Workspace, now: datetime, options: PlanOptions) -> str | None:
    """What was applied earlier and has not happened yet."""
    if lowering_waits(row, now, options):
        return waiting_words(options)
    if not outdated(row) or row.generation <= 1:
        return None
    if row.declaration.update is UpdatePolicy.NEXT_START:
        return "waits for the next start, which takes the applied template"
    return waiting_words(options) if restart_waits(row, now, options) else None


def _updated(admission: Admission, row: Workspace, now: datetime, options: PlanOptions) -> Change:
    later = after(admission, row, now)
    restarts = _restarts(admission, later, now)
    stops = restarts or _lowered(row, later, now)
    waits = stops and _waits(later, restarts, now, options)
    way = _path(later, now, restart=restarts)
    effect = RESTARTS_LATER if waits else RESTARTS_NOW
    if not restarts:
        effect = "" if _will_start(row, way) else NEXT_START
    moves = restarts or aim(row, now) is not aim(later, now)
    return Change(
        kind=Kind.WORKSPACE,
        name=admission.name,
        action=admission.action,
        source=later.declaration.source,
        fields=compare_declarations(
            row.declaration, later.declaration, effect=effect, show_env=options.show_env
        ),
        path=way,
        notes=_notes(admission, row),
        deferred=_joined(
            waiting_words(options) if waits else None,
            _in_flight(row) if moves and len(way) > 1 else None,
            NEXT_START if admission.template_changed and effect == NEXT_START else None,
        ),
        held=held(later, now, options),
        stops_now=who(row, now) if stops and not waits else None,
        stops_later=who(row, now) if waits else None,
        seen=seen(row),
    )


def _waits(later: Workspace, restarts: bool, now: datetime, options: PlanOptions) -> bool:
    return restart_waits(later, now, options) if restarts else lowering_waits(later, now, options)


def _lowered(row: Workspace, later: Workspace, now: datetime) -> bool:
    """Whether applying takes a workspace from under somebody, which it was not about to before."""
    before, then = aim(row, now), aim(later, now)
    return awake(row) and before in (None, DesiredState.RUNNING) and then not in (None, before)


def _restarts(admission: Admission, later: Workspace, now: datetime) -> bool:
    immediate = later.declaration.update is UpdatePolicy.IMMEDIATE
    stays = awake(later) and aim(later, now) is DesiredState.RUNNING
    return admission.template_changed and immediate and stays


def _will_start(row: Workspace, way: tuple[str, ...]) -> bool:
    """Whether a start lies ahead; one that runs already began with the template of before."""
    return Operation.STARTING in way and row.status.operation is not Operation.STARTING


def _path(workspace: Workspace, now: datetime, *, restart: bool = False) -> tuple[str, ...]:
    """From where it is, through the operation in flight, to where it will rest."""
    status, rest = workspace.status, aim(workspace, now)
    data = status.home_store_key is not None or status.archive_key is not None
    if status.operation is Operation.NONE:
        return path(status.phase, rest, held_data=data, outdated=restart)
    way = path(RESULT[status.operation], rest, held_data=data)
    return (status.phase.value, status.operation.value, *way)


def _joined(*reasons: str | None) -> str | None:
    return "; ".join(reason for reason in reasons if reason) or None


def _in_flight(row: Workspace) -> str | None:
    operation = row.status.operation
    return None if operation is Operation.NONE else f"waits until {operation} is done"


def _notes(admission: Admission, row: Workspace) -> tuple[str, ...]:
    notes = []
    if admission.action is Action.UNDELETE:
        notes.append(_brought_back(row))
    elif row.orphaned:
        notes.append("declared again, no orphan any more")
    if row.status.phase is Phase.ERROR:
        reason = f" ({row.status.error_reason})" if row.status.error_reason else ""
        notes.append(f"in ERROR{reason}: waits for codehub recover {row.name}")
    if admission.declaration and admission.declaration.owner != row.declaration.owner:
        notes.append(f"ends the sessions of {row.declaration.owner} to it")
    return tuple(notes)


def _brought_back(row: Workspace) -> str:
    if row.status.deleted_at is None:
        return "brought back while it is being deleted"
    return "brought back with its archive" if row.status.archive_key else "brought back, empty"
