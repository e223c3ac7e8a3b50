"""Every change shows the operations that the controller will run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from codehub.model.plan import Action, Summary
from codehub.model.states import ErrorReason, Operation, Phase
from codehub.model.workspace import (
    Source,
    StartOn,
    Status,
)
from tests.make import NOW, declaration, workspace
from tests.unit.plan_world import (
    ASLEEP,
    DAY,
    DELETED,
    STANDBY,
    hub,
    only,
    plan_of,
)


def test_a_new_workspace_shows_the_way_it_will_go() -> None:
    change = only(hub(), declaration())
    assert change.action is Action.CREATE
    assert change.path == ("PENDING", "PROVISIONING", "STANDBY", "STARTING", "RUNNING")
    assert (change.source, change.seen) == (Source("specs/api.yaml", 1), None)


def test_a_new_workspace_that_waits_for_a_visit_says_so() -> None:
    change = only(hub(), declaration(start_on=StartOn.VISIT))
    assert change.path == ("PENDING", "PROVISIONING", "STANDBY")
    assert change.notes == ("starts on the first visit",)


def test_a_new_suspended_workspace_goes_nowhere() -> None:
    change = only(hub(), declaration(suspend=True))
    assert change.path == ("PENDING",)
    assert "suspended" in change.notes[0]


def test_a_deleted_workspace_shows_how_long_its_archive_is_kept() -> None:
    row = workspace(status=ASLEEP, desired=STANDBY)
    change = only(hub(row), retention=timedelta(days=30))
    assert change.action is Action.DELETE
    assert change.path == (*("STANDBY", "ARCHIVING", "ARCHIVED", "DELETING", "DELETED"),)
    assert change.notes == ("archive kept until 2026-12-01",)
    assert change.source is None


def test_a_workspace_that_never_had_data_keeps_no_archive() -> None:
    change = only(hub(workspace()))
    assert change.path == ("PENDING", "DELETING", "DELETED")
    assert change.notes == ()


def test_a_raised_workspace_shows_its_way_up() -> None:
    row = workspace(status=ASLEEP, desired=STANDBY, declared_state=STANDBY)
    change = only(hub(row), declaration())
    assert change.path == ("STANDBY", "STARTING", "RUNNING")
    assert change.held is None


def test_an_undeleted_workspace_comes_back_from_its_archive() -> None:
    status = Status(phase=Phase.DELETED, archive_key="k", deleted_at=NOW - DAY)
    plan = plan_of(hub(workspace(desired=DELETED, status=status)), declaration())
    (change,) = plan.changes
    assert change.action is Action.UNDELETE
    assert change.path == ("ARCHIVED", "RESTORING", "STANDBY", "STARTING", "RUNNING")
    assert change.notes == ("brought back with its archive",)
    assert plan.summary == Summary(create=1)


def test_the_way_leads_through_the_operation_in_flight() -> None:
    status = replace(ASLEEP, operation=Operation.STARTING)
    change = only(hub(workspace(status=status)), declaration(declared_state=STANDBY))
    assert change.path == ("STANDBY", "STARTING", "RUNNING", "STOPPING", "STANDBY")
    assert change.deferred == "waits until STARTING is done"


def test_an_operation_in_flight_does_not_hold_up_what_moves_nothing() -> None:
    status = replace(ASLEEP, operation=Operation.STARTING)
    assert only(hub(workspace(status=status)), declaration(memo="x")).deferred is None


def test_an_error_waits_for_a_person() -> None:
    status = Status(phase=Phase.ERROR, error_reason=ErrorReason.TIMEOUT)
    change = only(hub(workspace(status=status)), declaration(memo="x"))
    assert change.path == ("ERROR",)
    assert change.notes == ("in ERROR (Timeout): waits for codehub recover api",)


def test_a_rename_is_a_field() -> None:
    change = only(hub(workspace("old", status=ASLEEP)), declaration("new", renamed_from="old"))
    assert (change.name, change.action) == ("new", Action.UPDATE)
    assert (change.fields[0].field, change.fields[0].old) == ("name", "old")
