"""The report as a value: what it counts, why each workspace is where it is, and what comes next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from codehub.core.summarise import PHASES, progress, reason, summarise
from codehub.model.plan import PlanOptions
from codehub.model.revision import HubState
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.voice import Voice
from codehub.model.workspace import Activity, Intent, Status, Ttl, Workspace
from tests.make import NOW, workspace
from tests.snapshots import report_cases

HOUR = timedelta(hours=1)
OPTIONS = PlanOptions()


def report_of(*workspaces: Workspace, **values: Any) -> Any:
    values = {"last_load": None, "now": NOW, "options": OPTIONS} | values
    return summarise(HubState(workspaces=workspaces), **values)


def why(one: Workspace) -> str:
    return str(report_of(one).lines[0].why)


def running(**fields: Any) -> Status:
    return Status(Phase.RUNNING, phase_changed_at=NOW - HOUR, **fields)


def test_phases_are_counted_and_deleted_ones_are_not() -> None:
    report = report_cases.everything()
    assert sum(report.counts.values()) == len(report.lines) == 7
    assert report.counts[Phase.RUNNING] == 2
    assert report.counts[Phase.ERROR] == 1
    assert report.busy == 2
    assert "gone" not in {line.name for line in report.lines}


def test_an_empty_hub_has_every_phase_with_nobody_in_it() -> None:
    assert report_of().counts == dict.fromkeys(PHASES, 0)


def test_every_phase_but_deleted_is_counted_somewhere() -> None:
    assert set(PHASES) == set(Phase) - {Phase.DELETED}


def test_lines_are_in_the_order_of_names() -> None:
    names = [line.name for line in report_cases.everything().lines]
    assert names == sorted(names)


def test_only_a_newest_load_that_failed_is_told() -> None:
    state = HubState(revision=report_cases.GOOD)
    failed = summarise(state, last_load=report_cases.BAD, now=NOW, options=OPTIONS)
    assert failed.failed == report_cases.BAD
    assert failed.revision == report_cases.GOOD
    fine = summarise(state, last_load=report_cases.GOOD, now=NOW, options=OPTIONS)
    assert fine.failed is None


def test_one_that_rests_where_it_is_declared_says_so() -> None:
    assert why(workspace(status=running())) == "as declared"


def test_what_idleness_lowered_is_held_by_its_ttl() -> None:
    held = workspace(
        ttl=Ttl(standby=3600, policy="short"),
        intent=Intent(DesiredState.STANDBY, IntentSource.TTL, NOW - HOUR),
        status=Status(Phase.STANDBY, phase_changed_at=NOW - HOUR),
        activity=Activity(NOW - 2 * HOUR),
    )
    assert "idle 2h, ttl short.standby=1h; wakes on visit" in why(held)


def test_an_error_waits_for_a_person_and_comes_with_advice() -> None:
    lost = Status(Phase.ERROR, error_reason=ErrorReason.DATA_LOST, error_message="it is gone")
    one = workspace("api", status=lost)
    report = report_of(one)
    assert report.lines[0].why == "DataLost, waits for a person"
    on_a_page = reason(one, NOW, OPTIONS, Voice.BUTTONS)
    assert on_a_page == "its home is missing, so it waits for a person"
    (error,) = report.errors
    assert (error.message, error.reason) == ("it is gone", ErrorReason.DATA_LOST)
    assert "'codehub recover api --accept-empty'" in error.advice


def test_a_failure_that_is_tried_again_is_told_with_its_time() -> None:
    retried = Status(
        Phase.STANDBY,
        operation=Operation.STARTING,
        error_reason=ErrorReason.UNREACHABLE,
        error_message="no engine answers",
        retry_at=NOW + timedelta(seconds=8),
    )
    assert why(workspace(status=retried)) == (
        "Unreachable: no engine answers, tried again in 8s; on the way to RUNNING"
    )
    assert report_of(workspace(status=retried)).errors == ()


def test_one_that_nobody_moves_yet_waits_for_its_turn() -> None:
    waiting = workspace(status=Status(Phase.STANDBY, phase_changed_at=NOW))
    assert why(waiting) == "waits for its turn to become RUNNING"


def test_one_that_runs_and_has_not_answered_yet_says_so() -> None:
    assert why(workspace(status=running(operation=Operation.STARTING))) == (
        "its port has not answered yet"
    )


def test_a_lowering_waits_for_the_people_in_it() -> None:
    used = workspace(
        declared_state=DesiredState.STANDBY,
        status=running(),
        activity=Activity(NOW - timedelta(minutes=1)),
    )
    assert "because it is in use" in why(used)


def test_an_orphan_and_one_on_its_way_out_say_so() -> None:
    assert why(workspace(orphaned=True, status=running())) == "no spec declares it any more"
    leaving = workspace(intent=Intent(DesiredState.DELETED), status=Status(Phase.ARCHIVED))
    assert why(leaving) == "being deleted"


def test_an_orphan_has_no_place_where_it_is_declared() -> None:
    lines = report_of(workspace("a", orphaned=True), workspace("b", number=2)).lines
    assert lines[0].declared is None
    assert str(lines[1].declared) == "specs/b.yaml:1"


def test_the_next_move_is_the_first_one_however_far() -> None:
    years = workspace(
        ttl=Ttl(standby=400 * 86_400, archive=60),
        status=running(),
        activity=Activity(NOW - timedelta(minutes=1), "traffic"),
    )
    (line,) = report_of(years).lines
    assert line.next_move is not None
    assert line.next_move.new == DesiredState.STANDBY
    assert line.next_move.at == NOW - timedelta(minutes=1) + timedelta(days=400)


def test_pinned_ones_never_move_by_themselves() -> None:
    (line,) = report_of(workspace(pinned=True, status=running())).lines
    assert line.next_move is None


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({"stage": "unpack", "bytes": 50, "total": 100}, 0.5),
        ({"stage": "unpack", "bytes": 150, "total": 100}, 1.0),
        ({"stage": "upload", "bytes": 50}, None),
        ({"stage": "upload", "bytes": 50, "total": 0}, None),
        ({"stage": "upload", "bytes": "many", "total": None}, None),
    ],
)
def test_progress_is_a_part_only_where_the_whole_is_known(
    said: dict[str, object], part: float | None
) -> None:
    found = progress(Status(Phase.STANDBY, operation=Operation.ARCHIVING, op_progress=said))
    assert found is not None
    assert found.part == part
    assert str(said["stage"]) in found.words


def test_nothing_in_flight_has_no_progress() -> None:
    left_over = Status(Phase.STANDBY, op_progress={"stage": "unpack", "bytes": 5})
    assert progress(left_over) is None
    assert progress(Status(Phase.STANDBY, operation=Operation.STARTING)) is None
