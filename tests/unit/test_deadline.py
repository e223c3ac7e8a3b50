"""When an operation has taken too long, and which time does not count."""

from __future__ import annotations

from datetime import timedelta

import pytest

from codehub.core.deadline import deadline, note_blindness
from codehub.model.decision import Rules
from codehub.model.states import Operation
from codehub.model.workspace import Status
from tests.make import NOW

SECOND = timedelta(seconds=1)


def flying(operation: Operation = Operation.STOPPING, **progress: object) -> Status:
    return Status(operation=operation, op_started_at=NOW, op_progress=progress)


def at(seconds: int) -> str:
    return (NOW + seconds * SECOND).isoformat()


def test_nothing_in_flight_never_times_out() -> None:
    assert deadline(Status(), NOW, Rules()) is None
    assert deadline(Status(operation=Operation.STOPPING), NOW, Rules()) is None


def test_stopping_gets_its_grace_on_top() -> None:
    rules = Rules(stop_grace=30 * SECOND)
    assert deadline(flying(), NOW, rules) == NOW + 90 * SECOND


def test_a_data_move_may_take_any_time_while_it_progresses() -> None:
    moving = flying(Operation.ARCHIVING, at=at(36_000))
    assert deadline(moving, NOW, Rules()) == NOW + 36_300 * SECOND


def test_a_pull_counts_by_progress_and_the_start_from_the_image() -> None:
    pulling = flying(Operation.STARTING, stage="pull", at=at(1000))
    pulled = flying(Operation.STARTING, stage="start", at=at(1001))
    assert deadline(pulling, NOW, Rules()) == NOW + 1300 * SECOND
    assert deadline(pulled, NOW, Rules()) == NOW + 1121 * SECOND


def test_every_try_gets_the_whole_time() -> None:
    again = Status(operation=Operation.PROVISIONING, op_started_at=NOW, retry_at=NOW + 600 * SECOND)
    assert deadline(again, NOW, Rules()) == NOW + 660 * SECOND


def test_blind_time_is_noted_once_and_added_up() -> None:
    once = note_blindness({"at": at(0)}, True, NOW)
    still = note_blindness(once, True, NOW + 50 * SECOND)
    seeing = note_blindness(still, False, NOW + 100 * SECOND)
    again = note_blindness(note_blindness(seeing, True, NOW), False, NOW + 5 * SECOND)
    assert still is once
    assert seeing == {"at": at(0), "blind_seconds": 100}
    assert again["blind_seconds"] == 105
    assert note_blindness(again, False, NOW) is again


def test_blind_time_does_not_count() -> None:
    assert deadline(flying(blind_seconds=100), NOW, Rules()) == NOW + 170 * SECOND
    now = NOW + 1000 * SECOND
    assert deadline(flying(blind_since=at(10)), now, Rules()) == NOW + (70 + 990) * SECOND


@pytest.mark.parametrize("nonsense", ["soon", 7, None, "2026-11-01T12:00:00"])
def test_what_is_no_time_counts_as_not_there(nonsense: object) -> None:
    moving = flying(Operation.ARCHIVING, at=nonsense, blind_seconds="x")
    assert deadline(moving, NOW, Rules()) == NOW + 300 * SECOND
