"""What a judgement and a decision leave in the database: the next status of a workspace.

One function for all of it, so that what must change together changes together: ERROR with its
reason and no operation, a saved claim with its new generation, a recovery with what it gives up.
The controller writes the difference in one fenced statement; no difference, no write.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codehub.core.deadline import note_blindness
from codehub.core.judge import MAKES_VOLUME, VOLUME_MISSING
from codehub.core.recover import FAILED, discards_data
from codehub.core.retry import UNREACHABLE_COUNT
from codehub.model.conditions import ConditionName
from codehub.model.decision import (
    Claim,
    Complete,
    Fail,
    Nothing,
    Recover,
    Release,
    Retry,
    Settle,
    Undelete,
    Wait,
)
from codehub.model.runtime import VolumeRef
from codehub.model.states import Operation, Phase, RecoverMode

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from codehub.model.decision import Decision, Judgement
    from codehub.model.workspace import Status, Workspace


def record(
    workspace: Workspace, judgement: Judgement, decision: Decision, *, now: datetime, op_id: UUID
) -> Status:
    """The status to store; the very same one when nothing changed. `op_id` is for a claim."""
    old = workspace.status
    if isinstance(decision, Nothing) and _unchanged(workspace, judgement):
        return old
    status = replace(
        old,
        phase=judgement.phase,
        phase_changed_at=judgement.phase_changed_at,
        conditions=judgement.conditions,
        observed_generation=workspace.generation,
    )
    if old.operation is not Operation.NONE:
        blind = isinstance(decision, Wait) and decision.blind
        status = replace(status, op_progress=note_blindness(old.op_progress, blind, now))
    new = _decided(replace(workspace, status=status), decision, now, op_id)
    if new.phase is old.phase:
        new = replace(new, phase_changed_at=old.phase_changed_at or now)
    return old if new == old else replace(new, observed_at=now)


def _unchanged(workspace: Workspace, judgement: Judgement) -> bool:
    """The common case, told cheaply: thousands of workspaces rest in every pass."""
    status = workspace.status
    return (
        judgement.phase is status.phase
        and judgement.phase_changed_at == status.phase_changed_at
        and (judgement.conditions is status.conditions or judgement.conditions == status.conditions)
        and status.observed_generation == workspace.generation
    )


def _decided(workspace: Workspace, decision: Decision, now: datetime, op_id: UUID) -> Status:
    status = workspace.status
    match decision:
        case Claim():
            return _claimed(workspace, decision, now, op_id)
        case Complete():
            return _completed(status, decision, now)
        case Release():
            return replace(_at_rest(status), error_reason=None, error_message=None)
        case Retry():
            return _retried(status, decision)
        case Fail():
            return _failed(status, decision, now)
        case Recover():
            return _recovered(status, decision)
        case Undelete():
            return replace(status, deleted_at=None, op_progress={})
        case Settle():
            return _without_error(status)
        case _:
            return status


def _claimed(workspace: Workspace, claim: Claim, now: datetime, op_id: UUID) -> Status:
    status, operation = workspace.status, claim.operation
    if claim.leaves_error:
        status = _without_error(status)
    if operation in MAKES_VOLUME:
        status = _next_home(workspace, status)
    if operation is Operation.DELETING and not _is_missed(workspace):
        status = give_up_home(status)
    if operation is Operation.STARTING:
        status = replace(status, container_template=workspace.template_digest)
    return replace(
        _in_phase(status, claim.phase, now),
        operation=operation,
        op_id=op_id,
        op_started_at=now,
        op_progress={},
        retry_at=None,
    )


def _is_missed(workspace: Workspace) -> bool:
    """Whether the home should be there, is not, and nobody gave it up.

    It stays the home of what is deleted: it may be on a disk that is away, and whoever undeletes
    the workspace is told that it is lost instead of getting something else in its place.
    """
    return _is_missing(workspace.status) and not discards_data(workspace)


def _is_missing(status: Status) -> bool:
    seen = status.conditions.get(ConditionName.VOLUME_READY)
    return seen is not None and seen.reason == VOLUME_MISSING


def _completed(status: Status, complete: Complete, now: datetime) -> Status:
    done = _in_phase(_at_rest(_without_error(status)), complete.phase, now)
    deleting = complete.operation is Operation.DELETING
    return replace(
        done,
        error_count=complete.error_count,
        op_id=None,
        deleted_at=now if deleting else status.deleted_at,
    )


def _retried(status: Status, again: Retry) -> Status:
    progress = dict(status.op_progress)
    progress.pop(UNREACHABLE_COUNT, None)
    if again.unreachable_count:
        progress[UNREACHABLE_COUNT] = again.unreachable_count
    return replace(
        status,
        error_reason=again.reason,
        error_message=again.message,
        error_count=again.error_count,
        retry_at=again.retry_at,
        op_progress=progress,
    )


def _failed(status: Status, fail: Fail, now: datetime) -> Status:
    """The op_id stays, for GC alone. A volume that was never finished is no home: it is retired."""
    if fail.operation in MAKES_VOLUME:
        status = retire_home(status)
    return replace(
        _in_phase(_at_rest(status), Phase.ERROR, now),
        op_progress={FAILED: fail.operation.value},
        error_reason=fail.reason,
        error_message=fail.message,
        error_count=fail.error_count,
    )


def _recovered(status: Status, recovery: Recover) -> Status:
    status = replace(_without_error(status), op_progress={})
    if recovery.mode is RecoverMode.PLAIN:
        return status
    status = give_up_home(status)
    if recovery.mode is RecoverMode.FROM_ARCHIVE:
        return status
    return replace(status, archive_key=None, archive_bytes=None, archive_sha256=None)


def give_up_home(status: Status) -> Status:
    """As a person chose: what is there may go, what nobody finds is kept should it come back.

    It is on a disk that is away, perhaps, and that person took it for gone.
    """
    home = status.home_store_key
    if home is None or not _is_missing(status):
        return retire_home(status)
    context = status.home_ctx
    context = replace(context, restore_marker=None, given_up=(*context.given_up, home))
    return replace(status, home_store_key=None, home_ctx=context)


def retire_home(status: Status) -> Status:
    """The home is one no more: its volume may go, and is never mounted again."""
    if status.home_store_key is None:
        return status
    retired = (*status.home_ctx.retired, status.home_store_key)
    context = replace(status.home_ctx, restore_marker=None, retired=retired)
    return replace(status, home_store_key=None, home_ctx=context)


def _next_home(workspace: Workspace, status: Status) -> Status:
    """Name the next generation before its volume is made; no generation is used twice."""
    generation = status.home_generation + 1
    retired = retire_home(status)
    return replace(
        retired,
        home_generation=generation,
        home_store_key=VolumeRef(workspace.id, generation).name,
        home_ctx=replace(retired.home_ctx, restore_marker=None),
    )


def _in_phase(status: Status, phase: Phase, now: datetime) -> Status:
    if phase is status.phase:
        return status
    return replace(status, phase=phase, phase_changed_at=now)


def _at_rest(status: Status) -> Status:
    return replace(
        status, operation=Operation.NONE, op_started_at=None, op_progress={}, retry_at=None
    )


def _without_error(status: Status) -> Status:
    return replace(status, error_reason=None, error_message=None, error_count=0, retry_at=None)
