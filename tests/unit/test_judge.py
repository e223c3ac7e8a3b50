"""What facts mean: phases, broken invariants, conditions and their times."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from codehub.core.judge import calculate_phase, check_invariants, judge
from codehub.model.conditions import (
    ConditionName,
    ConditionStatus,
    ContainerFact,
    Facts,
    Presence,
)
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.model.workspace import Status, Workspace
from tests.make import NOW, workspace

KEYS: dict[str, Any] = {"home_store_key": "home-g1", "archive_key": "key"}
LATER = NOW + timedelta(minutes=1)


def row(desired: DesiredState = DesiredState.RUNNING, **status: Any) -> Workspace:
    return workspace(desired=desired, status=Status(**status))


def facts(container: str = "absent", volume: str = "absent", archive: str = "absent") -> Facts:
    return Facts(
        container=ContainerFact(container), volume=Presence(volume), archive=Presence(archive)
    )


def test_unknown_is_not_absent() -> None:
    there = row(phase=Phase.RUNNING, **KEYS)
    assert calculate_phase(there, Facts()) is Phase.RUNNING
    assert check_invariants(there, Facts()) is None
    assert calculate_phase(there, facts("unknown", "present")) is Phase.RUNNING
    assert calculate_phase(there, facts("absent", "unknown")) is Phase.RUNNING


@pytest.mark.parametrize("archive", ["unknown", "absent", "damaged", "present"])
def test_the_archive_does_not_matter_where_there_is_a_volume(archive: str) -> None:
    seen = facts("absent", "present", archive)
    assert calculate_phase(row(**KEYS), seen) is Phase.STANDBY


def test_a_half_restored_volume_is_no_home() -> None:
    half = replace(facts("absent", "present", "present"), volume_complete=False)
    assert calculate_phase(row(**KEYS), half) is Phase.ARCHIVED


def test_a_new_volume_is_missing_rightly_until_it_is_made() -> None:
    for operation in (Operation.PROVISIONING, Operation.RESTORING):
        making = row(operation=operation, home_store_key="home-g2")
        assert check_invariants(making, facts()) is None
    broken = check_invariants(row(home_store_key="home-g1"), facts())
    assert broken is not None
    assert broken.reason is ErrorReason.DATA_LOST
    assert "home-g1" in broken.message


def test_loss_of_data_is_told_before_the_container_without_its_volume() -> None:
    broken = check_invariants(row(**KEYS), facts("running", "absent", "present"))
    assert broken is not None
    assert broken.reason is ErrorReason.DATA_LOST


def test_a_retired_volume_is_not_lost() -> None:
    assert check_invariants(row(archive_key="key"), facts(archive="present")) is None


def test_an_archive_that_is_damaged_is_not_gone() -> None:
    seen = replace(facts(archive="damaged"), damage="9 bytes are there, 10 were stored")
    told = "the archive key is damaged: 9 bytes are there, 10 were stored"
    broken = check_invariants(row(archive_key="key"), seen)
    assert broken is not None
    assert (broken.reason, broken.message) == (ErrorReason.ARCHIVE_CORRUPTED, told)
    for each in (row(archive_key="key"), row(**KEYS)):
        ready = judge(each, seen, NOW).conditions[ConditionName.ARCHIVE_READY]
        assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "ArchiveCorrupted")
        assert ready.message == told


def test_a_deleted_workspace_breaks_nothing() -> None:
    assert check_invariants(row(deleted_at=NOW, **KEYS), facts()) is None
    assert calculate_phase(row(deleted_at=NOW, **KEYS), facts()) is Phase.DELETED


def test_retries_are_no_error_yet() -> None:
    seen = facts("absent", "present")
    trying = row(home_store_key="home-g1", error_reason=ErrorReason.ACTION_FAILED)
    failed = row(home_store_key="home-g1", error_reason=ErrorReason.RETRY_EXCEEDED)
    assert calculate_phase(trying, seen) is Phase.STANDBY
    assert calculate_phase(failed, seen) is Phase.ERROR


def test_a_broken_workspace_that_is_taken_down_shows_deleting_and_not_error() -> None:
    seen = facts("running")
    down = row(DesiredState.DELETED, operation=Operation.STOPPING)
    other = row(DesiredState.STANDBY, operation=Operation.STOPPING)
    assert calculate_phase(down, seen) is Phase.DELETING
    assert calculate_phase(other, seen) is Phase.ERROR


def test_phase_and_its_time_move_together() -> None:
    old = row(phase=Phase.RUNNING, phase_changed_at=NOW, home_store_key="home-g1")
    same = judge(old, facts("running", "present"), LATER)
    moved = judge(old, facts("exited", "present"), LATER)
    assert (same.phase, same.phase_changed_at) == (Phase.RUNNING, NOW)
    assert (moved.phase, moved.phase_changed_at) == (Phase.STANDBY, LATER)


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = judge(row(home_store_key="home-g1"), facts("running", "present"), NOW).conditions
    old = row(home_store_key="home-g1", conditions=first)
    same = judge(old, facts("running", "present"), LATER).conditions
    gone = judge(old, facts("absent", "present"), LATER).conditions
    assert same == first
    assert gone[ConditionName.CONTAINER_READY].last_transition_time == LATER
    assert gone[ConditionName.VOLUME_READY].last_transition_time == NOW


def test_the_port_gates_the_start_and_nothing_later() -> None:
    silent = facts("running", "present")
    starting = row(operation=Operation.STARTING, home_store_key="home-g1")
    started = row(home_store_key="home-g1")
    ready = ConditionName.CONTAINER_READY
    assert judge(starting, silent, NOW).conditions[ready].status is ConditionStatus.FALSE
    assert judge(started, silent, NOW).conditions[ready].status is ConditionStatus.TRUE


def test_conditions_tell_unknown_and_why() -> None:
    blind = Facts(reasons=("the engine does not answer",))
    conditions = judge(row(**KEYS), blind, NOW).conditions
    assert {condition.status for condition in conditions.values()} == {ConditionStatus.UNKNOWN}
    assert conditions[ConditionName.HEALTHY].message == "the engine does not answer"


def test_broken_health_names_the_invariant() -> None:
    judged = judge(row(**KEYS), facts(), NOW)
    healthy = judged.conditions[ConditionName.HEALTHY]
    assert (healthy.status, healthy.reason) == (ConditionStatus.FALSE, "DataLost")
    assert judged.phase is Phase.ERROR
