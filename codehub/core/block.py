"""What is in the way of one workspace: everything that keeps it from where it should be.

In the order in which a person should deal with it: nothing moves without a coordinator, an error
waits for somebody, the rest passes by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.advise import advise
from codehub.core.deadline import deadline, is_blind
from codehub.core.express import short
from codehub.core.gauge import progress_words, unanswered
from codehub.core.hold import held
from codehub.core.judge import TERMINAL
from codehub.core.recover import FAILED, found_again
from codehub.core.target import aim, waits_until
from codehub.model.conditions import ConditionName, ConditionStatus
from codehub.model.decision import DISCARD_DATA
from codehub.model.explanation import Block, BlockKind
from codehub.model.reasons import MEANINGS
from codehub.model.states import PHASE_OF, DesiredState, ErrorReason, Operation, Phase
from codehub.model.voice import Voice

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from codehub.model.explanation import Circumstances, Customs, Queued
    from codehub.model.workspace import Workspace

_FACTS: Final = {
    ConditionName.VOLUME_READY: "its volume",
    ConditionName.ARCHIVE_READY: "its archive",
    ConditionName.CONTAINER_READY: "what runs of it",
}
_LEADERLESS: Final = {
    Voice.COMMANDS: "start one: 'codehub up' on this machine, or 'codehub serve coordinator'",
    Voice.BUTTONS: "an admin can start one with 'codehub serve coordinator'",
}
_SILENT: Final = {
    Voice.COMMANDS: "'codehub doctor' checks what does not answer",
    Voice.BUTTONS: "an admin can check with 'codehub doctor' what does not answer",
}
_FAILING: Final = {
    Voice.COMMANDS: "'codehub logs {name}' may show the cause",
    Voice.BUTTONS: "its logs may show the cause",
}
_PASSES: Final = {
    ErrorReason.ACTION_FAILED: ("after a few more failures it is in ERROR", _FAILING),
    ErrorReason.UNREACHABLE: ("it is tried for as long as it takes", _SILENT),
}


def block(workspace: Workspace, around: Circumstances, customs: Customs) -> tuple[Block, ...]:
    """All that is in its way; nothing for one that rests where it should be."""
    return tuple(_blocks(workspace, around, customs))


def moment(at: datetime) -> str:
    """A time of day where that is near, as a person would look it up."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _blocks(workspace: Workspace, around: Circumstances, customs: Customs) -> Iterator[Block]:
    now, status, voice = around.now, workspace.status, customs.voice
    if not around.leader.held:
        yield _without_leader(around, voice)
    reason = status.error_reason
    if reason is not None and reason in TERMINAL:
        yield _error(workspace, reason, voice)
    yield from _recovery(workspace)
    yield from _unknown(workspace, now, voice)
    if status.operation is not Operation.NONE:
        yield _operation(workspace, around, customs)
    if reason is not None and reason not in TERMINAL:
        yield _retry(workspace, reason, now, voice)
    if around.queued is not None:
        yield _limit(around.queued, voice)
    why = held(workspace, now, customs.options, voice)
    if why and status.phase is not Phase.ERROR:
        lifting, ends = _lifting(workspace, voice), _override_end(workspace, now)
        yield Block(BlockKind.HOLD, why, lifting, ends)
    until = waits_until(workspace, now, customs.rules.drain)
    if until is not None:
        yield _people(workspace, until, now, voice)


def _without_leader(around: Circumstances, voice: Voice) -> Block:
    leader = around.leader
    last = f"; the last one was {leader.holder}" if leader.holder else ""
    return Block(
        BlockKind.COORDINATOR,
        f"no coordinator leads, so nothing is looked at or moved{last}",
        _LEADERLESS[voice],
    )


def _error(workspace: Workspace, reason: ErrorReason, voice: Voice) -> Block:
    status = workspace.status
    failed = status.op_progress.get(FAILED)
    during = f" during {failed}" if failed and failed != Operation.NONE.value else ""
    said = f"{status.error_message or 'no message was kept'}; that is, {MEANINGS[reason]}"
    if found_again(workspace):
        said = "what was gone is there again"
    return Block(BlockKind.ERROR, f"{reason}{during}: {said}", advise(workspace, voice))


def _recovery(workspace: Workspace) -> Iterator[Block]:
    asked = workspace.intent.recover_requested
    if asked is None:
        return
    what = "deletion without an archive" if asked == DISCARD_DATA else f"recovery ({asked})"
    yield Block(BlockKind.RECOVERY, f"{what} was asked for and waits for the coordinator")


def _unknown(workspace: Workspace, now: datetime, voice: Voice) -> Iterator[Block]:
    """One block for all facts that nobody could ask for; they mostly have one cause."""
    found = {
        name: condition
        for name, condition in workspace.status.conditions.items()
        if condition.status is ConditionStatus.UNKNOWN and name in _FACTS
    }
    if not found:
        return
    what = " and ".join(_FACTS[name] for name in _FACTS if name in found)
    times = [each.last_transition_time for each in found.values() if each.last_transition_time]
    since = f" for {short(now - min(times))}" if times else ""
    why = "; ".join(dict.fromkeys(each.message for each in found.values() if each.message))
    yield Block(
        BlockKind.UNKNOWN,
        f"{what} could not be looked at{since}: {why or 'nobody answered'}",
        f"nothing is taken for lost meanwhile; {_SILENT[voice]}",
    )


def _operation(workspace: Workspace, around: Circumstances, customs: Customs) -> Block:
    status, now = workspace.status, around.now
    since = f" for {short(now - status.op_started_at)}" if status.op_started_at else ""
    how_far = progress_words(status.op_progress)
    # What cannot be reached is tried for as long as it takes, and time without a look is none.
    silent = status.error_reason is ErrorReason.UNREACHABLE or is_blind(status)
    counts = around.leader.held and not silent
    until = deadline(status, now, customs.rules) if counts else None
    unless = "unless its port answers" if unanswered(status) else "without progress"
    return Block(
        BlockKind.OPERATION,
        f"{status.operation} is under way{since}" + (f": {how_far}" if how_far else ""),
        "" if until is None else f"{unless} it is given up at {moment(until)}",
        until,
    )


def _retry(workspace: Workspace, reason: ErrorReason, now: datetime, voice: Voice) -> Block:
    status, again = workspace.status, ""
    becomes, to_do = _PASSES[reason]
    if status.retry_at is not None:
        wait = f"in {short(status.retry_at - now)}" if status.retry_at > now else "now"
        again = f"; it is tried again {wait}"
    times = f" (failed {status.error_count} times so far)" if status.error_count > 1 else ""
    return Block(
        BlockKind.RETRY,
        f"{reason}: {status.error_message or 'no message was kept'}{times}{again}",
        f"{becomes}; {to_do[voice].format(name=workspace.name)}",
        status.retry_at,
    )


def _limit(queued: Queued, voice: Voice) -> Block:
    place = f"it is number {queued.position} of those that wait"
    if queued.owner is None:
        return Block(
            BlockKind.LIMIT,
            f"this hub runs {queued.limit} at once and has as many; {place}",
            "it starts by itself when one stops; an admin can raise maxRunningGlobal in the specs",
        )
    running = f" ({', '.join(queued.running)})" if queued.running else ""
    return Block(
        BlockKind.LIMIT,
        f"{queued.owner} may run {queued.limit} at once and has as many{running}; {place}",
        f"{_room(queued, voice)}an admin can raise maxRunning in the specs",
    )


def _room(queued: Queued, voice: Voice) -> str:
    if not queued.stoppable:
        return ""
    if voice is Voice.BUTTONS:
        return "stop one of them to make room; "
    return f"'codehub stop {queued.stoppable[0]}' makes room; "


def _lifting(workspace: Workspace, voice: Voice) -> str:
    """What brings a held one up again, where its own sentence does not say it."""
    declaration, name = workspace.declaration, workspace.name
    if voice is Voice.BUTTONS:
        return _lifting_here(workspace)
    if declaration.suspend:
        return f"remove 'suspend: true' at {declaration.source} and run 'codehub apply'"
    if workspace.intent.override is not None:
        return "an admin can end an override with 'codehub override --clear'"
    at_rest = workspace.status.operation is Operation.NONE
    if at_rest and declaration.declared_state is DesiredState.RUNNING:
        return f"'codehub start {name}' starts it now"
    return ""


def _lifting_here(workspace: Workspace) -> str:
    """The same beside the buttons that start it."""
    declaration = workspace.declaration
    if declaration.suspend:
        return f"remove 'suspend: true' at {declaration.source}"
    overridden = workspace.intent.override is not None
    return "an admin can end an override with 'codehub override --clear'" if overridden else ""


def _override_end(workspace: Workspace, now: datetime) -> datetime | None:
    override = workspace.intent.override
    return override.until if override is not None and override.until > now else None


def _people(workspace: Workspace, until: datetime, now: datetime, voice: Voice) -> Block:
    rest = aim(workspace, now)
    where = PHASE_OF[rest].value if rest else "its place"
    return Block(
        BlockKind.PEOPLE,
        f"the specs lower it to {where}, which waits for the people in it, at least "
        f"{short(until - now)} more",
        f"'codehub stop {workspace.name}' or 'codehub apply --now' does not wait"
        if voice is Voice.COMMANDS
        else "",
        until,
    )
