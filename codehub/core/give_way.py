"""Operations that give way: they wait for somebody who does not answer, and have done nothing yet.

An operation is carried on until it is done or has failed, and what cannot be reached is asked for
ever. Together the two would keep people out of a home on their own disk for as long as a bucket is
away, and would make a workspace whose registry is silent impossible to stop. So a start without a
container and an archive that has not taken its home are given up between two tries, as soon as
something else is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.judge import derive_phase
from codehub.core.step import next_operation
from codehub.core.target import aim
from codehub.model.conditions import ConditionName, ConditionStatus, ContainerFact
from codehub.model.decision import Release
from codehub.model.states import ErrorReason, Operation, Phase

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.conditions import Facts
    from codehub.model.workspace import Status, Workspace

_UNDONE: Final = frozenset({Operation.STARTING, Operation.ARCHIVING})


def may_give_way(status: Status) -> bool:
    """Whether the operation in flight would end at once if something else were wanted."""
    undone = status.operation in _UNDONE and status.home_store_key is not None
    return undone and (_was_unanswered(status) or _is_blind(status))


def _was_unanswered(status: Status) -> bool:
    return status.error_reason is ErrorReason.UNREACHABLE and status.retry_at is not None


def _is_blind(status: Status) -> bool:
    """An archive is not begun while nothing is known of the one before it."""
    ready = status.conditions.get(ConditionName.ARCHIVE_READY)
    unknown = ready is not None and ready.status is ConditionStatus.UNKNOWN
    return status.operation is Operation.ARCHIVING and unknown


def give_way(workspace: Workspace, facts: Facts, now: datetime) -> Release | None:
    """The end of an operation that nobody wants any more; None when it goes on.

    An act that runs is waited for. Until `retry_at` none does.
    """
    status = workspace.status
    between_tries = facts.idle or (status.retry_at is not None and status.retry_at > now)
    if not may_give_way(status) or not between_tries:
        return None
    untouched = derive_phase(workspace, facts) is Phase.STANDBY
    aimed = aim(workspace, now)
    if not untouched or facts.container is not ContainerFact.ABSENT or aimed is None:
        return None
    if next_operation(Phase.STANDBY, aimed, container=False) is status.operation:
        return None
    return Release(status.operation, f"given up while it waited for an answer: {aimed} is wanted")
