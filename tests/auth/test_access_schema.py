"""What the database itself guards: who hears of changes, what may be stored, what is final."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row

from codehub.store.access import CHANNEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

END = "the end of what this test listens to"
SESSION = """
INSERT INTO sessions (user_id, token_hash, expires_at)
SELECT id, %s, now() + interval '1 day' FROM users WHERE name = 'alice' RETURNING id
"""
TOKEN = """
INSERT INTO api_tokens (user_id, name, token_hash)
SELECT id, 'ci', 'h' FROM users WHERE name = 'alice' RETURNING id
"""
CODE = """
INSERT INTO login_codes (code_hash, purpose, user_id, session_id, host, expires_at)
SELECT %s, %s, u.id, CASE WHEN %s THEN s.id END, %s, now() FROM users u, sessions s
"""


@dataclass(slots=True)
class Scene:
    """One connection that changes things, another one that listens."""

    writer: Connection[dict[str, Any]]
    listener: Connection[dict[str, Any]]
    ids: dict[str, str]

    def heard(self, change: str) -> list[dict[str, str]]:
        self.writer.execute(change.encode())
        self.writer.execute("SELECT pg_notify(%s, %s)", (CHANNEL, END))
        told: list[dict[str, str]] = []
        for notice in self.listener.notifies(timeout=60):
            if notice.payload == END:
                return told
            told.append(json.loads(notice.payload))
        raise AssertionError("the mark never came")

    def add(self, query: str, *values: object) -> str:
        row = self.writer.execute(query.encode(), values).fetchone()
        assert row is not None
        return str(row["id"])


@pytest.fixture
def scene(database_url: str) -> Iterator[Scene]:
    with (
        psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as writer,
        psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as listener,
    ):
        made = Scene(writer, listener, {})
        made.ids["user"] = made.add(
            "INSERT INTO users (name, password_hash) VALUES ('alice', 'old') RETURNING id"
        )
        made.ids["session"] = made.add(SESSION, "first")
        made.ids["token"] = made.add(TOKEN)
        listener.execute(f'LISTEN "{CHANNEL}"')
        yield made


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ("UPDATE sessions SET revoked_at = now()", "session"),
        ("UPDATE sessions SET expires_at = now()", "session"),
        ("DELETE FROM sessions", "session"),
        ("UPDATE api_tokens SET revoked_at = now()", "token"),
        ("UPDATE api_tokens SET expires_at = now()", "token"),
        ("""UPDATE api_tokens SET scopes = '["read"]'""", "token"),
        ("UPDATE api_tokens SET token_hash = 'another'", "token"),
        ("DELETE FROM api_tokens", "token"),
        ("UPDATE users SET role = 'admin'", "user"),
        ("UPDATE users SET name = 'bob'", "user"),
    ],
)
def test_what_ends_or_changes_is_told_by_its_id_alone(scene: Scene, change: str, word: str) -> None:
    assert scene.heard(change) == [{word: scene.ids[word]}]


def test_a_user_who_is_disabled_is_told_with_their_sessions(scene: Scene) -> None:
    told = scene.heard("UPDATE users SET disabled_at = now()")
    assert {"user": scene.ids["user"]} in told
    assert {"session": scene.ids["session"]} in told


def test_another_password_is_told_as_the_end_of_sessions(scene: Scene) -> None:
    told = scene.heard("UPDATE users SET password_hash = 'new'")
    assert told == [{"session": scene.ids["session"]}]


def test_a_new_user_is_told(scene: Scene) -> None:
    (told,) = scene.heard("INSERT INTO users (name) VALUES ('bob')")
    assert set(told) == {"user"}


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sessions SET last_seen_at = now()",
        "UPDATE api_tokens SET last_used_at = now(), request_hash = 'x'",
        "UPDATE users SET display_name = 'A', max_running = 3, spec_source = 'x'",
        "UPDATE users SET role = role, password_hash = password_hash, disabled_at = disabled_at",
    ],
)
def test_what_does_not_matter_is_not_told(scene: Scene, change: str) -> None:
    assert scene.heard(change) == []


def test_what_hangs_on_a_session_goes_with_it(scene: Scene) -> None:
    child = """
    INSERT INTO sessions (user_id, token_hash, expires_at, host, parent_id)
    SELECT user_id, 'child', expires_at, 'api.hub', id FROM sessions RETURNING id
    """
    ids = {scene.ids["session"], scene.add(child)}
    for purpose, bound, host in (("link", False, ""), ("handover", True, "api.hub")):
        code = CODE + " WHERE s.parent_id IS NULL"
        scene.writer.execute(code.encode(), (purpose, purpose, bound, host))
    told = scene.heard("DELETE FROM sessions WHERE parent_id IS NULL")
    assert {each["session"] for each in told} == ids
    assert scene.writer.execute("SELECT id FROM sessions").fetchall() == []
    kept = scene.writer.execute("SELECT purpose FROM login_codes").fetchall()
    assert kept == [{"purpose": "link"}]


@pytest.mark.parametrize(
    "change",
    ["UPDATE access_events SET by = 'x'", "DELETE FROM access_events", "TRUNCATE access_events"],
)
def test_the_audit_of_logins_is_final(scene: Scene, change: str) -> None:
    scene.writer.execute("INSERT INTO access_events (kind) VALUES ('login')")
    with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
        scene.writer.execute(change.encode())
    assert len(scene.writer.execute("SELECT id FROM access_events").fetchall()) == 1


@pytest.mark.parametrize(
    ("purpose", "session", "host"),
    [
        ("other", False, ""),
        ("link", True, ""),
        ("link", False, "api.hub"),
        ("handover", False, "api.hub"),
        ("handover", True, ""),
    ],
)
def test_a_code_is_bound_to_what_its_purpose_needs(
    scene: Scene, purpose: str, session: bool, host: str
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        scene.writer.execute(CODE, (purpose, purpose, session, host))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sessions SET host = 'api.hub'",
        "UPDATE sessions SET parent_id = id",
        "INSERT INTO login_failures (key, failures) VALUES ('x', -1)",
        "INSERT INTO access_events (kind) VALUES ('rumour')",
    ],
)
def test_rows_that_make_no_sense_are_refused(scene: Scene, change: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        scene.writer.execute(change.encode())


@pytest.mark.parametrize(
    ("values", "fits"),
    [
        ("'127.0.0.1', 8080", True),
        ("NULL, NULL", True),
        ("'127.0.0.1', NULL", False),
        ("NULL, 8080", False),
        ("'127.0.0.1', 0", False),
        ("'127.0.0.1', 65536", False),
    ],
)
def test_a_workspace_s_address_is_whole_or_none(scene: Scene, values: str, fits: bool) -> None:
    scene.writer.execute(
        "INSERT INTO workspaces (name, owner_user_id, instance_backend, storage_backend)"
        " SELECT 'api', id, 'process', 'directory' FROM users"
    )
    change = f"UPDATE workspaces SET (upstream_host, upstream_port) = ({values})"
    if fits:
        scene.writer.execute(change.encode())
    else:
        with pytest.raises(psycopg.errors.CheckViolation):
            scene.writer.execute(change.encode())
