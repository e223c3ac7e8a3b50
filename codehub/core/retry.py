"""What a failure leads to: another try, or ERROR.

The controller calls it when an act raised, `decide` when a container exited unasked. Only what can
succeed is tried again; what could not be asked is tried for ever, for that is not the workspace's
fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.backoff import backoff
from codehub.core.judge import TERMINAL
from codehub.model.decision import Fail, Retry
from codehub.model.states import ErrorReason

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from codehub.model.decision import Rules
    from codehub.model.workspace import Workspace

UNREACHABLE_COUNT: Final = "unreachable_count"
"""Entry of `op_progress`: how often in a row nobody answered."""

LONGEST: Final = 300
"""Characters of a message that is kept."""
_SPREAD: Final = 997


def retry(
    workspace: Workspace, reason: ErrorReason, message: str, now: datetime, rules: Rules
) -> Retry | Fail:
    """What follows from a failure with this reason. `message` is for people, free of secrets."""
    status, text = workspace.status, message[:LONGEST]
    if reason is ErrorReason.UNREACHABLE:
        return _ask_again(workspace, text, now, rules)
    count = status.error_count + 1
    if reason in TERMINAL:
        return Fail(reason, text, status.operation, count)
    if count > rules.retries:
        return Fail(ErrorReason.RETRY_EXCEEDED, text, status.operation, count)
    wait = _wait(workspace, count, rules)
    return Retry(ErrorReason.ACTION_FAILED, text, count, now + wait)


def _ask_again(workspace: Workspace, message: str, now: datetime, rules: Rules) -> Retry:
    status = workspace.status
    before = status.op_progress.get(UNREACHABLE_COUNT, 0)
    times = (before if isinstance(before, int) else 0) + 1
    retry_at = now + _wait(workspace, times, rules)
    return Retry(ErrorReason.UNREACHABLE, message, status.error_count, retry_at, times)


def _wait(workspace: Workspace, attempt: int, rules: Rules) -> timedelta:
    """The id spreads workspaces that failed together, and keeps this a pure function."""
    jitter = workspace.id.int % _SPREAD / _SPREAD
    return backoff(attempt, jitter, first=rules.backoff_first, limit=rules.backoff_limit)
