"""What the database itself does for webhooks: it keeps what they may want to know, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from alembic import command
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from codehub.model.people import Webhook
from codehub.store.connect import connect
from codehub.store.schema import alembic_config, upgrade
from codehub.store.webhooks import declare_webhooks, read_receivers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

    Conn = Connection[dict[str, Any]]

EVENT = """
INSERT INTO workspace_events (workspace_id, kind, old, new)
VALUES (gen_random_uuid(), %s, %s, %s) RETURNING id
"""
REVISION = "INSERT INTO spec_revisions (digest, applied) VALUES ('d', %s) RETURNING id"
HOOK = "INSERT INTO webhooks (name, url) VALUES ('x', 'https://x')"


@pytest.fixture
def conn(database_url: str) -> Iterator[Conn]:
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as conn:
        yield conn


def kept(conn: Conn) -> list[tuple[int | None, int | None]]:
    rows = conn.execute("SELECT event_id, revision_id FROM webhook_events ORDER BY id").fetchall()
    return [(row["event_id"], row["revision_id"]) for row in rows]


def number(conn: Conn, query: str, *values: object) -> int:
    row = conn.execute(query.encode(), values).fetchone()
    assert row is not None
    found: int = row["id"]
    return found


def test_only_what_may_be_news_is_kept(conn: Conn) -> None:
    conn.execute(HOOK)
    news = [
        (number(conn, EVENT, "phase", "STANDBY", "ERROR"), None),
        (number(conn, EVENT, "phase", "STANDBY", "ARCHIVED"), None),
        (number(conn, EVENT, "expiring", "RUNNING", "STANDBY"), None),
        (None, number(conn, REVISION, False)),
    ]
    for kind, old, new in (
        ("phase", "ERROR", "RUNNING"),
        ("error", "", "Timeout"),
        ("desired", "STANDBY", "ARCHIVED"),
        ("operation", "NONE", "ARCHIVING"),
    ):
        number(conn, EVENT, kind, old, new)
    number(conn, REVISION, True)
    assert kept(conn) == news


def test_without_a_webhook_nothing_is_kept(conn: Conn) -> None:
    number(conn, EVENT, "phase", "STANDBY", "ERROR")
    conn.execute(HOOK)
    conn.execute("UPDATE webhooks SET removed_at = now()")
    number(conn, REVISION, False)
    assert kept(conn) == []


def test_what_did_not_happen_is_not_kept(conn: Conn) -> None:
    conn.execute(HOOK)
    with conn.transaction(force_rollback=True):
        number(conn, EVENT, "phase", "STANDBY", "ERROR")
        assert len(kept(conn)) == 1
    assert kept(conn) == []


@pytest.mark.parametrize(
    "change", ["attempts = -1", "delivered_at = now(), failed_at = now()", "webhook_id = id"]
)
def test_a_delivery_that_makes_no_sense_is_refused(conn: Conn, change: str) -> None:
    conn.execute(HOOK)
    conn.execute(
        "INSERT INTO webhook_deliveries (webhook_id, kind, expires_at)"
        " SELECT id, 'test', now() FROM webhooks"
    )
    with pytest.raises(psycopg.errors.IntegrityError):
        conn.execute(f"UPDATE webhook_deliveries SET {change}")


def test_what_was_declared_before_is_there_after_the_upgrade(empty_database_url: str) -> None:
    """With the words of the audit turned into those of today."""
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(empty_database_url),
        poolclass=NullPool,
    )
    with engine.begin() as connection:
        command.upgrade(alembic_config(connection), "0003")
    hooks: list[dict[str, Any]] = [
        {"url": "https://chat.example.org/T0KEN", "events": ["error", "phase"], "secret": "key"},
        {"url": "http://[::1]:8080/x", "events": [], "secret": None},
        {"url": "https://chat.example.org/T0KEN", "events": [], "secret": None},
    ]
    with psycopg.connect(empty_database_url, autocommit=True, row_factory=dict_row) as conn:
        conn.execute("INSERT INTO hub (spec) VALUES (%s)", (Jsonb({"webhooks": hooks}),))
        upgrade(empty_database_url)
        rows = conn.execute("SELECT url, name, events, secret FROM webhooks ORDER BY url")
        assert [tuple(row.values()) for row in rows.fetchall()] == [
            ("http://[::1]:8080/x", "[::1]:8080-2", [], None),
            (hooks[0]["url"], "chat.example.org", ["workspace.error", "phase"], "key"),
        ]


@pytest.mark.anyio
async def test_what_the_specs_declare_is_there_and_the_rest_is_removed(database_url: str) -> None:
    one, other = Webhook("https://a.example/T0KEN"), Webhook("https://b.example", (), "key", "b")
    async with await connect(database_url) as conn:
        await declare_webhooks(conn, [one, other])
        first = await read_receivers(conn)
        assert [(each.name, each.url, each.secret) for each in first] == [
            ("a.example", one.url, None),
            ("b", other.url, "key"),
        ]
        await declare_webhooks(conn, [one, other])
        assert await read_receivers(conn) == first
        await declare_webhooks(conn, [Webhook(one.url, ("revision.failed",), name="z")])
        (left,) = await read_receivers(conn)
        assert (left.id, left.since) == (first[0].id, first[0].since)
        assert (left.name, left.events) == ("z", ("revision.failed",))
        await declare_webhooks(conn, [])
        assert await read_receivers(conn) == ()
        await declare_webhooks(conn, [one])
        (again,) = await read_receivers(conn)
        assert again.id != first[0].id
        assert again.since > first[0].since
