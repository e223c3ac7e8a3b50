"""One workspace in one pass: what was read and seen of it, and what follows. Pure.

`decide` knows the row and the facts; what only this process knows comes in here: how the act of the
operation in flight ended, whether there is a free hand for it, and what nobody watched before this
term began.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from codehub.coordinator.seen import Things, facts_of, is_stray, stray_volumes
from codehub.core.deadline import note_blindness
from codehub.core.decide import decide
from codehub.core.judge import ARCHIVE_DAMAGED, MAKES_VOLUME, judge
from codehub.core.record import record
from codehub.core.recover import FAILED, discards_data
from codehub.core.retry import LONGEST, retry
from codehub.model.conditions import ConditionName, ConditionStatus, Presence
from codehub.model.decision import (
    Claim,
    Complete,
    Continue,
    Fail,
    Nothing,
    Recover,
    Retry,
    Wait,
)
from codehub.model.states import ErrorReason, Operation, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from codehub.coordinator.acts import Outcome
    from codehub.model.conditions import Facts
    from codehub.model.decision import Decision, Rules
    from codehub.model.workspace import Status, Workspace

KEEP_ALL: Final = frozenset({ErrorReason.DATA_LOST, ErrorReason.CONTAINER_WITHOUT_VOLUME})
"""Errors after which nothing is removed: what looks like a stray may be all that is left."""


@dataclass(frozen=True, slots=True)
class Case:
    """`seen` is the row as it was read, `noted` the same with unwatched time noted.

    `unheard` says that it fails, and that what it said last may tell why.
    """

    seen: Workspace
    noted: Workspace
    things: Things
    facts: Facts
    decision: Decision
    unheard: bool = False

    def status(self, now: datetime, op_id: UUID) -> Status:
        """What is to be stored; the very same status when nothing changed."""
        judgement = judge(self.noted, self.facts, now)
        after = record(self.noted, judgement, self.decision, now=now, op_id=op_id)
        if after is self.noted.status:
            after = _noticed(_reached(after, self.things), self.things)
            if after is not self.noted.status:
                return replace(after, observed_at=now)
            # Time that nobody watched is stored even where nothing else changed.
            return self.seen.status if self.noted is self.seen else replace(after, observed_at=now)
        if isinstance(self.decision, Recover):
            after = self._where_it_is(after, now, op_id)
        return _noticed(_reached(_without_gone(after, self.things), self.things), self.things)

    def _where_it_is(self, recovered: Status, now: datetime, op_id: UUID) -> Status:
        """What was ERROR stands somewhere again, or is in ERROR for a reason that still holds.

        What was seen is looked at anew: what still runs on a home that was given up is a stray.
        """
        workspace, damage = replace(self.noted, status=recovered), self.facts.damage
        facts = facts_of(
            workspace, self.things, self.facts.archive, port_answered=False, doubt=damage
        )
        judged = judge(workspace, facts, now)
        decision: Decision = Nothing(self.why)
        if judged.broken is not None:
            reason, message = judged.broken.reason, judged.broken.message
            decision = Fail(reason, message, Operation.NONE, error_count=1)
        return record(workspace, judged, decision, now=now, op_id=op_id)

    def told(self, words: str) -> Case:
        """The same with what it said last in its message, cut at its beginning where it is long."""
        if not words or not isinstance(self.decision, Fail):
            return self
        message = self.decision.message
        room = LONGEST - len(message) - len(": ")
        said = words if len(words) <= room else f"…{words[1 - room :]}"
        return replace(self, decision=replace(self.decision, message=f"{message}: {said}"))

    @property
    def why(self) -> str:
        match self.decision:
            case Retry() | Fail():
                return self.decision.message
            case Complete():
                return "done"
            case Continue():
                return ""
            case other:
                return other.why

    @property
    def answers(self) -> bool:
        """Whether it does what `recover_requested` asks for."""
        claims = isinstance(self.decision, Claim)
        discards = claims and self.decision_operation is Operation.DELETING
        return isinstance(self.decision, Recover) or (discards and discards_data(self.seen))

    @property
    def is_untidy(self) -> bool:
        """Whether something of it belongs to nothing, while it is at rest."""
        return is_leftover(self.seen, self.things) or needs_tidying(self.seen, self.things)

    @property
    def decision_operation(self) -> Operation:
        decision = self.decision
        return decision.operation if isinstance(decision, Claim | Continue) else Operation.NONE


def consider(
    workspace: Workspace,
    things: Things,
    archive: Presence,
    outcome: Outcome | None,
    now: datetime,
    rules: Rules,
    *,
    unwatched: bool = False,
    idle: bool = False,
    doubt: str = "",
) -> Case:
    """What follows for one workspace; `unwatched` says that it was in flight before this term.

    `idle` says that no act for it runs here, `doubt` why nothing is known of its archive or what is
    wrong with it.
    """
    noted = _note_unwatched(workspace) if unwatched else workspace
    answered = outcome is not None and outcome.reason is None
    facts = facts_of(workspace, things, archive, port_answered=answered, doubt=doubt)
    in_flight = workspace.status.operation is not Operation.NONE
    facts = replace(facts, idle=True) if idle and in_flight else facts
    decision, heard = decide(noted, facts, now, rules), False
    if isinstance(decision, Continue) and outcome is not None:
        reason = outcome.reason or ErrorReason.ACTION_FAILED
        message = outcome.message if outcome.reason else _without_effect(workspace, things)
        decision, heard = retry(noted, reason, message, now, rules), outcome.reason is not None
    unheard = not heard and _is_of_container(decision, things)
    if isinstance(decision, Claim):
        decision = _unless_overtaken(workspace, things, decision)
    if is_leftover(workspace, things) and not isinstance(decision, Fail):
        decision = Nothing("what a failed start left behind is ended first")
    return Case(workspace, noted, things, facts, decision, unheard)


def _is_of_container(decision: Decision, things: Things) -> bool:
    """Whether it fails by what its container did, or did not do."""
    if not isinstance(decision, Fail) or things.container is None:
        return False
    runs = decision.operation in (Operation.NONE, Operation.STARTING)
    return runs and decision.reason in (ErrorReason.TIMEOUT, ErrorReason.RETRY_EXCEEDED)


def _unless_overtaken(workspace: Workspace, things: Things, claim: Claim) -> Claim | Fail:
    """The next home may have the name of one that is there: this database is older than it.

    It was restored from a backup then, and that home may hold what nothing else holds.
    """
    status = workspace.status
    newer = [each for each in things.volumes if each.generation > status.home_generation]
    if claim.operation not in MAKES_VOLUME or not newer:
        return claim
    message = f"the volume {newer[0].name} is newer than this database: move it away, then recover"
    return Fail(
        ErrorReason.RETRY_EXCEEDED, message, Operation.NONE, error_count=status.error_count + 1
    )


def without_room(case: Case) -> Case:
    """The operation in flight must wait for a free hand, and that time does not count."""
    return replace(case, decision=Wait(None, "waits for a free hand", blind=True))


def archive_fact(workspace: Workspace, answers: Mapping[UUID, Presence]) -> Presence | None:
    """What is known of its archive; None when it must be known and nobody could look yet."""
    if workspace.status.archive_key is None:
        return Presence.ABSENT
    found = answers.get(workspace.id)
    if found is not None or workspace.status.home_store_key is None:
        return found
    stored = workspace.status.conditions.get(ConditionName.ARCHIVE_READY)
    there = stored is not None and stored.status is ConditionStatus.TRUE
    return Presence.PRESENT if there else Presence.UNKNOWN


def is_leftover(workspace: Workspace, things: Things) -> bool:
    """Whether a start that failed left its container behind."""
    status, container = workspace.status, things.container
    if status.phase is not Phase.ERROR or container is None or container.op_id is None:
        return False
    failed = status.op_progress.get(FAILED) == Operation.STARTING.value
    return failed and container.op_id == status.op_id


def needs_tidying(workspace: Workspace, things: Things) -> bool:
    """Whether there is something of a workspace at rest that belongs to nothing."""
    status = workspace.status
    if status.operation is not Operation.NONE or workspace.declaration.suspend:
        return False
    if _keeps_all(status) or things.unknown is not None:
        return False
    return is_stray(workspace, things.container) or bool(stray_volumes(workspace, things))


def _keeps_all(status: Status) -> bool:
    """A volume that was retired for an archive may be all there is when that one is damaged.

    Not so where a restore found it out: then the object has its size, and the volume is a half.
    """
    ready = status.conditions.get(ConditionName.ARCHIVE_READY)
    damaged = ready is not None and ready.reason == ARCHIVE_DAMAGED
    return status.error_reason in KEEP_ALL or (
        damaged and status.error_reason is ErrorReason.ARCHIVE_CORRUPTED
    )


def _without_effect(workspace: Workspace, things: Things) -> str:
    """Why an act that ended well counts as failed: what it was for is not there afterwards."""
    operation, container = workspace.status.operation, things.container
    if operation is not Operation.STARTING or container is None or container.running:
        return f"{operation} was carried out, but had no effect"
    code = "" if container.exit_code is None else f" with exit code {container.exit_code}"
    return f"its port answered, and then it ended{code}"


def _note_unwatched(workspace: Workspace) -> Workspace:
    """Time in which nobody looked does not count towards time limits."""
    status = workspace.status
    since = status.observed_at or status.op_started_at
    if status.operation is Operation.NONE or since is None:
        return workspace
    progress = note_blindness(status.op_progress, True, since)
    if progress is status.op_progress:
        return workspace
    return replace(workspace, status=replace(status, op_progress=progress))


def _reached(status: Status, things: Things) -> Status:
    """With the address at which a running workspace is reached; what is unknown stays as it was."""
    if things.unknown is not None and status.phase is Phase.RUNNING:
        return status
    container = things.container
    runs = status.phase is Phase.RUNNING and container is not None and container.running
    upstream = container.upstream if container is not None and runs else None
    return status if upstream == status.upstream else replace(status, upstream=upstream)


def _without_gone(status: Status, things: Things) -> Status:
    """Retired volumes that are no longer listed need not be remembered."""
    if not status.home_ctx.retired or things.unknown is not None:
        return status
    listed = {each.name for each in things.volumes}
    left = tuple(name for name in status.home_ctx.retired if name in listed)
    if left == status.home_ctx.retired:
        return status
    return replace(status, home_ctx=replace(status.home_ctx, retired=left))


def _noticed(status: Status, things: Things) -> Status:
    """With those of the homes that were given up which are there again."""
    context = status.home_ctx
    if not context.given_up or things.unknown is not None:
        return status
    listed = {each.name for each in things.volumes}
    found = tuple(name for name in context.given_up if name in listed)
    if found == context.found:
        return status
    return replace(status, home_ctx=replace(context, found=found))
