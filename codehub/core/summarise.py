"""The report: all that an operator wants to know of the fleet, from the stored rows alone.

Why a workspace is where it is comes from the same functions that plans use (`hold`, `interrupt`,
`forecast`, `detect`), so that no two places tell different stories.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Final

from codehub.core.advise import advise
from codehub.core.detect import detect_drift
from codehub.core.express import short
from codehub.core.forecast import forecast
from codehub.core.gauge import progress_words, unanswered
from codehub.core.hold import held
from codehub.core.interrupt import lowering_waits, waiting_words
from codehub.core.tally import tally_holds, tally_owners, tally_storage
from codehub.core.target import aim
from codehub.model.history import Usage
from codehub.model.reasons import WORDS
from codehub.model.report import Progress, Report, ReportError, ReportLine
from codehub.model.states import PHASE_OF, DesiredState, Operation, Phase
from codehub.model.voice import Voice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codehub.model.history import History
    from codehub.model.plan import Forecast, PlanOptions
    from codehub.model.revision import HubState, Revision
    from codehub.model.workspace import Status, Workspace

PHASES: Final = (
    *(Phase.RUNNING, Phase.STANDBY, Phase.ARCHIVED, Phase.PENDING),
    *(Phase.ERROR, Phase.DELETING),
)
"""The phases of workspaces that are there, in the order in which they are told."""


_UNUSED: Final = Usage()


def summarise(
    state: HubState,
    *,
    last_load: Revision | None,
    now: datetime,
    options: PlanOptions,
    history: History | None = None,
) -> Report:
    """The report of this moment. `last_load` is the newest revision, applied or failed."""
    there = [each for each in state.workspaces if each.status.phase is not Phase.DELETED]
    there.sort(key=lambda each: each.name)
    moves = _first_moves(there, now, options)
    usage = history.usage if history is not None else {}
    held_back, idle = tally_holds(there, now, options)
    found = Counter(each.status.phase for each in there)
    return Report(
        generated_at=now,
        hub=state.hub.name,
        hub_id=state.hub_id,
        revision=state.revision,
        failed=last_load if last_load is not None and not last_load.applied else None,
        counts={phase: found[phase] for phase in PHASES},
        busy=sum(each.status.operation is not Operation.NONE for each in there),
        lines=tuple(
            _line(each, moves.get(each.name), usage.get(each.id, _UNUSED), now, options)
            for each in there
        ),
        errors=tuple(_error(each) for each in there if each.status.phase is Phase.ERROR),
        drift=detect_drift(there, now),
        coming=tuple(moves.values()),
        held=held_back,
        idle=idle,
        owners=tally_owners(state.workspaces, usage),
        storage=tally_storage(state.workspaces),
        history=history,
    )


def progress(status: Status) -> Progress | None:
    """How far the operation in flight is; None where nothing has been said of it yet."""
    if status.operation is Operation.NONE:
        return None
    words, part = progress_words(status.op_progress), _part(status.op_progress)
    return Progress(words, part) if words else None


def reason(
    workspace: Workspace, now: datetime, options: PlanOptions, voice: Voice = Voice.COMMANDS
) -> str:
    """One sentence on why it is where it is."""
    return "; ".join(_reasons(workspace, now, options, voice)) or "as declared"


def _reasons(
    workspace: Workspace, now: datetime, options: PlanOptions, voice: Voice
) -> Iterator[str]:
    status, wanted = workspace.status, aim(workspace, now)
    if workspace.orphaned:
        yield "no spec declares it any more"
    if status.phase is Phase.ERROR:
        waits = "waits" if voice is Voice.COMMANDS else "so it waits"
        yield f"{_wrong(status, voice)}, {waits} for a person"
        return
    if status.error_reason is not None:
        yield _retrying(status, now, voice)
    if wanted is DesiredState.DELETED:
        yield "being deleted"
    if lowering_waits(workspace, now, options):
        yield waiting_words(options)
        return
    holds = held(workspace, now, options, voice)
    if holds:
        # What it was declared to be says nothing of one that no spec declares.
        yield holds.partition(": ")[2] if workspace.orphaned else holds
    elif wanted is not None and wanted is not DesiredState.DELETED:
        yield from _under_way(workspace, wanted)


def _wrong(status: Status, voice: Voice) -> str:
    """The code for command lines and reports; words where people look at a page."""
    if status.error_reason is None:
        return "an error"
    return status.error_reason if voice is Voice.COMMANDS else WORDS[status.error_reason]


def _retrying(status: Status, now: datetime, voice: Voice) -> str:
    again = ""
    if status.retry_at is not None:
        wait = short(status.retry_at - now)
        again = f", tried again in {wait}" if status.retry_at > now else ", being tried again"
    message = f": {status.error_message}" if status.error_message else ""
    return f"{_wrong(status, voice)}{message}{again}"


def _under_way(workspace: Workspace, wanted: DesiredState) -> Iterator[str]:
    status = workspace.status
    if unanswered(status):
        yield "its port has not answered yet"
    if status.phase is PHASE_OF[wanted]:
        return
    if status.operation is Operation.NONE:
        yield f"waits for its turn to become {wanted}"
    else:
        yield f"on the way to {wanted}"


def _line(
    workspace: Workspace,
    move: Forecast | None,
    usage: Usage,
    now: datetime,
    options: PlanOptions,
) -> ReportLine:
    status = workspace.status
    return ReportLine(
        name=workspace.name,
        owner=workspace.declaration.owner,
        phase=status.phase,
        why=reason(workspace, now, options),
        since=status.phase_changed_at or workspace.created_at,
        operation=status.operation,
        progress=progress(status),
        next_move=move,
        last_access_at=workspace.activity.last_access_at,
        last_access_source=workspace.activity.source,
        declared=None if workspace.orphaned else workspace.declaration.source,
        usage=usage,
    )


def _error(workspace: Workspace) -> ReportError:
    status = workspace.status
    return ReportError(
        name=workspace.name,
        owner=workspace.declaration.owner,
        reason=status.error_reason,
        message=status.error_message or "no message was kept",
        advice=advise(workspace),
        since=status.phase_changed_at,
    )


def _first_moves(
    workspaces: list[Workspace], now: datetime, options: PlanOptions
) -> Mapping[str, Forecast]:
    """The next thing that idleness does to each, however far ahead, in the order of time."""
    until = datetime.max.replace(tzinfo=now.tzinfo)
    moves: dict[str, Forecast] = {}
    for each in forecast(workspaces, now=now, until=until, options=options):
        moves.setdefault(each.name, each)
    return moves


def _part(found: Mapping[str, object]) -> float | None:
    done, total = found.get("bytes"), found.get("total")
    if not isinstance(done, int) or not isinstance(total, int) or total <= 0:
        return None
    return max(0.0, min(done / total, 1.0))
