"""What `codehub explain`, `events` and `doctor` print, as people read it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.core.explain import explain
from codehub.model.checkup import Finding, problem, warning, well
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.events import Event, EventKind
from codehub.model.explanation import Circumstances, Customs, Explanation, Leadership, Queued
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Activity, HomeContext, Intent, Status, Ttl, Workspace
from codehub.render.doctor_text import doctor_json, doctor_text
from codehub.render.events_text import event_json, event_line
from codehub.render.explain_text import explain_json, explain_text
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
TTL = Ttl(standby=3 * 3600, archive=24 * 3600, policy="interactive")
LEADER = Leadership(True, "build-1:4711", 3, NOW - 5 * HOUR)
HOME = "ws-00000000-0000-0000-0000-000000000001-home-g2"


def explained(row: Workspace, **around: Any) -> Explanation:
    known: dict[str, Any] = {"leader": LEADER, "drained_at": NOW, "commit": "5c110904fbe7aa51"}
    return explain(row, Circumstances(now=NOW, **known | around), Customs())


REASONS = {
    ConditionName.VOLUME_READY: {TRUE: "VolumeComplete", FALSE: "VolumeMissing"},
    ConditionName.ARCHIVE_READY: {TRUE: "ArchiveCommitted", FALSE: "NoArchive"},
    ConditionName.CONTAINER_READY: {TRUE: "PortAnswered", FALSE: "NoContainer"},
    ConditionName.HEALTHY: {TRUE: "InvariantsHold", FALSE: "DataLost"},
}


def conditions(*statuses: ConditionStatus) -> dict[ConditionName, Condition]:
    return {
        name: Condition(
            status,
            reasons.get(status, "Unreachable"),
            "the store does not answer" if status is UNKNOWN else "",
            NOW - 2 * HOUR,
        )
        for (name, reasons), status in zip(REASONS.items(), statuses, strict=True)
    }


def running() -> Workspace:
    return workspace(
        "payments-api",
        intent=Intent(DesiredState.RUNNING, IntentSource.VISIT, NOW - 2 * HOUR, "alice"),
        status=Status(
            Phase.RUNNING,
            NOW - 2 * HOUR,
            conditions=conditions(TRUE, FALSE, TRUE, TRUE),
            home_store_key=HOME,
            observed_generation=1,
        ),
        activity=Activity(NOW - 12 * MINUTE, "input"),
        ttl=TTL,
        env={"TOKEN": "canary"},
        secret_env={"KEY": "canary-name"},
    )


def test_one_that_runs(text_snapshot: SnapshotAssertion) -> None:
    text = explain_text(explained(running()))
    assert "In its way" not in text
    assert "canary" not in text
    assert text == text_snapshot


def test_one_that_waits_for_a_limit_without_a_leader(text_snapshot: SnapshotAssertion) -> None:
    row = workspace(
        "ml-gpu",
        intent=Intent(DesiredState.RUNNING, IntentSource.SPEC, NOW - HOUR, "bob"),
        status=Status(Phase.STANDBY, NOW - HOUR, home_store_key=HOME, observed_generation=1),
    )
    queued = Queued(2, 2, "alice", ("payments-api", "web"), ("payments-api", "web"))
    leader = Leadership(False, "build-1:4711", 3, NOW - DAY)
    text = explain_text(explained(row, queued=queued, leader=leader))
    assert text.index("no coordinator leads") < text.index("number 2 of those that wait")
    assert text == text_snapshot


def test_lost_data_shows_both_ways_out(text_snapshot: SnapshotAssertion) -> None:
    row = workspace(
        "payments-api",
        status=Status(
            Phase.ERROR,
            NOW - 10 * MINUTE,
            conditions=conditions(FALSE, TRUE, FALSE, FALSE),
            archive_key="a",
            archive_bytes=3 << 29,
            home_store_key=HOME,
            error_reason=ErrorReason.DATA_LOST,
            error_message=f"the volume {HOME} is gone",
            error_count=1,
            op_progress={"failed": "NONE"},
            observed_generation=1,
        ),
        ttl=TTL,
    )
    text = explain_text(explained(row))
    assert "--from-archive" in text
    assert "--accept-empty" in text
    assert text == text_snapshot


def archiving() -> Workspace:
    return workspace(
        "old-poc",
        intent=Intent(DesiredState.ARCHIVED, IntentSource.TTL, NOW - 5 * MINUTE, "ttl"),
        status=Status(
            Phase.STANDBY,
            NOW - DAY,
            operation=Operation.ARCHIVING,
            op_started_at=NOW - 4 * MINUTE,
            op_id=UUID(int=7),
            op_progress={
                "stage": "upload",
                "bytes": 1 << 30,
                "total": 4 << 30,
                "entries": 1200,
                "at": NOW.isoformat(),
            },
            conditions=conditions(TRUE, UNKNOWN, FALSE, TRUE),
            home_store_key=HOME,
            error_reason=ErrorReason.UNREACHABLE,
            error_message="the store does not answer",
            retry_at=NOW + 30 * timedelta(seconds=1),
            observed_generation=1,
        ),
        ttl=TTL,
    )


def test_an_archive_under_way_that_nobody_answers(text_snapshot: SnapshotAssertion) -> None:
    reason = Event(
        5,
        NOW,
        UUID(int=1),
        "old-poc",
        EventKind.DESIRED,
        old="STANDBY",
        new="ARCHIVED",
        source="ttl",
        by="ttl",
        reason="in STANDBY for 24h, ttl interactive.archive=24h",
    )
    text = explain_text(explained(archiving(), moved=reason))
    assert "1.0 GiB of 4.0 GiB (25%)" in text
    assert text == text_snapshot


def gone() -> Workspace:
    return workspace(
        "old-poc",
        intent=Intent(DesiredState.DELETED, IntentSource.SPEC, NOW - 2 * DAY, "bob"),
        status=Status(
            Phase.DELETED, NOW - DAY, deleted_at=NOW - DAY, archive_key="a", home_ctx=HomeContext()
        ),
    )


def test_one_that_was_deleted(text_snapshot: SnapshotAssertion) -> None:
    text = explain_text(explained(gone(), declared=False))
    assert "kept until 2026-11-07" in text
    assert text == text_snapshot


def test_nothing_that_was_typed_elsewhere_moves_a_cursor() -> None:
    row = workspace(
        status=Status(
            Phase.ERROR,
            error_reason=ErrorReason.RETRY_EXCEEDED,
            error_message="no\x1b[2J\nway",
        )
    )
    text = explain_text(explained(row))
    assert "\x1b" not in text
    assert "no\\x1b[2J\\nway" in text


def test_an_explanation_for_scripts(text_snapshot: SnapshotAssertion) -> None:
    text = explain_json(explained(archiving(), queued=Queued(1, 2, "alice", ("web",), ("web",))))
    data = json.loads(text)
    assert data["formatVersion"] == 1
    assert [each["kind"] for each in data["blockedBy"]] == [
        "unknown",
        "operation",
        "retry",
        "limit",
        "hold",
    ]
    assert text + "\n" == text_snapshot


def test_scripts_get_no_env() -> None:
    assert "canary" not in explain_json(explained(running()))


def test_a_deleted_one_for_scripts() -> None:
    data = json.loads(explain_json(explained(gone())))
    assert data["archiveKeptUntil"] == (NOW + 6 * DAY).isoformat()
    assert data["next"] is None


def event(kind: EventKind, old: str, new: str, **fields: Any) -> Event:
    fields = {"source": "controller", "by": "build-1:4711"} | fields
    return Event(41, NOW, UUID(int=1), fields.pop("workspace", "api"), kind, old, new, **fields)


EVENTS = (
    event(EventKind.DECLARED, "", "RUNNING", source="spec", by="alice", reason="new in the specs"),
    event(EventKind.DESIRED, "RUNNING", "STANDBY", source="ttl", by="ttl", reason="idle 3h2m"),
    event(EventKind.OPERATION, "NONE", "STOPPING"),
    event(EventKind.PHASE, "RUNNING", "STANDBY", workspace="a-rather-long-workspace-name"),
    event(EventKind.ERROR, "", "RetryExceeded", reason="exit 1\x1b[31m\nand more"),
    event(EventKind.OVERRIDE, "STANDBY", "", source="cli", by="bob"),
    event(EventKind.EXPIRING, "", "", source="", by=""),
    event(EventKind.STRAY, "ws-1-home-g1", "removed", by="", reason="nothing refers to it"),
)


def test_events(text_snapshot: SnapshotAssertion) -> None:
    text = "".join(event_line(each) for each in EVENTS)
    assert "\x1b" not in text
    assert text.count("\n") == len(EVENTS)
    assert text == text_snapshot


def test_events_for_scripts_are_one_object_a_line() -> None:
    lines = "".join(event_json(each) for each in EVENTS).splitlines()
    assert len(lines) == len(EVENTS)
    assert json.loads(lines[4])["reason"] == EVENTS[4].reason


FINDINGS = (
    Finding("settings", well("from the environment: DATABASE_URL")),
    Finding(
        "session",
        problem(
            "DATABASE_URL goes through a transaction pooler, which cannot hold the leader's lock",
            "set DATABASE_URL to the server itself, or to a pooler in session mode",
        ),
    ),
    Finding("volumes", warning("1 of no workspace that is known, left alone: \x1b[2Jhome")),
)


def test_a_check_up(text_snapshot: SnapshotAssertion) -> None:
    text = doctor_text(FINDINGS)
    assert "1 problem, 1 warning" in text
    assert "\x1b" not in text
    assert text == text_snapshot


def test_all_is_well() -> None:
    assert doctor_text(FINDINGS[:1]).endswith("1 check, all well.\n")


def test_a_check_up_for_scripts() -> None:
    data = json.loads(doctor_json(FINDINGS))
    assert data["healthy"] is False
    assert [each["health"] for each in data["checks"]] == ["ok", "problem", "warning"]
    assert json.loads(doctor_json(FINDINGS[::2]))["healthy"] is True
