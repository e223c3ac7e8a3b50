"""What changes in `workspaces` is told through NOTIFY, and what does not change is not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

CHANNELS = ("ws_sse", "ws_wake", "ws_deleted")
ADD = """
INSERT INTO workspaces (name, owner_user_id, instance_backend, storage_backend)
SELECT %s, id, 'process', 'directory' FROM users RETURNING id, owner_user_id
"""
SEEN = (
    "phase = 'STANDBY'",
    "operation = 'STARTING', op_id = gen_random_uuid(), op_started_at = now()",
    """op_progress = '{"percent": 5}'""",
    "error_reason = 'Timeout'",
    "error_reason = NULL",
    "name = 'other'",
    "description = 'new'",
    "memo = 'new'",
)
STEERING = (
    "desired_state = 'STANDBY'",
    "declared_state = 'ARCHIVED'",
    "override_state = 'STANDBY', override_until = now()",
    "override_state = NULL, override_until = NULL",
    "recover_requested = 'plain'",
)
UNSEEN = (
    "phase = phase, operation = operation, memo = memo, desired_state = desired_state",
    "op_progress = op_progress || '{}', declared_state = 'RUNNING', description = ''",
    "last_access_at = now(), last_access_source = 'input'",
    """conditions = '{"policy.healthy": {"status": "True"}}', observed_at = now()""",
    "observed_generation = 1, spec_source = 'specs/a.yaml:1', labels = '{\"a\": \"b\"}'",
)
END = "the end of what this test listens to"


@dataclass(frozen=True, slots=True)
class Scene:
    """One connection that changes a workspace, another one that listens."""

    writer: Connection[dict[str, Any]]
    listener: Connection[dict[str, Any]]
    ids: dict[str, str]

    def heard(self, change: str) -> list[tuple[str, dict[str, str]]]:
        """What is told while a statement runs, up to a mark that comes after it."""
        self.writer.execute(change)
        self.writer.execute("SELECT pg_notify('ws_sse', %s)", (END,))
        told: list[tuple[str, dict[str, str]]] = []
        for notice in self.listener.notifies(timeout=60):
            if notice.payload == END:
                return told
            told.append((notice.channel, json.loads(notice.payload)))
        raise AssertionError("the mark never came")

    def channels(self, assignment: str) -> list[str]:
        return sorted(name for name, _ in self.heard(f"UPDATE workspaces SET {assignment}"))


@pytest.fixture
def scene(database_url: str) -> Iterator[Scene]:
    with (
        psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as writer,
        psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as listener,
    ):
        writer.execute("INSERT INTO users (name) VALUES ('alice')")
        row = writer.execute(ADD, ("api",)).fetchone()
        assert row is not None
        for channel in CHANNELS:
            listener.execute(f"LISTEN {channel}")
        ids = {"id": str(row["id"]), "user_id": str(row["owner_user_id"])}
        yield Scene(writer, listener, ids)


def test_what_people_see_is_told_to_them(scene: Scene) -> None:
    heard = {each: scene.channels(each) for each in SEEN}
    assert heard == {each: ["ws_sse"] for each in SEEN}


def test_what_the_controller_steers_by_wakes_it(scene: Scene) -> None:
    heard = {each: scene.channels(each) for each in STEERING}
    assert heard == {each: ["ws_wake"] for each in STEERING}


def test_an_override_that_is_prolonged_wakes_the_controller(scene: Scene) -> None:
    scene.channels("override_state = 'STANDBY', override_until = '2026-11-01 12:00Z'")
    assert scene.channels("override_until = '2026-11-01 13:00Z'") == ["ws_wake"]


def test_a_deletion_is_told_once(scene: Scene) -> None:
    assert scene.channels("phase = 'DELETED', deleted_at = now()") == ["ws_deleted", "ws_sse"]
    assert scene.channels("deleted_at = deleted_at + interval '1 second'") == []
    assert scene.channels("phase = 'ARCHIVED', deleted_at = NULL") == ["ws_sse"]


def test_the_message_is_ids_only(scene: Scene) -> None:
    told = scene.heard(
        "UPDATE workspaces SET memo = repeat('x', 100000), desired_state = 'STANDBY'"
    )
    assert sorted(told) == [("ws_sse", scene.ids), ("ws_wake", scene.ids)]


def test_a_new_workspace_is_told_to_both(scene: Scene) -> None:
    told = scene.heard(ADD.replace("%s", "'second'"))
    assert sorted(channel for channel, _ in told) == ["ws_sse", "ws_wake"]
    assert all(message["user_id"] == scene.ids["user_id"] for _, message in told)


def test_what_nobody_waits_for_is_not_told(scene: Scene) -> None:
    heard = {each: scene.channels(each) for each in UNSEEN}
    assert heard == {each: [] for each in UNSEEN}


def test_what_is_rolled_back_is_not_told(scene: Scene) -> None:
    with scene.writer.transaction(force_rollback=True):
        scene.writer.execute("UPDATE workspaces SET phase = 'RUNNING', desired_state = 'STANDBY'")
    assert scene.channels("memo = memo") == []
