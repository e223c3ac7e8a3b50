"""What the controller's figures make of rows and decisions, with the clock as an argument."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from codehub.coordinator.figures import Figures
from codehub.coordinator.rhythm import Look
from codehub.model.decision import Complete, Continue, Fail, Nothing, Retry
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, Status
from tests.make import NOW, workspace
from tests.telemetry.shown import Rises, leading, shown

SECOND = timedelta(seconds=1)
STARTING = Status(Phase.STANDBY, operation=Operation.STARTING, op_started_at=NOW)
RUNNING = Status(Phase.RUNNING)
STARTED = Complete(Operation.STARTING, Phase.RUNNING)


def passed(figures: Figures, look: Look = Look.FULL, **counts: int) -> None:
    figures.passed(look, 0.1, queued=counts.get("queued", 0), held=counts.get("held", 0))


def row(number: int, status: Status) -> Any:
    return workspace(f"ws{number}", number=number, status=status)


def test_phases_are_counted_from_the_rows_that_were_read() -> None:
    figures = Figures()
    figures.read([row(1, RUNNING), row(2, STARTING), row(3, Status(Phase.ARCHIVED))])
    with leading():
        passed(figures)
        assert shown("codehub_workspaces", phase="RUNNING") == 1
        assert shown("codehub_workspaces", phase="STANDBY") == 1
        assert shown("codehub_workspaces", phase="ERROR") == 0
        assert shown("codehub_running") == 2, "one that starts has a place"


def test_a_row_that_is_not_read_again_still_counts_and_one_that_is_gone_does_not() -> None:
    figures = Figures()
    rows = [row(1, RUNNING), row(2, RUNNING), row(3, Status(Phase.STANDBY))]
    figures.read(rows)
    figures.keep_only({rows[0].id, rows[2].id})
    figures.read([replace(rows[2], status=RUNNING)])
    figures.stored(rows[0], Status(Phase.ERROR), Nothing("broken"), NOW)
    with leading():
        passed(figures)
        assert shown("codehub_workspaces", phase="RUNNING") == 1
        assert shown("codehub_workspaces", phase="ERROR") == 1
        assert shown("codehub_workspaces", phase="STANDBY") == 0
        assert shown("codehub_running") == 1


def test_a_quick_pass_does_not_know_who_is_held_by_a_limit() -> None:
    figures = Figures()
    with leading():
        passed(figures, Look.ACTIVE, queued=1, held=3)
        passed(figures, Look.QUICK, queued=2, held=0)
        assert shown("codehub_operations_waiting", reason="hand") == 2
        assert shown("codehub_operations_waiting", reason="limit") == 3


@pytest.mark.parametrize("look", Look)
def test_passes_are_timed_by_kind(look: Look) -> None:
    rises = Rises()
    passed(Figures(), look)
    assert rises.of("codehub_reconcile_seconds_count", kind=look.value) == 1
    assert rises.of("codehub_reconcile_seconds_bucket", kind=look.value, le="0.05") == 0
    assert rises.of("codehub_reconcile_seconds_bucket", kind=look.value, le="0.1") == 1


def test_an_operation_that_is_done_is_counted_and_timed() -> None:
    rises = Rises()
    Figures().stored(row(1, STARTING), RUNNING, STARTED, NOW + 7 * SECOND)
    assert rises.of("codehub_operations_total", operation="STARTING", result="done") == 1
    assert rises.of("codehub_operation_seconds_sum", operation="STARTING") == 7


def test_a_try_that_failed_and_the_last_one() -> None:
    rises, figures = Rises(), Figures()
    again = Retry(ErrorReason.ACTION_FAILED, "no", 1, NOW)
    figures.stored(row(1, STARTING), STARTING, again, NOW)
    lost = Fail(ErrorReason.RETRY_EXCEEDED, "no", Operation.STARTING, 4)
    figures.stored(row(1, STARTING), Status(Phase.ERROR), lost, NOW)
    figures.stored(row(1, STARTING), STARTING, Continue(Operation.STARTING, None), NOW)
    assert rises.of("codehub_operations_total", operation="STARTING", result="retried") == 1
    assert rises.of("codehub_operations_total", operation="STARTING", result="failed") == 1
    assert rises.of("codehub_operations_total", operation="STARTING", result="done") == 0
    assert rises.of("codehub_workspace_errors_total", reason="RetryExceeded") == 1


def test_what_breaks_at_rest_is_no_operations_fault() -> None:
    rises, figures = Rises(), Figures()
    exited = Retry(ErrorReason.ACTION_FAILED, "it ended", 1, NOW)
    figures.stored(row(1, RUNNING), Status(Phase.STANDBY), exited, NOW)
    gone = Fail(ErrorReason.DATA_LOST, "no volume", Operation.NONE, 1)
    figures.stored(row(1, RUNNING), Status(Phase.ERROR), gone, NOW)
    assert rises.of("codehub_workspace_exits_total") == 1
    assert rises.of("codehub_workspace_errors_total", reason="DataLost") == 1


def wished(at: Any, source: IntentSource = IntentSource.VISIT, **fields: Any) -> Any:
    """One that starts because somebody wanted it then."""
    intent = Intent(fields.pop("desired", DesiredState.RUNNING), source, at)
    return workspace(intent=intent, status=STARTING)


def timed(rises: Rises, source: str = "visit") -> tuple[float, float]:
    name = "codehub_wake_seconds"
    return rises.of(f"{name}_count", source=source), rises.of(f"{name}_sum", source=source)


def test_a_wake_is_timed_from_the_wish() -> None:
    rises, figures = Rises(), Figures()
    figures.began(NOW)
    figures.stored(wished(NOW + SECOND), RUNNING, STARTED, NOW + 4 * SECOND)
    assert timed(rises) == (1, 3)
    assert timed(rises, "cli") == (0, 0)


def test_a_wish_is_timed_once_and_the_next_one_again() -> None:
    """One that crashed and runs again was not waited for since the wish."""
    rises, figures = Rises(), Figures()
    figures.began(NOW)
    for later in (4, 500):
        figures.stored(wished(NOW + SECOND), RUNNING, STARTED, NOW + later * SECOND)
    assert timed(rises) == (1, 3)
    figures.stored(wished(NOW + 600 * SECOND), RUNNING, STARTED, NOW + 602 * SECOND)
    assert timed(rises) == (2, 5)


@pytest.mark.parametrize(
    "unknown",
    [
        wished(NOW - SECOND),
        wished(None),
        wished(NOW + SECOND, desired=DesiredState.STANDBY),
        replace(wished(NOW + SECOND), status=RUNNING),
    ],
    ids=["before this term", "nobody knows when", "nobody wants it to run", "it ran before"],
)
def test_what_is_no_wake_is_not_timed(unknown: Any) -> None:
    rises, figures = Rises(), Figures()
    figures.began(NOW)
    figures.began(NOW - 10 * SECOND)
    figures.stored(unknown, RUNNING, STARTED, NOW + 4 * SECOND)
    assert timed(rises) == (0, 0)
