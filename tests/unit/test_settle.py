"""How far a workspace is: settled, held, failed or under way, as its row alone tells."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.core.settle import outcome, progress_of
from codehub.core.target import aim
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.decision import DISCARD_DATA, Drain
from codehub.model.outcome import (
    Failed,
    Followed,
    Held,
    Moving,
    Outcome,
    Progress,
    Settled,
    Snapshot,
)
from codehub.model.states import PHASE_OF, DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import (
    Activity,
    Intent,
    Override,
    Status,
    UpdatePolicy,
    Workspace,
)
from tests.make import NOW, workspace

RUNNING, STANDBY, ARCHIVED, DELETED = DesiredState
MINUTE = timedelta(minutes=1)
LIMIT = "held by a limit: alice may run 2 at once"


def at_rest(phase: Phase, desired: DesiredState, **declared: Any) -> Workspace:
    return workspace(desired=desired, status=Status(phase), **declared)


def busy(operation: Operation, phase: Phase, desired: DesiredState, **status: Any) -> Workspace:
    status = {"op_started_at": NOW - MINUTE, **status}
    return workspace(desired=desired, status=Status(phase, operation=operation, **status))


def broken(reason: ErrorReason = ErrorReason.TIMEOUT, **intent: Any) -> Workspace:
    asked = Intent(**{"desired": RUNNING, **intent})
    status = Status(Phase.ERROR, error_reason=reason, error_message="got nowhere")
    return workspace(intent=asked, status=status)


def moving(row: Workspace, **limits: Any) -> Moving:
    found = outcome(row, NOW, **limits)
    assert isinstance(found, Moving), found
    return found


def held(row: Workspace, **limits: Any) -> Held:
    found = outcome(row, NOW, **limits)
    assert isinstance(found, Held), found
    return found


@pytest.mark.parametrize("state", [RUNNING, STANDBY, ARCHIVED])
def test_where_it_should_be_it_is_settled(state: DesiredState) -> None:
    assert outcome(at_rest(PHASE_OF[state], state), NOW) == Settled()


def test_deleted_for_good_is_settled() -> None:
    status = Status(Phase.DELETED, deleted_at=NOW)
    assert outcome(workspace(desired=DELETED, status=status), NOW) == Settled()


def test_below_what_the_specs_allow_is_settled_if_nobody_asked_for_more() -> None:
    assert outcome(at_rest(Phase.STANDBY, STANDBY, declared_state=RUNNING), NOW) == Settled()


def test_at_the_ceiling_is_settled_whatever_was_asked_for() -> None:
    assert outcome(at_rest(Phase.STANDBY, RUNNING, declared_state=STANDBY), NOW) == Settled()


def test_an_override_is_the_ceiling_while_it_lasts() -> None:
    row = at_rest(Phase.STANDBY, RUNNING, declared_state=STANDBY)
    lasting = replace(row.intent, override=Override(RUNNING, NOW + MINUTE, "demo"))
    assert moving(replace(row, intent=lasting)).steps == ("STARTING", "RUNNING")
    over = replace(row.intent, override=Override(RUNNING, NOW, "demo"))
    assert outcome(replace(row, intent=over), NOW) == Settled()


def test_what_nobody_has_begun_yet_is_moving_with_all_its_steps() -> None:
    found = moving(at_rest(Phase.ARCHIVED, RUNNING))
    assert found.operation is Operation.NONE
    assert found.steps == ("RESTORING", "STANDBY", "STARTING", "RUNNING")


def test_an_operation_comes_first_and_the_rest_of_the_way_after_it() -> None:
    found = moving(busy(Operation.RESTORING, Phase.ARCHIVED, RUNNING))
    assert found.since == NOW - MINUTE
    assert found.steps == ("RESTORING", "STANDBY", "STARTING", "RUNNING")


def test_an_operation_that_leads_the_wrong_way_is_turned_around_after_it() -> None:
    found = moving(busy(Operation.STOPPING, Phase.RUNNING, RUNNING))
    assert found.steps == ("STOPPING", "STANDBY", "STARTING", "RUNNING")


def test_it_is_not_settled_before_its_operation_is_over() -> None:
    assert moving(busy(Operation.STARTING, Phase.RUNNING, RUNNING)).steps == ("STARTING", "RUNNING")


def test_progress_is_what_the_storage_job_reports() -> None:
    report = {"stage": "unpack", "bytes": 300, "total": 1000, "entries": 7, "at": "ignored"}
    found = moving(busy(Operation.RESTORING, Phase.ARCHIVED, RUNNING, op_progress=report))
    assert found.progress == Progress("unpack", 300, 1000, 7)
    assert found.progress.percent == 30


@pytest.mark.parametrize(
    ("report", "percent"),
    [
        ({}, None),
        ({"bytes": 5}, None),
        ({"bytes": 5, "total": 0}, None),
        ({"bytes": 0, "total": 9}, 0),
        ({"bytes": 999, "total": 1000}, 99),
        ({"bytes": 2000, "total": 1000}, 100),
        ({"bytes": -1, "total": 10}, None),
        ({"bytes": True, "total": 10}, None),
        ({"bytes": "5", "total": [10]}, None),
    ],
)
def test_percent_only_where_both_numbers_make_sense(
    report: dict[str, object], percent: int | None
) -> None:
    assert progress_of(report).percent == percent


def test_a_stage_that_is_no_word_is_none() -> None:
    assert progress_of({"stage": 3}).stage == ""


def test_a_failure_that_is_tried_again_is_moving_and_says_so() -> None:
    row = busy(
        Operation.STARTING,
        Phase.STANDBY,
        RUNNING,
        error_reason=ErrorReason.ACTION_FAILED,
        error_message="command not found",
        retry_at=NOW + MINUTE,
    )
    assert moving(row).note == "tried again after: command not found"


def test_what_the_hub_cannot_see_is_said() -> None:
    blind = Condition(ConditionStatus.UNKNOWN, "Unreachable", "the engine gives no answer")
    status = Status(Phase.STANDBY, conditions={ConditionName.HEALTHY: blind})
    row = workspace(desired=RUNNING, status=status)
    assert "the engine gives no answer" in moving(row).note


NO_STORE = Condition(ConditionStatus.UNKNOWN, "Unreachable", "the store gives no answer")


@pytest.mark.parametrize(
    ("operation", "desired"), [(Operation.ARCHIVING, ARCHIVED), (Operation.NONE, ARCHIVED)]
)
def test_what_needs_an_archive_says_that_the_store_is_away(
    operation: Operation, desired: DesiredState
) -> None:
    known = {ConditionName.ARCHIVE_READY: NO_STORE}
    row = busy(operation, Phase.STANDBY, desired, conditions=known, home_store_key="v")
    assert moving(row).note == "the hub cannot see its archive: the store gives no answer"


def test_a_start_needs_no_archive() -> None:
    known = {ConditionName.ARCHIVE_READY: NO_STORE}
    row = busy(Operation.STARTING, Phase.STANDBY, RUNNING, conditions=known)
    assert moving(row).note == ""


def test_an_error_is_a_failure_with_its_reason_and_advice() -> None:
    found = outcome(broken(), NOW)
    assert isinstance(found, Failed)
    assert (found.reason, found.message) == ("Timeout", "got nowhere")
    assert "codehub recover api" in found.advice


def test_a_recovery_that_was_asked_for_is_on_its_way() -> None:
    assert moving(broken(recover_requested="plain")).note == "recovery was asked for"


def test_an_error_to_be_deleted_steps_down() -> None:
    row = broken(desired=DELETED, at=NOW)
    assert moving(replace(row, status=replace(row.status, home_store_key="home"))).steps[:2] == (
        "ARCHIVING",
        "ARCHIVED",
    )


def stuck(failed_after: timedelta, **intent: Any) -> Workspace:
    """Its last archive failed, so long after the deletion was asked for."""
    row = broken(ErrorReason.RETRY_EXCEEDED, desired=DELETED, at=NOW - MINUTE, **intent)
    status = replace(
        row.status,
        op_progress={"failed": "ARCHIVING"},
        phase_changed_at=NOW - MINUTE + failed_after,
        home_store_key="home",
    )
    return replace(row, status=status)


def test_a_deletion_that_failed_is_a_failure_until_asked_for_again() -> None:
    found = outcome(stuck(timedelta(seconds=5)), NOW)
    assert isinstance(found, Failed)
    assert "--discard-data" in found.advice
    assert isinstance(outcome(stuck(timedelta(seconds=-5)), NOW), Moving)


def test_a_deletion_that_may_discard_the_home_goes_on() -> None:
    row = stuck(timedelta(seconds=5), recover_requested=DISCARD_DATA)
    assert isinstance(outcome(row, NOW), Moving)


def test_suspended_away_from_its_place_is_held() -> None:
    found = held(at_rest(Phase.STANDBY, RUNNING, suspend=True))
    assert found.why == "suspended at specs/api.yaml:1, so nothing moves it to RUNNING"


def test_suspended_in_its_place_is_settled() -> None:
    assert outcome(at_rest(Phase.STANDBY, STANDBY, suspend=True), NOW) == Settled()


def test_suspended_in_the_middle_of_an_operation_moves_until_that_is_over() -> None:
    row = busy(Operation.STARTING, Phase.STANDBY, RUNNING)
    suspended = replace(row, declaration=replace(row.declaration, suspend=True))
    assert moving(suspended).steps == ("STARTING", "RUNNING")


def in_use(**fields: Any) -> Workspace:
    row = workspace(
        status=Status(Phase.RUNNING, container_template="t0"),
        activity=Activity(NOW - MINUTE),
        **fields,
    )
    return replace(row, declared_at=NOW)


def test_a_lowering_from_git_is_held_by_the_people_in_it() -> None:
    found = held(in_use(declared_state=STANDBY))
    assert found.until == NOW + 4 * MINUTE
    assert "nobody works in it" in found.why


def test_settings_say_how_long_people_are_waited_for() -> None:
    row = in_use(declared_state=STANDBY)
    short = Drain(idle=timedelta(seconds=30))
    assert moving(row, drain=short).steps == ("STOPPING", "STANDBY")


def test_a_person_who_stops_it_waits_for_nobody() -> None:
    row = in_use(intent=Intent(STANDBY, IntentSource.CLI, NOW))
    assert moving(row).steps == ("STOPPING", "STANDBY")


def test_an_immediate_update_restarts_it_once_it_is_idle() -> None:
    row = in_use(update=UpdatePolicy.IMMEDIATE)
    assert held(row).until == NOW + 4 * MINUTE
    idle = replace(row, activity=Activity(NOW - 10 * MINUTE))
    assert moving(idle).steps == ("STOPPING", "STANDBY", "STARTING", "RUNNING")


def test_an_update_at_the_next_start_leaves_it_settled() -> None:
    assert outcome(in_use(update=UpdatePolicy.NEXT_START), NOW) == Settled()


def test_a_limit_holds_what_only_has_to_start() -> None:
    assert held(at_rest(Phase.STANDBY, RUNNING), limit=LIMIT).why == LIMIT
    assert isinstance(outcome(at_rest(Phase.ARCHIVED, RUNNING), NOW, limit=LIMIT), Moving)
    assert outcome(at_rest(Phase.STANDBY, STANDBY), NOW, limit=LIMIT) == Settled()


def test_a_snapshot_is_over_when_nothing_moves() -> None:
    rest = Followed(at_rest(Phase.STANDBY, STANDBY), Settled())
    waits = Followed(at_rest(Phase.STANDBY, RUNNING), Held(LIMIT))
    bad = Followed(broken(), Failed("Timeout", "", ""))
    going = Followed(at_rest(Phase.STANDBY, RUNNING), Moving())
    assert Snapshot(NOW, (rest, waits, bad)).over
    assert Snapshot(NOW, (rest, waits, bad)).failed == (bad,)
    assert not Snapshot(NOW, (rest, going)).over
    assert Snapshot(NOW, (rest, going)).moving == (going,)


def test_a_database_that_is_away_ends_no_wait() -> None:
    assert not Snapshot(NOW, (), lost="no answer").over


ROWS = st.builds(
    workspace,
    desired=st.sampled_from(DesiredState),
    status=st.builds(
        Status,
        phase=st.sampled_from(Phase),
        operation=st.sampled_from(Operation),
        op_started_at=st.sampled_from([None, NOW]),
        error_reason=st.sampled_from([None, *ErrorReason]),
        archive_key=st.sampled_from([None, "key"]),
        op_progress=st.dictionaries(
            st.sampled_from(["stage", "bytes", "total", "entries", "failed"]),
            st.one_of(st.integers(), st.text(max_size=5), st.none(), st.booleans()),
        ),
    ),
    declared_state=st.sampled_from([RUNNING, STANDBY, ARCHIVED]),
    suspend=st.booleans(),
    pinned=st.booleans(),
)


@settings(max_examples=300)
@given(ROWS, st.sampled_from(["", LIMIT]))
def test_every_row_has_one_outcome_that_fits_it(row: Workspace, limit: str) -> None:
    """Whatever a row holds: it says something, and never that an operation or error is settled."""
    found: Outcome = outcome(row, NOW, limit=limit)
    status = row.status
    if isinstance(found, Settled):
        assert status.operation is Operation.NONE
        rest = aim(replace(row, declaration=replace(row.declaration, suspend=False)), NOW)
        assert rest is not None
        assert status.phase is PHASE_OF[rest]
    if isinstance(found, Failed):
        assert status.phase is Phase.ERROR
        assert found.advice
    if isinstance(found, Moving) and status.operation is not Operation.NONE:
        assert status.phase is Phase.ERROR or found.steps[0] == status.operation.value
