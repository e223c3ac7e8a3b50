"""What an explanation says: why, who, what comes next, and what is in the way."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from codehub.core.block import moment
from codehub.core.explain import explain
from codehub.core.gauge import amount, progress_words
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.decision import DISCARD_DATA
from codehub.model.events import Event, EventKind
from codehub.model.explanation import (
    BlockKind,
    Circumstances,
    Customs,
    Explanation,
    Leadership,
    Queued,
)
from codehub.model.plan import PlanOptions
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import (
    NEVER,
    Activity,
    HomeContext,
    Intent,
    Override,
    Status,
    Ttl,
    UpdatePolicy,
    Workspace,
)
from tests.make import NOW, workspace

SECOND, MINUTE, HOUR, DAY = (
    timedelta(seconds=1),
    timedelta(minutes=1),
    timedelta(hours=1),
    timedelta(days=1),
)
RUNNING, STANDBY, ARCHIVED, DELETED = (
    DesiredState.RUNNING,
    DesiredState.STANDBY,
    DesiredState.ARCHIVED,
    DesiredState.DELETED,
)
LEADER = Leadership(held=True, holder="host-1", epoch=3, since=NOW - HOUR)
TTL = Ttl(standby=3600, archive=7200, policy="short")


def explained(row: Workspace, customs: Customs | None = None, **around: Any) -> Explanation:
    around.setdefault("leader", LEADER)
    around.setdefault("drained_at", NOW)
    return explain(row, Circumstances(now=NOW, **around), customs or Customs())


def line(explanation: Explanation, topic: str) -> str:
    return next(each.text for each in explanation.lines if each.topic == topic)


def blocks(explanation: Explanation) -> dict[BlockKind, str]:
    return {each.kind: f"{each.message} -> {each.advice}" for each in explanation.blocks}


def awake(**fields: Any) -> Workspace:
    fields.setdefault("status", Status(Phase.RUNNING, NOW - 2 * HOUR, observed_generation=1))
    fields.setdefault("activity", Activity(NOW - 10 * MINUTE, "input"))
    fields.setdefault("ttl", TTL)
    return workspace(**fields)


def asleep(**fields: Any) -> Workspace:
    status: dict[str, Any] = {
        "phase": Phase.STANDBY,
        "phase_changed_at": NOW - HOUR,
        "home_store_key": "v",
        "observed_generation": 1,
    }
    status |= fields.pop("status_fields", {})
    fields.setdefault("status", Status(**status))
    fields.setdefault("desired", STANDBY)
    fields.setdefault("ttl", TTL)
    return workspace(**fields)


def broken(reason: ErrorReason, **fields: Any) -> Workspace:
    status = Status(
        Phase.ERROR,
        NOW - HOUR,
        error_reason=reason,
        error_message="it said no",
        error_count=1,
        op_progress={"failed": fields.pop("failed", "STARTING")},
        **fields.pop("status_fields", {}),
    )
    return workspace(status=status, **fields)


# Where it is and why


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_is_said_in_a_sentence(phase: Phase) -> None:
    text = line(explained(workspace(status=Status(phase))), "phase")
    assert len(text.split()) >= 2
    assert text[0].islower()


def test_an_archive_tells_its_size() -> None:
    row = workspace(status=Status(Phase.ARCHIVED, archive_key="a", archive_bytes=3 << 29))
    assert "1.5 GiB" in line(explained(row), "phase")


def test_where_it_is_declared() -> None:
    text = line(explained(workspace("api"), commit="5c110904fbe7aa51"), "declared")
    assert text == "RUNNING at specs/api.yaml:1, commit 5c110904fbe7, revision 1"


def test_an_orphan_is_declared_by_nobody() -> None:
    assert "no spec any more" in line(explained(workspace(orphaned=True)), "declared")


def test_marks_in_the_spec_are_told() -> None:
    text = line(explained(workspace(pinned=True, protect=True)), "declared")
    assert text.endswith("(pinned, protect)")


# Who last moved it


def moved(**fields: Any) -> Event:
    fields = {"old": "RUNNING", "new": "STANDBY", "source": "cli", "by": "bob"} | fields
    return Event(1, NOW, UUID(int=1), "api", EventKind.DESIRED, **fields)


@pytest.mark.parametrize(
    ("source", "by", "said"),
    [
        (IntentSource.SPEC, "bob", "STANDBY by the specs 1h ago, applied by bob"),
        (IntentSource.TTL, "ttl", "STANDBY by idleness from RUNNING 1h ago"),
        (IntentSource.VISIT, "bob", "STANDBY by a visit of bob from RUNNING 1h ago"),
        (IntentSource.CLI, "bob", "STANDBY by bob from RUNNING 1h ago, through the cli"),
        (IntentSource.API, "", "STANDBY by somebody from RUNNING 1h ago, through the api"),
    ],
)
def test_who_moved_it_and_when(source: IntentSource, by: str, said: str) -> None:
    row = asleep(intent=Intent(STANDBY, source, NOW - HOUR, by))
    assert line(explained(row, moved=moved()), "asked") == said


def test_why_it_was_moved() -> None:
    row = asleep(intent=Intent(STANDBY, IntentSource.CLI, NOW - HOUR, "bob"))
    said = line(explained(row, moved=moved(reason="lunch")), "asked")
    assert said.endswith(": lunch")


def test_an_audit_row_of_another_move_gives_no_reason() -> None:
    row = asleep(intent=Intent(STANDBY, IntentSource.CLI, NOW - HOUR, "bob"))
    said = line(explained(row, moved=moved(new="ARCHIVED", reason="lunch")), "asked")
    assert "lunch" not in said


# Where it is heading


def test_at_rest_it_heads_nowhere() -> None:
    explanation = explained(awake())
    assert explanation.way == ("RUNNING",)
    assert line(explanation, "heading") == "nowhere: it is where it should be"


def test_the_steps_to_come_are_named() -> None:
    row = workspace(status=Status(Phase.ARCHIVED, archive_key="a", observed_generation=1))
    assert line(explained(row), "heading") == (
        "ARCHIVED -> RESTORING -> STANDBY -> STARTING -> RUNNING"
    )


def test_an_operation_in_flight_is_the_first_step() -> None:
    status = {"operation": Operation.ARCHIVING, "op_started_at": NOW, "op_id": UUID(int=9)}
    explanation = explained(asleep(status_fields=status, desired=RUNNING))
    assert explanation.way[:3] == ("STANDBY", "ARCHIVING", "ARCHIVED")
    assert explanation.way[-1] == "RUNNING"


def silent(**fields: Any) -> Workspace:
    """Its container runs and its port does not answer."""
    status = Status(
        Phase.RUNNING,
        NOW - 90 * SECOND,
        operation=Operation.STARTING,
        op_started_at=NOW - 100 * SECOND,
        observed_generation=1,
    )
    return workspace("deaf", status=status, **fields)


def test_what_runs_is_starting_until_its_port_answers() -> None:
    explanation = explained(silent())
    silence = "it runs, but its port has not answered yet"
    assert explanation.headline == f"deaf has been STARTING for 1m40s: {silence}"
    assert line(explanation, "phase") == silence
    assert line(explanation, "heading") == "STARTING -> RUNNING"
    advice = blocks(explanation)[BlockKind.OPERATION].partition(" -> ")[2]
    assert advice.startswith("unless its port answers it is given up at")
    assert explained(silent(desired=STANDBY)).way == ("STARTING", "RUNNING", "STOPPING", "STANDBY")


def test_a_suspended_one_stays() -> None:
    assert "suspended" in line(explained(asleep(suspend=True)), "heading")


def test_in_error_it_heads_nowhere_until_recovered() -> None:
    assert "recovered" in line(explained(broken(ErrorReason.TIMEOUT)), "heading")


def test_a_running_container_of_an_older_spec_is_told() -> None:
    status = Status(Phase.RUNNING, NOW - HOUR, container_template="old", observed_generation=1)
    row = awake(status=status, update=UpdatePolicy.NEXT_START)
    assert "older spec" in line(explained(row), "heading")


def test_a_spec_that_nobody_looked_at_yet_is_told() -> None:
    row = awake(generation=2)
    assert "not looked at its newest spec" in line(explained(row), "heading")


# Activity and what comes next


def test_the_last_activity_and_how_it_is_known() -> None:
    text = line(explained(awake()), "activity")
    assert text == "last seen 10m ago (input: somebody typed or clicked)"


def test_an_unknown_source_of_activity_is_named_as_it_is() -> None:
    row = awake(activity=Activity(NOW - MINUTE, "smoke"))
    assert line(explained(row), "activity") == "last seen 1m ago (smoke)"


def test_nobody_was_seen_yet() -> None:
    assert "nobody" in line(explained(awake(activity=Activity())), "activity")


def test_the_next_transition_and_its_time() -> None:
    explanation = explained(awake())
    assert explanation.next is not None
    assert explanation.next.at == NOW + 50 * MINUTE
    assert explanation.next.new == STANDBY
    assert explanation.remind_at == NOW + 45 * MINUTE
    text = line(explanation, "next")
    assert text.startswith("idleness lowers it in 50m (2026-11-01 12:50:00 UTC or a little later)")
    assert "to STANDBY" in text
    assert "ttl short.standby=1h" in text
    assert "a reminder goes out at 2026-11-01 12:45:00 UTC" in text


@pytest.mark.parametrize(
    ("ttl", "remind", "before"),
    [
        (3600, 5 * MINUTE, 5 * MINUTE),
        (600, 5 * MINUTE, 5 * MINUTE),
        (480, 5 * MINUTE, 4 * MINUTE),
        (60, 5 * MINUTE, MINUTE / 2),
        (3600, 45 * MINUTE, 30 * MINUTE),
    ],
)
def test_a_short_ttl_reminds_at_its_half(ttl: int, remind: timedelta, before: timedelta) -> None:
    """As the TTL check does it (`store/ttl.py`), in the values and in the sentence."""
    row = awake(ttl=Ttl(ttl, busy_cpu=0), activity=Activity(NOW, "input"))
    explanation = explained(row, Customs(remind=remind))
    at = NOW + timedelta(seconds=ttl) - before
    assert explanation.remind_at == at
    assert f"a reminder goes out at {moment(at)}" in line(explanation, "next")


def test_no_reminder_is_announced_where_none_is_wanted() -> None:
    explanation = explained(awake(), Customs(remind=timedelta(0)))
    assert explanation.next is not None
    assert explanation.remind_at is None
    assert "reminder" not in line(explanation, "next")


def test_a_reminder_that_went_out_is_not_announced() -> None:
    row = awake(activity=Activity(NOW - 57 * MINUTE, "input"))
    assert "reminder" not in line(explained(row), "next")


def test_blindness_counts_as_use() -> None:
    explanation = explained(awake(), blind_until=NOW - 5 * MINUTE)
    assert explanation.next is not None
    assert explanation.next.at == NOW + 55 * MINUTE
    assert "activity was unknown until 2026-11-01 11:55:00 UTC" in line(explanation, "next")


def test_an_old_blindness_changes_nothing() -> None:
    explanation = explained(awake(), blind_until=NOW - DAY)
    assert explanation.next is not None
    assert explanation.next.at == NOW + 50 * MINUTE
    assert "unknown" not in line(explanation, "next")


def test_a_standby_is_archived_next_and_blindness_counts_there_too() -> None:
    explanation = explained(asleep(), blind_until=NOW - 30 * MINUTE)
    assert explanation.next is not None
    assert (explanation.next.new, explanation.next.at) == (ARCHIVED, NOW + 90 * MINUTE)


def test_a_persons_last_word_counts_as_use() -> None:
    row = awake(intent=Intent(RUNNING, IntentSource.VISIT, NOW - MINUTE, "bob"))
    explanation = explained(row)
    assert explanation.next is not None
    assert explanation.next.at == NOW + 59 * MINUTE


def test_what_is_overdue_falls_at_the_next_look() -> None:
    row = awake(activity=Activity(NOW - 3 * HOUR, "input"))
    assert "at the next look" in line(explained(row), "next")


def test_while_activity_cannot_be_read_everything_waits() -> None:
    text = line(explained(awake(), drained_at=NOW - HOUR), "next")
    assert "until activity can be read from Redis again" in text


def test_a_leader_that_has_just_begun_is_given_time_to_read() -> None:
    fresh = Leadership(True, "host-2", 4, NOW - MINUTE)
    text = line(explained(awake(), drained_at=NOW - HOUR, leader=fresh), "next")
    assert "Redis" not in text


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (awake(pinned=True), "pinned"),
        (awake(suspend=True), "suspended"),
        (awake(ttl=Ttl(standby=NEVER)), "never"),
        (awake(desired=STANDBY), "moves it first"),
        (workspace(status=Status(Phase.ARCHIVED), desired=ARCHIVED), "an archive stays"),
        (workspace(status=Status(Phase.PENDING)), "made first"),
        (broken(ErrorReason.TIMEOUT), "nothing by itself"),
        (
            awake(
                status=Status(
                    Phase.RUNNING, NOW, Operation.STOPPING, op_started_at=NOW, op_id=UUID(int=1)
                )
            ),
            "STANDBY when STOPPING is done",
        ),
    ],
)
def test_why_idleness_does_not_lower_it(row: Workspace, why: str) -> None:
    explanation = explained(row)
    assert explanation.next is None
    assert why in line(explanation, "next")


# What is in its way


def test_nothing_is_in_the_way_of_one_at_rest() -> None:
    assert explained(awake()).blocks == ()


def test_without_a_leader_nothing_moves() -> None:
    explanation = explained(awake(), leader=Leadership(holder="host-9", epoch=2, since=NOW))
    said = blocks(explanation)[BlockKind.COORDINATOR]
    assert "the last one was host-9" in said
    assert "codehub serve coordinator" in said
    assert line(explanation, "coordinator") == "none leads"


def test_who_leads() -> None:
    assert line(explained(awake()), "coordinator") == "host-1 has led for 1h (epoch 3)"


@pytest.mark.parametrize(
    "reason",
    sorted(set(ErrorReason) - {ErrorReason.ACTION_FAILED, ErrorReason.UNREACHABLE}),
)
def test_every_error_says_what_happened_what_it_means_and_what_to_do(reason: ErrorReason) -> None:
    (block,) = explained(broken(reason)).blocks
    assert block.kind is BlockKind.ERROR
    assert block.message.startswith(f"{reason} during STARTING: it said no; that is, ")
    assert "codehub recover api" in block.advice


@pytest.mark.parametrize("reason", [ErrorReason.ACTION_FAILED, ErrorReason.UNREACHABLE])
def test_a_failure_that_passes_says_when_it_is_tried_again(reason: ErrorReason) -> None:
    status = {
        "error_reason": reason,
        "error_message": "no answer",
        "error_count": 2,
        "retry_at": NOW + MINUTE,
    }
    (block,) = explained(asleep(status_fields=status, desired=RUNNING)).blocks
    assert block.kind is BlockKind.RETRY
    assert block.message == f"{reason}: no answer (failed 2 times so far); it is tried again in 1m"
    assert block.until == NOW + MINUTE
    assert "recover" not in block.advice


def test_a_recovery_that_was_asked_for_is_told() -> None:
    row = broken(ErrorReason.TIMEOUT, intent=Intent(RUNNING, recover_requested="plain"))
    assert "recovery (plain) was asked for" in blocks(explained(row))[BlockKind.RECOVERY]
    row = broken(ErrorReason.TIMEOUT, intent=Intent(DELETED, recover_requested=DISCARD_DATA))
    assert "without an archive" in blocks(explained(row))[BlockKind.RECOVERY]


def test_unknown_facts_are_one_block_with_their_cause() -> None:
    blind = Condition(ConditionStatus.UNKNOWN, "Unreachable", "no disk", NOW - 5 * MINUTE)
    names = (ConditionName.VOLUME_READY, ConditionName.CONTAINER_READY, ConditionName.HEALTHY)
    row = asleep(status_fields={"conditions": dict.fromkeys(names, blind)})
    said = blocks(explained(row))[BlockKind.UNKNOWN]
    assert said.startswith("its volume and what runs of it could not be looked at for 5m: no disk")
    assert "nothing is taken for lost" in said


def test_an_operation_tells_how_far_it_is_and_when_it_is_given_up() -> None:
    status = {
        "operation": Operation.ARCHIVING,
        "op_started_at": NOW - MINUTE,
        "op_id": UUID(int=9),
        "op_progress": {"stage": "upload", "bytes": 30, "total": 120, "at": NOW.isoformat()},
    }
    row = asleep(status_fields=status, desired=ARCHIVED, declared_state=ARCHIVED)
    (block,) = explained(row).blocks
    assert block.kind is BlockKind.OPERATION
    assert block.message == "ARCHIVING is under way for 1m: upload, 30 bytes of 120 bytes (25%)"
    assert block.until == NOW + 5 * MINUTE


@pytest.mark.parametrize(
    ("progress", "leader"),
    [
        ({"blind_since": (NOW - MINUTE).isoformat()}, LEADER),
        ({}, Leadership(holder="host-1", epoch=3, since=NOW)),
    ],
)
def test_while_no_time_counts_no_end_is_announced(
    progress: dict[str, object], leader: Leadership
) -> None:
    """Facts are unknown, or nobody looks."""
    status = {
        "operation": Operation.ARCHIVING,
        "op_started_at": NOW - 2 * MINUTE,
        "op_id": UUID(int=9),
        "op_progress": progress,
    }
    row = asleep(status_fields=status, desired=ARCHIVED, declared_state=ARCHIVED)
    found = {each.kind: each for each in explained(row, leader=leader).blocks}
    assert found[BlockKind.OPERATION].until is None
    assert "given up" not in found[BlockKind.OPERATION].advice


def test_a_limit_of_the_owner_names_what_runs() -> None:
    queued = Queued(2, 1, "alice", running=("web", "lab"), stoppable=("lab",))
    said = blocks(explained(asleep(desired=RUNNING), queued=queued))[BlockKind.LIMIT]
    assert "alice may run 1 at once and has as many (web, lab)" in said
    assert "number 2 of those that wait" in said
    assert "codehub stop lab" in said


def test_what_cannot_be_stopped_is_not_advised_to_be() -> None:
    queued = Queued(2, 1, "alice", running=("web",))
    said = blocks(explained(asleep(desired=RUNNING), queued=queued))[BlockKind.LIMIT]
    assert "has as many (web)" in said
    assert "stop" not in said


def test_a_limit_of_the_hub_names_nobody() -> None:
    queued = Queued(position=7, limit=100)
    said = blocks(explained(asleep(desired=RUNNING), queued=queued))[BlockKind.LIMIT]
    assert "this hub runs 100 at once" in said
    assert "number 7" in said


def test_what_holds_it_below_its_spec() -> None:
    row = asleep(
        intent=Intent(STANDBY, IntentSource.TTL, NOW - HOUR),
        activity=Activity(NOW - 2 * HOUR, "input"),
    )
    said = blocks(explained(row))[BlockKind.HOLD]
    assert "declared RUNNING, now STANDBY: idle 2h" in said
    assert "codehub start api" in said


def test_an_override_holds_until_its_end() -> None:
    override = Override(STANDBY, NOW + HOUR, "maintenance")
    row = asleep(intent=Intent(RUNNING, override=override))
    (block,) = explained(row).blocks
    assert block.kind is BlockKind.HOLD
    assert "maintenance" in block.message
    assert block.until == NOW + HOUR


def test_a_lowering_that_waits_for_people_says_so() -> None:
    row = awake(
        declared_state=STANDBY,
        activity=Activity(NOW - MINUTE, "input"),
    )
    said = blocks(explained(row))[BlockKind.PEOPLE]
    assert "lower it to STANDBY" in said
    assert "4m" in said


# What was deleted


def deleted(**fields: Any) -> Workspace:
    fields.setdefault("archive_key", "a")
    return workspace(
        status=Status(Phase.DELETED, deleted_at=NOW - DAY, **fields),
        intent=Intent(DELETED, IntentSource.SPEC, NOW - 2 * DAY, "bob"),
    )


def test_a_deleted_one_says_until_when_it_can_come_back() -> None:
    explanation = explained(deleted(), declared=False)
    assert explanation.kept_until == NOW + 6 * DAY
    assert "2026-11-07 12:00:00 UTC, for 6d more" in line(explanation, "archive")
    assert "put it back into the specs with the owner alice" in line(explanation, "back")
    assert explanation.blocks == ()
    assert explanation.next is None


def test_a_deleted_one_that_the_specs_declare_is_undeleted() -> None:
    assert line(explained(deleted()), "back") == "'codehub undelete api'"


def test_the_retention_is_a_setting() -> None:
    customs = Customs(options=PlanOptions(retention=HOUR))
    assert "may go at any moment" in line(explained(deleted(), customs), "archive")


def test_one_that_held_no_data_has_no_archive() -> None:
    explanation = explained(deleted(archive_key=None))
    assert explanation.kept_until is None
    assert "held no data" in line(explanation, "archive")


def test_what_was_purged_does_not_come_back() -> None:
    explanation = explained(deleted(purged_at=NOW), declared=False)
    assert "nothing brings it back" in line(explanation, "archive")
    assert "new, empty" in line(explanation, "back")


# Amounts


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (3 << 29, "1.5 GiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_amounts_are_rounded(count: int, said: str) -> None:
    assert amount(count) == said


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        ({}, ""),
        ({"stage": "verify"}, "verify"),
        ({"stage": "", "bytes": 0}, ""),
        ({"bytes": 2048}, "2.0 KiB"),
        ({"stage": "upload", "bytes": 300, "total": 100}, "upload, 300 bytes of 100 bytes (100%)"),
        ({"stage": 7, "bytes": "many", "total": True}, ""),
        ({"stage": "upload", "bytes": -1}, "upload"),
    ],
)
def test_progress_in_words(progress: dict[str, object], said: str) -> None:
    assert progress_words(progress) == said


@pytest.mark.parametrize("deleted_at", [None, NOW])
def test_a_home_that_came_back_after_it_was_given_up_is_named(deleted_at: datetime | None) -> None:
    context = HomeContext(given_up=("ws-1-home-g1", "ws-1-home-g2"), found=("ws-1-home-g2",))
    fields = {"home_ctx": context, "deleted_at": deleted_at}
    assert line(explained(asleep(status_fields=fields)), "found") == (
        "ws-1-home-g2, given up while nobody found it; it is kept and not used: look into it by "
        "hand, copy out what is needed, then remove it by hand"
    )


def test_a_loss_that_is_over_is_not_called_one() -> None:
    sound = {ConditionName.HEALTHY: Condition(ConditionStatus.TRUE)}
    fields = {"home_store_key": "v", "conditions": sound}
    row = broken(ErrorReason.DATA_LOST, failed="NONE", status_fields=fields)
    assert blocks(explained(row))[BlockKind.ERROR] == (
        "DataLost: what was gone is there again -> "
        "its home is there again: 'codehub recover api' takes it"
    )
