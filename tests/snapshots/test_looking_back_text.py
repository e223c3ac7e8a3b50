"""What `codehub diff` and `codehub drift` print."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from codehub.core.contrast import contrast
from codehub.core.detect import detect_drift
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.people import Hub, TtlPolicy
from codehub.model.revision import HubState, Origin, Revision
from codehub.model.states import ErrorReason, Phase
from codehub.model.workspace import Status, Ttl
from codehub.render.diff_text import diff_text
from codehub.render.drift_text import drift_text
from tests.make import NOW, declaration, spec_set, workspace

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

OLD = Revision(
    id=3,
    digest="d3",
    origin=Origin("specs", commit="5c110904fbe7aa00"),
    created_at=NOW - timedelta(days=2, hours=3),
    author="alice",
)
NEW = Revision(
    id=5,
    digest="d5",
    origin=Origin("specs", commit="77aa0904fbe7aa00", dirty=True),
    created_at=NOW - timedelta(minutes=4),
    author="watcher\x1b[31m",
)
BEFORE = spec_set(
    declaration("api", image="code-server:4.106", env={"TOKEN": "canary", "LANG": "C"}),
    declaration("old-poc"),
    policies={"interactive": TtlPolicy("interactive", Ttl(10800, 86400, policy="interactive"))},
)
AFTER = spec_set(
    declaration("api", image="code-server:4.107", env={"TOKEN": "changed", "LANG": "C"}),
    declaration("ml-gpu", owner="bob", image="torch:2"),
    policies={"interactive": TtlPolicy("interactive", Ttl(3600, 86400, policy="interactive"))},
    hub=Hub(max_running_per_user=3),
)
RUNNING = Status(Phase.RUNNING, phase_changed_at=NOW - timedelta(hours=1), observed_at=NOW)
DRIFTED = (
    workspace(
        "api",
        status=Status(
            Phase.RUNNING,
            phase_changed_at=NOW - timedelta(hours=1),
            observed_at=NOW - timedelta(seconds=12),
            conditions={
                ConditionName.CONTAINER_READY: Condition(
                    ConditionStatus.FALSE, "Exited", "the process ended with 137", NOW
                )
            },
        ),
    ),
    workspace(
        "lab",
        number=2,
        status=Status(
            Phase.ERROR,
            phase_changed_at=NOW,
            observed_at=NOW - timedelta(seconds=12),
            error_reason=ErrorReason.DATA_LOST,
            error_message="the volume is gone\x1b[2J",
        ),
    ),
    workspace("web", number=3, status=Status()),
)
STATE = HubState(hub_id="0a1b2c3d-0000", revision=NEW, workspaces=DRIFTED)


def test_a_difference(text_snapshot: SnapshotAssertion) -> None:
    text = diff_text(OLD, NEW, contrast(BEFORE, AFTER), NOW)
    assert "canary" not in text
    assert "\x1b" not in text
    assert text == text_snapshot


def test_no_difference(text_snapshot: SnapshotAssertion) -> None:
    text = diff_text(OLD, NEW, contrast(AFTER, AFTER), NOW)
    assert "No difference" in text
    assert text == text_snapshot


def test_colour_is_for_people_only() -> None:
    assert "\x1b[33m" in diff_text(OLD, NEW, contrast(BEFORE, AFTER), NOW, color=True)
    assert "\x1b[33m" in drift_text(STATE, DRIFTED, detect_drift(DRIFTED, NOW), NOW, color=True)


def test_drift(text_snapshot: SnapshotAssertion) -> None:
    text = drift_text(STATE, DRIFTED, detect_drift(DRIFTED, NOW), NOW)
    assert "2 of 3 workspaces" in text
    assert "\x1b" not in text
    assert text == text_snapshot


def test_no_drift(text_snapshot: SnapshotAssertion) -> None:
    fine = (workspace("api", status=RUNNING),)
    text = drift_text(STATE, fine, detect_drift(fine, NOW), NOW)
    assert "No drift" in text
    assert text == text_snapshot
