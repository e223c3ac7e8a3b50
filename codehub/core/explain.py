"""Explain one workspace: where it is and why, who wanted it so, what comes next, what blocks it.

Pure sentences from values that were read together. The same functions that decide, forecast and
hold are asked, so an explanation cannot tell another story than what happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.block import block, moment
from codehub.core.detect import outdated
from codehub.core.express import short
from codehub.core.foresee import foresee, next_fall, remind_at
from codehub.core.gauge import amount, unanswered
from codehub.core.path import path
from codehub.core.step import RESULT
from codehub.core.target import aim
from codehub.model.conditions import ConditionName
from codehub.model.explanation import Explanation, Line
from codehub.model.states import DesiredState, IntentSource, Operation, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from codehub.model.explanation import Circumstances, Customs
    from codehub.model.workspace import Workspace

_ACTIVITY: Final = {
    "input": "somebody typed or clicked",
    "traffic": "its pages were used",
    "connections": "a connection to it was open",
    "cpu": "it was computing",
    "touch": "somebody said so with 'codehub touch'",
}


_SILENT: Final = "it runs, but its port has not answered yet"


def explain(workspace: Workspace, around: Circumstances, customs: Customs) -> Explanation:
    """Everything there is to say of this workspace at this moment."""
    deleted = workspace.status.deleted_at is not None
    falls = None if deleted else next_fall(workspace, around, customs)
    lines = _farewell if deleted else _story
    return Explanation(
        workspace=workspace,
        now=around.now,
        commit=around.commit,
        headline=_headline(workspace, around.now),
        lines=tuple(lines(workspace, around, customs)),
        blocks=() if deleted else block(workspace, around, customs),
        conditions=tuple(
            (name, workspace.status.conditions[name])
            for name in ConditionName
            if name in workspace.status.conditions
        ),
        way=(workspace.status.phase.value,) if deleted else _way(workspace, around.now),
        leader=around.leader,
        moved=around.moved,
        next=falls,
        remind_at=remind_at(workspace, falls, customs) if falls else None,
        queued=around.queued,
        kept_until=_kept_until(workspace, customs),
    )


def _headline(workspace: Workspace, now: datetime) -> str:
    status, name = workspace.status, workspace.name
    if status.deleted_at is not None:
        return f"{name} was deleted {short(now - status.deleted_at)} ago"
    if unanswered(status):
        lasts = f" for {short(now - status.op_started_at)}" if status.op_started_at else ""
        return f"{name} has been {status.operation}{lasts}: {_SILENT}"
    since = status.phase_changed_at or workspace.created_at
    lasts = f" for {short(now - since)}" if since else ""
    where = "in ERROR" if status.phase is Phase.ERROR else status.phase.value
    busy = "" if status.operation is Operation.NONE else f", {status.operation} is under way"
    return f"{name} has been {where}{lasts}{busy}"


def _story(workspace: Workspace, around: Circumstances, customs: Customs) -> Iterator[Line]:
    yield Line("phase", _phase(workspace))
    yield Line("owner", workspace.declaration.owner)
    yield Line("declared", _declared(workspace, around.commit))
    yield Line("asked", _asked(workspace, around))
    yield Line("heading", _heading(workspace, around.now))
    yield Line("activity", _activity(workspace, around.now))
    yield Line("next", foresee(workspace, around, customs))
    yield from _found(workspace)
    yield Line("coordinator", _coordinator(around))


def _farewell(workspace: Workspace, around: Circumstances, customs: Customs) -> Iterator[Line]:
    yield Line("owner", workspace.declaration.owner)
    yield Line("declared", f"it was at {workspace.declaration.source}")
    yield Line("asked", _asked(workspace, around))
    yield Line("archive", _kept(workspace, around, customs))
    yield Line("back", _way_back(workspace, around))
    yield from _found(workspace)


def _found(workspace: Workspace) -> Iterator[Line]:
    """Homes that came back after they had been given up."""
    found = workspace.status.home_ctx.found
    if found:
        yield Line(
            "found",
            f"{', '.join(found)}, given up while nobody found it; it is kept and not used: look "
            "into it by hand, copy out what is needed, then remove it by hand",
        )


def _phase(workspace: Workspace) -> str:
    status = workspace.status
    match status.phase:
        case Phase.PENDING:
            return "nothing of it has been made yet"
        case Phase.ARCHIVED:
            size = f" ({amount(status.archive_bytes)})" if status.archive_bytes else ""
            return f"nothing runs, its home is packed away in an archive{size}"
        case Phase.STANDBY:
            return "nothing runs, its home is there"
        case Phase.RUNNING:
            return _SILENT if unanswered(status) else "it runs"
        case Phase.ERROR:
            return f"it failed ({status.error_reason or 'no reason was kept'}) and waits for you"
        case Phase.DELETING:
            return "it is being deleted"
        case Phase.DELETED:
            return "it was deleted"


def _declared(workspace: Workspace, commit: str | None) -> str:
    declaration = workspace.declaration
    if workspace.orphaned:
        return f"by no spec any more (it was at {declaration.source}); it is kept as it is"
    where = f"{declaration.declared_state} at {declaration.source}"
    if commit:
        where += f", commit {commit[:12]}"
    if workspace.spec_revision is not None:
        where += f", revision {workspace.spec_revision}"
    marks = [word for word in ("pinned", "suspend", "protect") if getattr(declaration, word)]
    return where + (f" ({', '.join(marks)})" if marks else "")


def _asked(workspace: Workspace, around: Circumstances) -> str:
    """Who last moved it, when and why."""
    intent, event = workspace.intent, around.moved
    known = event if event is not None and event.new == intent.desired.value else None
    when = f" {short(around.now - intent.at)} ago" if intent.at else ""
    came = f" from {known.old}" if known and known.old else ""
    by = intent.by or "somebody"
    match intent.source:
        case IntentSource.SPEC:
            text = f"{intent.desired} by the specs{when}" + (
                f", applied by {intent.by}" if intent.by else ""
            )
        case IntentSource.TTL:
            text = f"{intent.desired} by idleness{came}{when}"
        case IntentSource.VISIT:
            text = f"{intent.desired} by a visit of {by}{came}{when}"
        case IntentSource.API | IntentSource.CLI:
            text = f"{intent.desired} by {by}{came}{when}, through the {intent.source}"
    return text + (f": {known.reason}" if known and known.reason else "")


def _heading(workspace: Workspace, now: datetime) -> str:
    way, rest = _way(workspace, now), aim(workspace, now)
    notes = []
    if rest is None:
        notes.append("nowhere: it is suspended and stays where it is")
    elif workspace.status.phase is Phase.ERROR and rest is not DesiredState.DELETED:
        notes.append("nowhere until it is recovered")
    else:
        notes.append(" -> ".join(way) if len(way) > 1 else "nowhere: it is where it should be")
    if outdated(workspace):
        notes.append("it runs from an older spec and takes the new one at its next start")
    if workspace.status.observed_generation < workspace.generation:
        notes.append("the coordinator has not looked at its newest spec yet")
    return "; ".join(notes)


def _way(workspace: Workspace, now: datetime) -> tuple[str, ...]:
    """From where it is, through the operation in flight, to where it will rest."""
    status, rest = workspace.status, aim(workspace, now)
    data = status.home_store_key is not None or status.archive_key is not None
    if status.operation is Operation.NONE:
        return path(status.phase, rest, held_data=data)
    way = (status.operation.value, *path(RESULT[status.operation], rest, held_data=data))
    return way if unanswered(status) else (status.phase.value, *way)


def _activity(workspace: Workspace, now: datetime) -> str:
    activity = workspace.activity
    if activity.last_access_at is None:
        return "nobody was seen in it yet"
    how = _ACTIVITY.get(activity.source or "", "")
    source = f" ({activity.source}{': ' + how if how else ''})" if activity.source else ""
    return f"last seen {short(now - activity.last_access_at)} ago{source}"


def _coordinator(around: Circumstances) -> str:
    leader = around.leader
    if not leader.held:
        return "none leads"
    leads = f"has led for {short(around.now - leader.since)}" if leader.since else "leads"
    return f"{leader.holder or 'one'} {leads} (epoch {leader.epoch})"


def _kept_until(workspace: Workspace, customs: Customs) -> datetime | None:
    status = workspace.status
    if status.deleted_at is None or status.purged_at is not None or status.archive_key is None:
        return None
    return status.deleted_at + customs.options.retention


def _kept(workspace: Workspace, around: Circumstances, customs: Customs) -> str:
    if workspace.status.purged_at is not None:
        return "gone: its retention has ended, and nothing brings it back"
    until = _kept_until(workspace, customs)
    if until is None:
        return "there is none: it held no data"
    if until <= around.now:
        return "its retention has ended: it may go at any moment"
    return f"kept until {moment(until)}, for {short(until - around.now)} more"


def _way_back(workspace: Workspace, around: Circumstances) -> str:
    name, declaration = workspace.name, workspace.declaration
    if workspace.status.purged_at is not None:
        return "none; a spec of this name makes a new, empty workspace"
    if around.declared:
        return f"'codehub undelete {name}'"
    return (
        f"put it back into the specs with the owner {declaration.owner} (it was at "
        f"{declaration.source}) and run 'codehub apply'"
    )
