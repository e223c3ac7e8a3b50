"""What `--wait` and `status --watch` show while workspaces move, at any width and height."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.settle import outcome
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.outcome import Followed, Snapshot
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.model.workspace import Activity, Status
from codehub.render.progress_text import (
    asked_text,
    block_lines,
    change_json,
    change_line,
    settled_text,
    unfinished_text,
)
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

LONG = "a-name-as-long-as-names-may-be-forty-let"
EARLIER = NOW - timedelta(seconds=12)


def followed(name: str, status: Status, limit: str = "", **fields: Any) -> Followed:
    row = replace(workspace(name, status=status, **fields), declared_at=NOW)
    return Followed(row, outcome(row, NOW, limit=limit))


def busy(operation: Operation, phase: Phase, **progress: object) -> Status:
    return Status(
        phase,
        operation=operation,
        op_started_at=EARLIER,
        op_progress=progress,
        phase_changed_at=NOW - timedelta(hours=3),
    )


RUNS = Status(Phase.RUNNING, phase_changed_at=NOW - timedelta(hours=4, minutes=12))
SLEEPS = Status(Phase.STANDBY, phase_changed_at=NOW - timedelta(days=2))
BROKEN = Status(
    Phase.ERROR,
    phase_changed_at=NOW - timedelta(minutes=1),
    error_reason=ErrorReason.TIMEOUT,
    error_message="STARTING got nowhere\x1b[2J in 120 s",
)
UNPACKS = busy(
    Operation.RESTORING, Phase.ARCHIVED, stage="unpack", bytes=1_300_000_000, total=3_200_000_000
)
PACKS = busy(Operation.ARCHIVING, Phase.STANDBY, stage="pack", bytes=5_000_000)
RETRIES = replace(
    busy(Operation.STARTING, Phase.STANDBY),
    error_reason=ErrorReason.ACTION_FAILED,
    error_message="command not found: serve",
)
FLEET = (
    followed("api", RUNS),
    followed("broken", BROKEN),
    followed("crowded", SLEEPS, "held by a limit: alice may run 2 at once, and this is number 3"),
    followed("in-use", RUNS, declared_state=DesiredState.STANDBY, activity=Activity(NOW)),
    followed(LONG, SLEEPS, desired=DesiredState.STANDBY),
    followed("ml-gpu", UNPACKS),
    followed("new", Status(Phase.PENDING)),
    followed("old-poc", PACKS, desired=DesiredState.ARCHIVED),
    followed("starts", busy(Operation.STARTING, Phase.STANDBY)),
    followed("unwilling", RETRIES),
)
SNAPSHOT = Snapshot(NOW, FLEET)


def drawn(snapshot: Snapshot, width: int, height: int) -> str:
    return "\n".join(block_lines(snapshot, width=width, height=height)) + "\n"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_block(text_snapshot: SnapshotAssertion, width: int) -> None:
    text = drawn(SNAPSHOT, width, 24)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text
    assert text == text_snapshot


def test_a_low_terminal_shows_what_needs_looking_at(text_snapshot: SnapshotAssertion) -> None:
    text = drawn(SNAPSHOT, 80, 8)
    assert len(text.splitlines()) == 8
    assert "broken" in text
    assert "… and 4 more" in text
    assert text == text_snapshot


@pytest.mark.parametrize("height", [1, 2, 3, 5])
def test_any_height_will_do(height: int) -> None:
    lines = block_lines(SNAPSHOT, width=80, height=height)
    assert len(lines) <= max(2, height)


def test_what_is_wrong_with_the_hub_stands_below(text_snapshot: SnapshotAssertion) -> None:
    alone = drawn(replace(SNAPSHOT, followed=FLEET[:1], led=False), 80, 24)
    lost = drawn(replace(SNAPSHOT, followed=FLEET[:1], lost="no database server answers"), 80, 24)
    assert "codehub up" in alone
    assert "no database server answers" in lost
    assert alone + lost == text_snapshot


def test_an_empty_fleet() -> None:
    assert drawn(Snapshot(NOW), 80, 24) == "12:00:00  no workspaces\n"


def test_lines_for_logs(text_snapshot: SnapshotAssertion) -> None:
    text = "".join(f"{NOW:%H:%M:%S} {change_line(each)}\n" for each in FLEET)
    assert "\x1b" not in text
    assert text == text_snapshot


def test_a_log_does_not_repeat_every_percent() -> None:
    lines = {
        change_line(
            followed("x", busy(Operation.RESTORING, Phase.ARCHIVED, bytes=count, total=1000))
        )
        for count in range(1001)
    }
    assert len(lines) == 11


def test_json_lines_say_how_far_it_is() -> None:
    data = [json.loads(change_json(each, NOW)) for each in FLEET]
    assert [each["outcome"] for each in data] == [
        "settled",
        "failed",
        "held",
        "held",
        "settled",
        *["moving"] * 5,
    ]
    restoring = data[5]
    assert (restoring["name"], restoring["percent"], restoring["stage"]) == ("ml-gpu", 40, "unpack")
    assert restoring["steps"] == ["RESTORING", "STANDBY", "STARTING", "RUNNING"]
    assert all("\n" not in change_json(each, NOW) for each in FLEET)


def test_json_lines_keep_env_to_themselves() -> None:
    assert "canary" not in change_json(followed("api", RUNS, env={"TOKEN": "canary"}), NOW)


def test_the_end_of_a_wait(text_snapshot: SnapshotAssertion) -> None:
    text = settled_text(SNAPSHOT) + unfinished_text(SNAPSHOT, "10m") + "\n"
    assert "ml-gpu (RESTORING)" in text
    assert "crowded: stays STANDBY, held by a limit" in text
    assert text == text_snapshot


def test_a_wait_in_vain_says_what_is_in_the_way_once() -> None:
    away = Condition(ConditionStatus.UNKNOWN, "Unreachable", "no store\x1b[31m there")
    status = Status(
        Phase.STANDBY,
        operation=Operation.ARCHIVING,
        conditions={ConditionName.ARCHIVE_READY: away},
    )
    both = [followed(name, status, desired=DesiredState.ARCHIVED) for name in ("a", "b")]
    assert unfinished_text(Snapshot(NOW, tuple(both)), "12s") == (
        "not done after 12s: a (ARCHIVING), b (ARCHIVING); "
        "the hub cannot see its archive: no store\\x1b[31m there"
    )


def test_a_wait_for_a_lost_database_says_so() -> None:
    assert "no answer" in unfinished_text(replace(SNAPSHOT, lost="no answer"), "10m")


@pytest.mark.parametrize("changed", [True, False])
def test_what_is_under_way_is_not_there_yet(changed: bool) -> None:
    status = busy(Operation.STARTING, Phase.RUNNING)
    text = asked_text("deaf", status, "RUNNING", changed=changed)
    assert "STARTING" in text
    assert not text.endswith(("already RUNNING", "stays RUNNING"))


def test_a_wait_for_a_port_says_that_it_is_silent() -> None:
    deaf = followed("deaf", busy(Operation.STARTING, Phase.RUNNING))
    assert unfinished_text(Snapshot(NOW, (deaf,)), "3s") == (
        "not done after 3s: deaf (STARTING); its port has not answered"
    )


def test_what_asking_leads_to(text_snapshot: SnapshotAssertion) -> None:
    def line(phase: Phase, state: str, *, changed: bool, followed: bool = False) -> str:
        status = Status(phase)
        return asked_text("payments-api", status, state, changed=changed, followed=followed)

    lines = [
        line(Phase.STANDBY, "RUNNING", changed=True),
        line(Phase.STANDBY, "RUNNING", changed=True, followed=True),
        line(Phase.RUNNING, "RUNNING", changed=False),
        line(Phase.RUNNING, "RUNNING", changed=True),
        line(Phase.STANDBY, "RUNNING", changed=False),
    ]
    assert lines[2] == "payments-api: already RUNNING"
    assert "\n".join(lines) + "\n" == text_snapshot
