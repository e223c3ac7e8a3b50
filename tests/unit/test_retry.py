"""What failures lead to, and what counts as one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from codehub.core.retry import retry
from codehub.model.decision import Fail, Retry, Rules
from codehub.model.states import ErrorReason, Operation
from codehub.model.workspace import Status, Workspace
from tests.make import NOW, workspace

RULES = Rules()


def starting(number: int = 997, **status: Any) -> Workspace:
    return workspace(number=number, status=Status(operation=Operation.STARTING, **status))


def test_three_retries_then_error_with_the_last_message() -> None:
    outcomes = [
        retry(starting(error_count=n), ErrorReason.ACTION_FAILED, f"no {n}", NOW, RULES)
        for n in range(4)
    ]
    assert [type(outcome) for outcome in outcomes] == [Retry, Retry, Retry, Fail]
    assert outcomes[3] == Fail(ErrorReason.RETRY_EXCEEDED, "no 3", Operation.STARTING, 4)


def test_waits_grow() -> None:
    waits = []
    for count in range(3):
        after = retry(starting(error_count=count), ErrorReason.ACTION_FAILED, "", NOW, RULES)
        assert isinstance(after, Retry)
        waits.append((after.retry_at - NOW).total_seconds())
    assert waits == [2, 4, 8]


@pytest.mark.parametrize(
    "reason",
    [
        ErrorReason.TIMEOUT,
        ErrorReason.DATA_LOST,
        ErrorReason.IMAGE_PULL_FAILED,
        ErrorReason.CONTAINER_WITHOUT_VOLUME,
        ErrorReason.ARCHIVE_CORRUPTED,
    ],
)
def test_what_cannot_succeed_is_not_tried_again(reason: ErrorReason) -> None:
    assert retry(starting(), reason, "no", NOW, RULES) == Fail(reason, "no", Operation.STARTING, 1)


def test_unreachable_is_tried_for_ever_and_not_counted() -> None:
    tired = starting(error_count=3, op_progress={"unreachable_count": 1000})
    after = retry(tired, ErrorReason.UNREACHABLE, "no answer", NOW, RULES)
    assert after == Retry(
        ErrorReason.UNREACHABLE, "no answer", 3, NOW + timedelta(seconds=60), 1001
    )


def test_workspaces_that_failed_together_do_not_come_back_together() -> None:
    times = set()
    for number in range(1, 50):
        after = retry(starting(number), ErrorReason.ACTION_FAILED, "", NOW, RULES)
        assert isinstance(after, Retry)
        times.add(after.retry_at)
    assert len(times) == 49


def test_messages_stay_short() -> None:
    after = retry(starting(), ErrorReason.ACTION_FAILED, "x" * 9999, NOW, RULES)
    assert len(after.message) == 300
