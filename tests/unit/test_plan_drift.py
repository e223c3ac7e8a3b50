"""What counts as drift, case by case as `core/detect.py` lists them, and what does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from codehub.core.detect import detect_drift
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, Status, UpdatePolicy
from tests.make import NOW, workspace

MINUTE = timedelta(minutes=1)
RUNNING, STANDBY, ARCHIVED = DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.ARCHIVED


def drift(**fields: Any) -> list[tuple[str, str, str]]:
    found = detect_drift([workspace(**fields)], NOW)
    return [(each.field, each.expected, each.actual) for each in found]


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        (ErrorReason.DATA_LOST, [("home", "its data", "DataLost")]),
        (
            ErrorReason.CONTAINER_WITHOUT_VOLUME,
            [("volume", "a volume under its container", "ContainerWithoutVolume")],
        ),
        (ErrorReason.TIMEOUT, []),
        (ErrorReason.RETRY_EXCEEDED, []),
    ],
)
def test_lost_data_is_drift_and_a_failed_operation_is_not(
    reason: ErrorReason, found: list[tuple[str, str, str]]
) -> None:
    assert drift(status=Status(phase=Phase.ERROR, error_reason=reason)) == found


@pytest.mark.parametrize(
    ("phase", "desired", "condition", "counts"),
    [
        (Phase.RUNNING, RUNNING, ConditionName.CONTAINER_READY, True),
        (Phase.RUNNING, RUNNING, ConditionName.VOLUME_READY, True),
        (Phase.RUNNING, RUNNING, ConditionName.ARCHIVE_READY, False),
        (Phase.STANDBY, STANDBY, ConditionName.VOLUME_READY, True),
        (Phase.STANDBY, STANDBY, ConditionName.CONTAINER_READY, False),
        (Phase.ARCHIVED, ARCHIVED, ConditionName.ARCHIVE_READY, True),
        (Phase.ARCHIVED, ARCHIVED, ConditionName.VOLUME_READY, False),
        (Phase.STANDBY, STANDBY, ConditionName.HEALTHY, True),
    ],
)
@pytest.mark.parametrize("status", list(ConditionStatus))
def test_a_condition_that_contradicts_the_phase_is_drift_and_unknown_never_is(
    phase: Phase,
    desired: DesiredState,
    condition: ConditionName,
    counts: bool,
    status: ConditionStatus,
) -> None:
    facts = {condition: Condition(status, "Because")}
    found = drift(desired=desired, status=Status(phase=phase, conditions=facts))
    wrong = counts and status is ConditionStatus.FALSE
    assert found == ([(condition.value, "True", "False: Because")] if wrong else [])


def test_nothing_is_drift_while_an_operation_runs() -> None:
    facts = {ConditionName.CONTAINER_READY: Condition(ConditionStatus.FALSE)}
    status = Status(phase=Phase.RUNNING, operation=Operation.STOPPING, conditions=facts)
    assert drift(status=status) == []


def test_nothing_is_drift_of_what_is_being_deleted() -> None:
    lost = Status(phase=Phase.ERROR, error_reason=ErrorReason.DATA_LOST)
    assert drift(desired=DesiredState.DELETED, status=lost) == []


OTHER = Status(phase=Phase.RUNNING, container_template="other")


@pytest.mark.parametrize(
    ("update", "generation", "observed", "counts"),
    [
        (UpdatePolicy.NEXT_START, 1, 0, True),
        (UpdatePolicy.NEXT_START, 2, 2, False),
        (UpdatePolicy.IMMEDIATE, 2, 1, False),
        (UpdatePolicy.IMMEDIATE, 2, 2, True),
    ],
    ids=["never changed", "waits for a start", "not seen yet", "seen and left"],
)
def test_a_foreign_template_is_drift_where_no_update_explains_it(
    update: UpdatePolicy, generation: int, observed: int, counts: bool
) -> None:
    status = replace(OTHER, observed_generation=observed)
    found = drift(status=status, generation=generation, update=update)
    assert found == ([("template", "t1", "other")] if counts else [])


def stuck(phase: Phase, desired: DesiredState, **fields: Any) -> list[tuple[str, str, str]]:
    status = Status(
        phase=phase,
        phase_changed_at=NOW - 20 * MINUTE,
        observed_at=fields.pop("observed_at", NOW),
        retry_at=fields.pop("retry_at", None),
        error_reason=fields.pop("error_reason", None),
    )
    intent = Intent(desired, IntentSource.CLI, NOW - fields.pop("asked", 10) * MINUTE)
    return drift(intent=intent, status=status, **fields)


def test_what_nobody_moves_for_five_minutes_is_drift() -> None:
    assert stuck(Phase.RUNNING, STANDBY) == [("phase", "STANDBY", "RUNNING")]
    assert stuck(Phase.ARCHIVED, STANDBY) == [("phase", "STANDBY", "ARCHIVED")]


def test_what_has_a_reason_is_not() -> None:
    assert stuck(Phase.RUNNING, STANDBY, asked=4) == []
    assert stuck(Phase.RUNNING, STANDBY, observed_at=None) == []
    assert stuck(Phase.RUNNING, STANDBY, observed_at=NOW - 9 * MINUTE) == []
    assert stuck(Phase.RUNNING, STANDBY, retry_at=NOW) == []
    assert stuck(Phase.RUNNING, STANDBY, error_reason=ErrorReason.UNREACHABLE) == []
    assert stuck(Phase.RUNNING, STANDBY, suspend=True) == []
    assert stuck(Phase.STANDBY, STANDBY) == []


def test_a_limit_may_hold_a_start_and_people_may_hold_a_stop() -> None:
    assert stuck(Phase.STANDBY, RUNNING) == []
    assert stuck(Phase.RUNNING, RUNNING, declared_state=STANDBY) == []


def test_drift_is_sorted_by_name() -> None:
    rows = [workspace(name, number=n, status=OTHER) for n, name in enumerate("cab")]
    assert [each.name for each in detect_drift(rows, NOW)] == ["a", "b", "c"]
