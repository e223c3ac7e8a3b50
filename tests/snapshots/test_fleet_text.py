"""What `codehub status` and `codehub history` print, and that nothing in it can harm a terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.revision import UNREADABLE, UNSAFE, HubState, Origin, Revision
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.model.workspace import Status
from codehub.render.history_text import history_json, history_text
from codehub.render.status_text import status_json, status_text
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

GOOD = Revision(
    id=7,
    digest="d7",
    origin=Origin("specs", commit="5c110904fbe7aa", dirty=True),
    created_at=NOW - timedelta(hours=2, minutes=5),
    author="alice",
    summary={"create": 2, "delete": 1},
)
BAD = Revision(
    id=8,
    digest=f"{UNREADABLE}8",
    origin=Origin("specs"),
    created_at=NOW - timedelta(minutes=1),
    author="watcher",
    applied=False,
    problems=("specs/a.yaml:1:1: not YAML", "another"),
)
FLEET = (
    workspace("api", status=Status(Phase.RUNNING, phase_changed_at=NOW - timedelta(hours=3))),
    workspace(
        "old",
        number=2,
        desired=DesiredState.ARCHIVED,
        orphaned=True,
        status=Status(Phase.STANDBY, operation=Operation.ARCHIVING, phase_changed_at=NOW),
    ),
    workspace(
        "sad\x1b[31m",
        number=3,
        env={"TOKEN": "canary"},
        status=Status(
            Phase.ERROR,
            phase_changed_at=NOW - timedelta(days=2),
            error_reason=ErrorReason.DATA_LOST,
            error_message="the volume is gone\nand more",
        ),
    ),
)


def test_status(text_snapshot: SnapshotAssertion) -> None:
    text = status_text(HubState(revision=GOOD), FLEET, NOW)
    assert "\x1b" not in text
    assert text == text_snapshot


AWAY = "the Docker engine did not answer in time"
UNKNOWN = Condition(ConditionStatus.UNKNOWN, "Unreachable", AWAY)
BLIND = Status(
    Phase.RUNNING,
    phase_changed_at=NOW,
    conditions={ConditionName.VOLUME_READY: UNKNOWN, ConditionName.CONTAINER_READY: UNKNOWN},
)
STUCK = Status(
    Phase.STANDBY,
    operation=Operation.ARCHIVING,
    phase_changed_at=NOW,
    error_reason=ErrorReason.UNREACHABLE,
    error_message="the archive store\x1b[31m does not answer",
)


def test_what_cannot_be_reached_is_told_once_for_all(text_snapshot: SnapshotAssertion) -> None:
    blind = [workspace(f"w{number}", number=number, status=BLIND) for number in range(1, 6)]
    fleet = (*blind, workspace("packing", number=6, status=STUCK), *FLEET)
    text = status_text(HubState(revision=GOOD), fleet, NOW)
    assert text.count(AWAY) == 1
    assert "\x1b" not in text
    assert text == text_snapshot


def test_what_runs_without_an_answer_is_told(text_snapshot: SnapshotAssertion) -> None:
    starts = Status(Phase.RUNNING, operation=Operation.STARTING, phase_changed_at=NOW)
    deaf = [workspace(f"deaf{number}", number=number, status=starts) for number in range(4, 6)]
    text = status_text(HubState(revision=GOOD), (*FLEET, *deaf), NOW)
    assert "deaf4, deaf5: running, but no answer at the port yet" in text
    assert text == text_snapshot


def test_an_empty_hub(text_snapshot: SnapshotAssertion) -> None:
    text = status_text(HubState(), (), NOW)
    assert "codehub apply" in text
    assert text == text_snapshot


def test_a_load_that_failed_stands_below_the_revision_in_force(
    text_snapshot: SnapshotAssertion,
) -> None:
    text = status_text(HubState(revision=GOOD, failed=BAD), FLEET, NOW)
    assert "Revision 8 failed 1m ago" in text
    assert text == text_snapshot


def test_a_first_load_that_failed_leaves_none_in_force(text_snapshot: SnapshotAssertion) -> None:
    text = status_text(HubState(failed=BAD), (), NOW)
    assert "no revision is in force" in text
    assert "codehub apply" not in text, "it would fail as well"
    assert text == text_snapshot


def test_a_load_that_needs_force_says_how_it_is_applied(text_snapshot: SnapshotAssertion) -> None:
    """From a directory that somebody named as they liked."""
    bold = replace(
        BAD,
        origin=Origin("our specs\x1b[31m", ref="main"),
        problems=(f"{UNSAFE}3 of 5 workspaces would be deleted",),
    )
    text = status_text(HubState(revision=GOOD, failed=bold), FLEET, NOW)
    assert "codehub apply --force" in text
    assert "\x1b" not in text
    assert text == text_snapshot


def test_a_load_that_failed_for_scripts() -> None:
    data = json.loads(status_json(HubState(revision=GOOD, failed=BAD), FLEET))
    assert data["failedRevision"]["id"] == 8
    assert data["failedRevision"]["problems"] == list(BAD.problems)
    assert json.loads(status_json(HubState(revision=GOOD), FLEET))["failedRevision"] is None


def test_status_for_scripts_keeps_env_to_itself() -> None:
    text = status_json(HubState(revision=GOOD), FLEET)
    data = json.loads(text)
    assert data["revision"] == 7
    assert [each["phase"] for each in data["workspaces"]] == ["RUNNING", "STANDBY", "ERROR"]
    assert "canary" not in text


def test_history(text_snapshot: SnapshotAssertion) -> None:
    text = history_text((BAD, GOOD), NOW)
    assert text.index("watcher") < text.index("alice")
    assert text == text_snapshot


def test_history_for_scripts() -> None:
    data = json.loads(history_json((BAD, GOOD)))
    assert [each["applied"] for each in data["revisions"]] == [False, True]


def test_no_history_yet() -> None:
    assert "codehub apply" in history_text((), NOW)
