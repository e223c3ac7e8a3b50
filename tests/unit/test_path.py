"""The way from a phase to a target, as plans show it."""

from __future__ import annotations

import pytest

from codehub.core.path import path
from codehub.core.step import RESULT, next_operation
from codehub.model.states import LEVELS, DesiredState, Operation, Phase

ORDERED = [Phase.PENDING, Phase.ARCHIVED, Phase.STANDBY, Phase.RUNNING]


def test_a_new_workspace_that_is_to_run() -> None:
    assert path(Phase.PENDING, DesiredState.RUNNING) == (
        "PENDING",
        "PROVISIONING",
        "STANDBY",
        "STARTING",
        "RUNNING",
    )


def test_a_removed_workspace_is_archived_before_it_goes() -> None:
    operations = path(Phase.RUNNING, DesiredState.DELETED)[1::2]
    assert operations == ("STOPPING", "ARCHIVING", "DELETING")


def test_nothing_to_do_is_the_phase_alone() -> None:
    assert path(Phase.STANDBY, DesiredState.STANDBY) == ("STANDBY",)
    assert path(Phase.ERROR, DesiredState.RUNNING) == ("ERROR",)
    assert path(Phase.RUNNING, None) == ("RUNNING",)


def test_what_was_deleted_comes_back_from_its_archive() -> None:
    again = path(Phase.DELETED, DesiredState.STANDBY, held_data=True)
    assert again == ("ARCHIVED", "RESTORING", "STANDBY")


def test_data_is_never_provisioned_anew() -> None:
    for phase in Phase:
        for state in DesiredState:
            steps = path(phase, state, held_data=True)
            assert "PROVISIONING" not in steps
            assert "CREATE_EMPTY_ARCHIVE" not in steps


def test_an_outdated_container_is_made_anew() -> None:
    steps = path(Phase.RUNNING, DesiredState.RUNNING, outdated=True)
    assert steps == ("RUNNING", "STOPPING", "STANDBY", "STARTING", "RUNNING")
    assert path(Phase.STANDBY, DesiredState.STANDBY, outdated=True) == ("STANDBY",)


@pytest.mark.parametrize("phase", ORDERED)
@pytest.mark.parametrize("state", DesiredState)
def test_every_path_is_short_monotonic_and_arrives(phase: Phase, state: DesiredState) -> None:
    steps = path(phase, state)
    levels = [LEVELS[step] for step in steps[::2]]
    assert steps[-1] == state
    assert len(steps[1::2]) <= 3
    assert levels in (sorted(levels), sorted(levels, reverse=True))
    assert all(RESULT[Operation(steps[i])] == steps[i + 1] for i in range(1, len(steps), 2))


def test_a_container_goes_before_anything_else_is_lowered() -> None:
    for state in (DesiredState.STANDBY, DesiredState.ARCHIVED, DesiredState.DELETED):
        step = next_operation(Phase.STANDBY, state, container=True)
        assert step is Operation.STOPPING
