"""One workspace in one pass: what only this process knows, beside the row and the facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from codehub.coordinator.acts import Outcome
from codehub.coordinator.case import (
    Case,
    archive_fact,
    consider,
    is_leftover,
    needs_tidying,
    without_room,
)
from codehub.coordinator.seen import NOTHING, Things
from codehub.core.deadline import deadline
from codehub.model.conditions import Condition, ConditionName, ConditionStatus, Presence
from codehub.model.decision import (
    DISCARD_DATA,
    Claim,
    Complete,
    Continue,
    Fail,
    Nothing,
    Recover,
    Retry,
    Rules,
    Wait,
)
from codehub.model.runtime import ContainerSeen, Upstream, VolumeRef, VolumeSeen
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase, RecoverMode
from codehub.model.workspace import HomeContext, Intent, Status, Workspace
from tests.make import NOW, workspace

ME, OP, NEXT = UUID(int=1), UUID(int=7), UUID(int=8)
HOME = VolumeRef(ME, 1).name
RULES = Rules()
MINUTE = timedelta(minutes=1)


def volume(generation: int = 1) -> VolumeSeen:
    return VolumeSeen(ME, VolumeRef(ME, generation).name, generation)


def container(*, running: bool = True, op_id: UUID | None = OP, on: str = HOME) -> ContainerSeen:
    return ContainerSeen(ME, running=running, op_id=op_id, volume=on)


ASLEEP = Things(None, (volume(),))
AWAKE = Things(container(), (volume(),))


def row(phase: Phase = Phase.STANDBY, *, declared: Any = None, **status: Any) -> Workspace:
    """It has a home, and is wanted RUNNING."""
    intent = status.pop("intent", Intent(DesiredState.RUNNING, at=NOW - MINUTE))
    fields: dict[str, Any] = {
        "phase_changed_at": NOW - MINUTE,
        "observed_at": NOW - MINUTE,
        "home_store_key": HOME,
        "home_generation": 1,
    }
    return workspace(intent=intent, status=Status(phase, **(fields | status)), **(declared or {}))


def starting(**fields: Any) -> Workspace:
    return row(operation=Operation.STARTING, op_id=OP, **{"op_started_at": NOW, **fields})


def look(
    each: Workspace,
    things: Things = ASLEEP,
    outcome: Outcome | None = None,
    archive: Presence = Presence.ABSENT,
    **options: Any,
) -> Case:
    return consider(each, things, archive, outcome, NOW, RULES, **options)


def failed(reason: ErrorReason = ErrorReason.ACTION_FAILED, message: str = "no") -> Outcome:
    return Outcome(OP, 1, reason, message)


# How the act ended


def test_an_act_under_way_is_let_go_on() -> None:
    assert isinstance(look(starting(), AWAKE).decision, Continue)


def test_an_act_that_ended_well_says_that_the_port_answered() -> None:
    assert isinstance(look(starting(), AWAKE, Outcome(OP, 1)).decision, Complete)


@pytest.mark.parametrize(
    ("things", "message"),
    [
        (ASLEEP, "STARTING was carried out, but had no effect"),
        (Things(container(running=False), (volume(),)), "its port answered, and then it ended"),
        (
            Things(replace(container(running=False), exit_code=3), (volume(),)),
            "its port answered, and then it ended with exit code 3",
        ),
    ],
)
def test_an_act_that_ended_well_without_effect_is_a_failure(things: Things, message: str) -> None:
    """Believing it would begin it again and again, at once and uncounted."""
    decision = look(starting(), things, Outcome(OP, 1)).decision
    assert isinstance(decision, Retry)
    assert (decision.message, decision.error_count) == (message, 1)


def test_a_failed_act_is_tried_again() -> None:
    case = look(starting(), ASLEEP, failed(message="the command was not found"))
    assert isinstance(case.decision, Retry)
    after = case.status(NOW, NEXT)
    assert (after.operation, after.op_id) == (Operation.STARTING, OP)
    assert (after.error_reason, after.error_count) == (ErrorReason.ACTION_FAILED, 1)
    assert case.why == "the command was not found"


def test_after_three_retries_it_is_in_error() -> None:
    case = look(starting(error_count=3), ASLEEP, failed())
    assert isinstance(case.decision, Fail)
    after = case.status(NOW, NEXT)
    assert (after.phase, after.operation) == (Phase.ERROR, Operation.NONE)
    assert after.error_reason is ErrorReason.RETRY_EXCEEDED


def ended(**fields: Any) -> Case:
    """It ran, ended once too often, and nobody stopped it."""
    crashed = row(Phase.RUNNING, error_count=3, **fields)
    return look(crashed, Things(container(running=False), (volume(),)))


def test_what_it_said_last_is_told_with_its_failure() -> None:
    assert ended().unheard
    told = ended().told("no space left on device")
    assert isinstance(told.decision, Fail)
    assert told.status(NOW, NEXT).error_message == (
        "its command ended, and nobody stopped it: no space left on device"
    )
    assert ended().told("") == ended()


def test_of_many_words_the_last_are_kept() -> None:
    message = ended().told("x" * 400 + "the end").status(NOW, NEXT).error_message
    assert message is not None
    assert len(message) == 300
    assert message.startswith("its command ended, and nobody stopped it: …x")
    assert message.endswith("the end")


def test_a_failed_act_has_told_it_already() -> None:
    things = Things(container(running=False), (volume(),))
    told = look(starting(error_count=3), things, failed(message="ended: no"))
    assert isinstance(told.decision, Fail)
    assert not told.unheard
    assert look(starting(error_count=3), things, Outcome(OP, 1)).unheard
    late = starting(op_started_at=NOW - 60 * MINUTE)
    assert look(late, AWAKE).unheard
    assert not look(late, ASLEEP).unheard, "there is nobody to say anything"


def test_that_nobody_answered_is_never_counted() -> None:
    case = look(starting(error_count=3), ASLEEP, failed(ErrorReason.UNREACHABLE))
    assert isinstance(case.decision, Retry)
    assert case.status(NOW, NEXT).error_count == 3


@pytest.mark.parametrize("reason", [ErrorReason.ARCHIVE_CORRUPTED, ErrorReason.IMAGE_PULL_FAILED])
def test_what_cannot_succeed_is_not_tried_again(reason: ErrorReason) -> None:
    decision = look(starting(), ASLEEP, failed(reason)).decision
    assert isinstance(decision, Fail)
    assert decision.reason is reason


def test_the_fact_counts_more_than_a_failed_act() -> None:
    """It failed, and yet what it was for has happened."""
    stopping = row(Phase.RUNNING, operation=Operation.STOPPING, op_id=OP, op_started_at=NOW)
    assert isinstance(look(stopping, ASLEEP, failed()).decision, Complete)


def test_while_it_waits_for_the_next_try_an_old_failure_is_not_counted_again() -> None:
    waiting = starting(retry_at=NOW + MINUTE, error_count=1)
    assert isinstance(look(waiting, ASLEEP, failed()).decision, Wait)


# A free hand


def test_waiting_for_a_free_hand_does_not_count_towards_the_time_limit() -> None:
    case = without_room(look(starting()))
    after = case.status(NOW, NEXT)
    assert isinstance(case.decision, Wait)
    assert case.decision.blind
    later = NOW + timedelta(hours=3)
    limit = deadline(after, later, RULES)
    assert limit is not None
    assert limit > later


# A new leader


def test_time_in_which_nobody_looked_does_not_count() -> None:
    long_ago = NOW - timedelta(hours=2)
    found = starting(op_started_at=long_ago, observed_at=long_ago)
    assert isinstance(look(found, AWAKE).decision, Fail)
    taken_over = look(found, AWAKE, unwatched=True)
    assert isinstance(taken_over.decision, Continue)
    again = replace(found, status=taken_over.status(NOW, NEXT))
    assert isinstance(look(again, AWAKE).decision, Continue), "and it stays so"


@pytest.mark.parametrize("blind", ["runtime", "no free hand"])
def test_it_is_noted_as_well_where_there_is_nothing_else_to_store(blind: str) -> None:
    long_ago = NOW - timedelta(hours=2)
    found = starting(op_started_at=long_ago, observed_at=long_ago)
    things = Things(unknown="no answer") if blind == "runtime" else AWAKE
    for _ in range(2):  # the conditions are up to date at the second look
        case = look(found, things, unwatched=True)
        case = without_room(case) if blind == "no free hand" else case
        after = case.status(NOW, NEXT)
        found = replace(found, status=replace(after, op_progress={}, observed_at=long_ago))
    assert after.op_progress == {"blind_since": long_ago.isoformat()}
    again = replace(found, status=after)
    assert isinstance(look(again, AWAKE).decision, Continue), "and it is not late"


def test_what_it_never_saw_counts_as_unwatched_since_it_was_begun() -> None:
    long_ago = NOW - timedelta(hours=2)
    found = starting(op_started_at=long_ago, observed_at=None)
    assert isinstance(look(found, AWAKE, unwatched=True).decision, Continue)


def test_a_blindness_that_was_noted_before_keeps_its_begin() -> None:
    since = (NOW - timedelta(hours=3)).isoformat()
    found = starting(op_started_at=NOW - timedelta(hours=3), op_progress={"blind_since": since})
    after = look(found, AWAKE, unwatched=True).status(NOW, NEXT)
    assert after.op_progress == {"blind_seconds": 3 * 3600.0}


def test_at_rest_there_is_nothing_to_have_missed() -> None:
    asleep = row(intent=Intent(DesiredState.STANDBY))
    settled = replace(asleep, status=look(asleep).status(NOW, NEXT))
    case = look(settled, unwatched=True)
    assert case.status(NOW, NEXT) is settled.status
    assert case.noted is settled


def test_nothing_is_written_where_nothing_changed() -> None:
    asleep = row(intent=Intent(DesiredState.STANDBY))
    settled = replace(asleep, status=look(asleep).status(NOW, NEXT))
    assert look(settled).status(NOW + MINUTE, NEXT) is settled.status


# What a failed start left


def broken_start(**fields: Any) -> Workspace:
    fields = {
        "op_id": OP,
        "op_progress": {"failed": "STARTING"},
        "error_reason": ErrorReason.TIMEOUT,
        "error_message": "no port",
        "error_count": 1,
    } | fields
    return row(Phase.ERROR, **fields)


def test_what_a_failed_start_left_is_ended() -> None:
    assert is_leftover(broken_start(), AWAKE)
    assert is_leftover(broken_start(), Things(container(running=False), (volume(),)))


@pytest.mark.parametrize(
    ("fields", "things"),
    [
        ({"op_progress": {"failed": "NONE"}}, AWAKE),
        ({"op_progress": {}}, AWAKE),
        ({"op_id": NEXT}, AWAKE),
        ({}, ASLEEP),
        ({}, Things(container(op_id=None), (volume(),))),
        ({}, Things(unknown="no answer")),
    ],
    ids=["crashed at rest", "no word", "another start", "none there", "no op", "unknown"],
)
def test_what_is_not_surely_of_the_failed_start_stays(fields: Any, things: Things) -> None:
    assert not is_leftover(broken_start(**fields), things)


def test_recovery_waits_until_the_leftover_is_ended() -> None:
    asked = Intent(DesiredState.RUNNING, recover_requested=RecoverMode.PLAIN)
    case = look(broken_start(intent=asked), AWAKE)
    assert isinstance(case.decision, Nothing)
    assert "ended first" in case.why
    assert not case.answers
    assert case.is_untidy
    assert isinstance(look(broken_start(intent=asked), ASLEEP).decision, Recover)


def test_a_loss_is_told_even_beside_a_leftover() -> None:
    """The home is gone under the process: that is worse than the start that failed."""
    case = look(broken_start(), Things(container(), ()))
    assert isinstance(case.decision, Fail)
    assert case.decision.reason is ErrorReason.DATA_LOST


# What belongs to nothing


def test_a_volume_of_the_past_is_tidied_away_at_rest() -> None:
    later = row(home_store_key=VolumeRef(ME, 2).name, home_generation=2)
    things = Things(None, (volume(1), volume(2)))
    assert needs_tidying(later, things)
    assert not needs_tidying(later, Things(None, (volume(2),)))


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": Operation.STARTING},
        {"error_reason": ErrorReason.DATA_LOST},
        {"error_reason": ErrorReason.CONTAINER_WITHOUT_VOLUME},
        {"declared": {"suspend": True}},
    ],
    ids=["in flight", "after a loss", "without a volume", "suspended"],
)
def test_nothing_is_tidied_away_when_it_may_be_all_there_is(fields: Any) -> None:
    later = row(**{"home_store_key": VolumeRef(ME, 2).name, "home_generation": 2, **fields})
    assert not needs_tidying(later, Things(None, (volume(1),)))


def test_a_volume_that_was_retired_for_a_damaged_archive_is_kept() -> None:
    """It may be all there is; but a half that a restore left is not."""
    asleep, things = archived(home_generation=1), Things(None, (volume(1),))
    corrupted = ErrorReason.ARCHIVE_CORRUPTED
    assert needs_tidying(archived(home_generation=1, error_reason=corrupted), things)
    after = look(asleep, things, archive=Presence.DAMAGED).status(NOW, NEXT)
    assert after.error_reason is corrupted
    assert not needs_tidying(replace(asleep, status=after), things)


def test_what_could_not_be_listed_is_not_tidied() -> None:
    assert not needs_tidying(row(home_store_key=None), Things(unknown="no answer"))


def test_retired_volumes_that_are_gone_are_forgotten() -> None:
    retired = HomeContext(retired=(VolumeRef(ME, 1).name, VolumeRef(ME, 2).name))
    moved = row(home_store_key=VolumeRef(ME, 3).name, home_generation=3, home_ctx=retired)
    things = Things(None, (volume(2), volume(3)))
    after = look(moved, things).status(NOW, NEXT)
    assert after.home_ctx.retired == (VolumeRef(ME, 2).name,)


def test_retired_volumes_are_remembered_while_nobody_can_look() -> None:
    moved = row(home_ctx=HomeContext(retired=("ws-gone",)))
    after = look(moved, Things(unknown="no answer")).status(NOW, NEXT)
    assert after.home_ctx.retired == ("ws-gone",)


def test_a_home_that_was_given_up_is_noticed_when_it_is_there_again() -> None:
    context = HomeContext(given_up=(HOME,))
    later = row(home_store_key=VolumeRef(ME, 2).name, home_generation=2, home_ctx=context)
    away = settled(later, Things(None, (volume(2),)))
    assert away.status.home_ctx == context
    back = Things(None, (volume(1), volume(2)))
    there = settled(away, back)
    assert there.status.home_ctx == replace(context, found=(HOME,))
    assert not needs_tidying(there, back)
    assert settled(there, Things(unknown="no answer")).status.home_ctx.found == (HOME,)
    assert settled(there, Things(None, (volume(2),))).status.home_ctx == context


# The archive


def archived(**fields: Any) -> Workspace:
    return row(Phase.ARCHIVED, archive_key="k", **{"home_store_key": None, **fields})


def test_without_a_key_there_is_no_archive() -> None:
    assert archive_fact(row(), {}) is Presence.ABSENT


def test_what_was_found_counts() -> None:
    for found in Presence:
        assert archive_fact(archived(), {ME: found}) is found


def test_where_it_is_all_there_is_nothing_is_said_before_somebody_looked() -> None:
    assert archive_fact(archived(), {}) is None


@pytest.mark.parametrize(
    ("stored", "fact"),
    [
        (ConditionStatus.TRUE, Presence.PRESENT),
        (ConditionStatus.FALSE, Presence.UNKNOWN),
        (ConditionStatus.UNKNOWN, Presence.UNKNOWN),
        (None, Presence.UNKNOWN),
    ],
)
def test_beside_a_home_the_last_word_on_it_stands_meanwhile(
    stored: ConditionStatus | None, fact: Presence
) -> None:
    conditions = {} if stored is None else {ConditionName.ARCHIVE_READY: Condition(stored)}
    housed = archived(home_store_key=HOME, conditions=conditions)
    assert archive_fact(housed, {}) is fact


# Answering a person


def test_a_recovery_answers_the_person_who_asked() -> None:
    asked = Intent(DesiredState.RUNNING, recover_requested=RecoverMode.PLAIN)
    assert look(broken_start(intent=asked)).answers


def recovering(mode: RecoverMode, reason: ErrorReason, **fields: Any) -> Workspace:
    asked = Intent(DesiredState.RUNNING, recover_requested=mode)
    return row(Phase.ERROR, intent=asked, error_reason=reason, error_message="gone", **fields)


def test_a_recovery_leads_where_it_is_without_the_home_that_was_given_up() -> None:
    """What still runs there is a stray; it would be an ERROR that nobody could explain."""
    lost = recovering(RecoverMode.ACCEPT_EMPTY, ErrorReason.DATA_LOST)
    after = look(lost, Things(container(), ())).status(NOW, NEXT)
    assert (after.phase, after.error_reason, after.home_store_key) == (Phase.PENDING, None, None)
    assert after.conditions[ConditionName.HEALTHY].status is ConditionStatus.TRUE


def test_a_recovery_that_changes_nothing_says_what_is_still_wrong() -> None:
    bare = recovering(RecoverMode.PLAIN, ErrorReason.CONTAINER_WITHOUT_VOLUME, home_store_key=None)
    things = Things(replace(container(), volume=None), ())
    after = look(bare, things).status(NOW, NEXT)
    assert (after.phase, after.error_reason) == (
        Phase.ERROR,
        ErrorReason.CONTAINER_WITHOUT_VOLUME,
    )
    assert after.error_message == "there is a container, but no complete volume for it"


def test_a_deletion_without_its_data_answers_when_it_is_claimed() -> None:
    asked = Intent(DesiredState.DELETED, at=NOW, recover_requested=DISCARD_DATA)
    stopping = look(broken_start(intent=asked, op_id=NEXT), AWAKE)
    assert stopping.decision_operation is Operation.STOPPING
    assert not stopping.answers, "what was asked for is still to come"
    deleting = look(broken_start(intent=asked))
    assert deleting.decision_operation is Operation.DELETING
    assert deleting.answers


def test_an_ordinary_claim_answers_nobody() -> None:
    case = look(row())
    assert isinstance(case.decision, Claim)
    assert not case.answers
    assert look(workspace(), NOTHING).decision_operation is Operation.PROVISIONING


# Where it is reached

HERE, THERE = Upstream("127.0.0.1", 40001), Upstream("127.0.0.1", 40002)


def at(upstream: Upstream | None, *, running: bool = True) -> Things:
    return Things(replace(container(running=running), upstream=upstream), (volume(),))


def test_a_workspace_that_came_up_is_reached_where_it_was_seen() -> None:
    case = look(starting(), at(HERE), Outcome(OP, 1))
    assert case.status(NOW, NEXT).upstream == HERE


def test_another_port_is_stored_though_nothing_else_changed() -> None:
    case = look(settled(row(Phase.RUNNING, upstream=HERE), at(HERE)), at(THERE))
    assert case.status(NOW, NEXT).upstream == THERE


def test_the_same_port_is_nothing_to_store() -> None:
    resting = settled(row(Phase.RUNNING, upstream=HERE), at(HERE))
    assert look(resting, at(HERE)).status(NOW, NEXT) is resting.status


def test_who_cannot_be_seen_stays_where_it_was() -> None:
    case = look(row(Phase.RUNNING, upstream=HERE), Things(unknown="no answer"))
    assert case.status(NOW, NEXT).upstream == HERE


def test_what_does_not_run_is_reached_nowhere() -> None:
    assert look(row(Phase.RUNNING, upstream=HERE), ASLEEP).status(NOW, NEXT).upstream is None
    gone = at(None, running=False)
    assert look(row(Phase.RUNNING, upstream=HERE), gone).status(NOW, NEXT).upstream is None


def settled(each: Workspace, things: Things) -> Workspace:
    """The row after a pass that saw this."""
    return replace(each, status=look(each, things).status(NOW, NEXT))
