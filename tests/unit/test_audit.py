"""What goes into the audit with a change of status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from codehub.core.audit import Change, audit
from codehub.model.events import EventKind
from codehub.model.states import ErrorReason, Operation, Phase
from codehub.model.workspace import HomeContext, Status

AWAKE = Status(Phase.RUNNING)


def told(before: Status, why: str = "why", **after: Any) -> tuple[Change, ...]:
    return audit(before, replace(before, **after), why)


def test_what_did_not_move_is_not_told() -> None:
    assert told(AWAKE) == ()
    assert told(AWAKE, op_progress={"at": "now"}, observed_generation=2) == ()


def test_a_claim_is_an_operation_with_its_reason() -> None:
    assert told(AWAKE, "wanted STANDBY", operation=Operation.STOPPING) == (
        Change(EventKind.OPERATION, "NONE", "STOPPING", "wanted STANDBY"),
    )


def test_people_think_of_the_operation_then_of_the_error_then_of_the_phase() -> None:
    starting = Status(Phase.STANDBY, operation=Operation.STARTING)
    events = told(
        starting,
        "it ended",
        operation=Operation.NONE,
        phase=Phase.ERROR,
        error_reason=ErrorReason.RETRY_EXCEEDED,
        error_message="the command was not found",
        error_count=4,
    )
    assert events == (
        Change(EventKind.OPERATION, "STARTING", "NONE", "it ended"),
        Change(EventKind.ERROR, "", "RetryExceeded", "the command was not found"),
        Change(EventKind.PHASE, "STANDBY", "ERROR", "it ended"),
    )


def test_every_counted_failure_is_told() -> None:
    failed = replace(
        AWAKE, error_reason=ErrorReason.ACTION_FAILED, error_message="no", error_count=1
    )
    assert told(failed, error_count=2) == (
        Change(EventKind.ERROR, "ActionFailed", "ActionFailed", "no"),
    )


def test_that_nobody_answers_is_told_once() -> None:
    away: dict[str, Any] = {"error_reason": ErrorReason.UNREACHABLE, "error_message": "no answer"}
    assert [each.kind for each in told(AWAKE, **away)] == [EventKind.ERROR]
    again = replace(AWAKE, **away)
    assert told(again, op_progress={"unreachable_count": 2}) == ()
    assert [each.reason for each in told(again, error_message="another reason")] == [
        "another reason"
    ]


def test_an_error_that_is_over_needs_no_line_of_its_own() -> None:
    broken = Status(Phase.ERROR, error_reason=ErrorReason.TIMEOUT, error_count=1)
    events = told(
        broken, "recovery was asked for", error_reason=None, error_count=0, phase=Phase.STANDBY
    )
    assert events == (Change(EventKind.PHASE, "ERROR", "STANDBY", "recovery was asked for"),)


def test_a_home_that_is_given_up_and_found_again_is_told_by_its_name() -> None:
    lost = told(AWAKE, home_ctx=HomeContext(given_up=("home-g1",)))
    assert [(each.kind, each.old, each.new) for each in lost] == [
        (EventKind.RECOVER, "home-g1", "given up")
    ]
    without = replace(AWAKE, home_ctx=HomeContext(given_up=("home-g1",)))
    found = told(without, home_ctx=HomeContext(given_up=("home-g1",), found=("home-g1",)))
    assert [(each.kind, each.old, each.new) for each in found] == [
        (EventKind.RECOVER, "", "home-g1")
    ]
