"""The outbox of webhooks: every event once, nothing secret, and nothing that stops it for good."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from codehub.coordinator.lead import Lead
from codehub.errors import Unreachable
from codehub.model.events import EventKind
from codehub.model.people import Webhook
from codehub.store.connect import connect, transaction
from tests.integration.receiver import receiving
from tests.integration.stored import change
from tests.integration.webhook_world import fail, fail_load, tell, webhook_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.receiver import Receiver

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
CANARY = "canary-7f3a"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


# The outbox


async def test_an_event_that_commits_late_is_not_passed_by(
    database_url: str, receiver: Receiver
) -> None:
    """Ids are given out before their transactions end: a cursor over them would lose this one."""
    async with (
        webhook_world(database_url, receiver.url()) as world,
        await connect(database_url) as slow,
    ):
        async with transaction(slow):
            await tell(slow, EventKind.PHASE, "STANDBY", "ERROR", reason="the late one")
            await fail(world.conn)
            await world.tick()
            assert len(receiver.got) == 1
        await world.tick()
    assert receiver.got[1].payload["message"] == "the late one"


async def test_many_events_are_handed_out_once_each(
    database_url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codehub.coordinator.webhooks.BATCH", 7)
    async with webhook_world(database_url, receiver.url()) as world:
        for _ in range(21):
            await fail(world.conn)
        await world.tick()
        assert await world.waiting() == 0
        assert len(await world.deliveries()) == 21
    assert len({*receiver.ids}) == len(receiver.got) == 21


async def test_of_a_workspace_that_is_not_there_nothing_is_told(
    database_url: str, receiver: Receiver
) -> None:
    async with webhook_world(database_url, receiver.url()) as world:
        await world.conn.execute("DELETE FROM workspaces WHERE name = 'api'")
        await fail(world.conn)
        await world.tick()
        assert await world.waiting() == 0
    assert receiver.got == []


async def test_old_deliveries_are_pruned_and_pending_ones_stay(
    database_url: str, receiver: Receiver
) -> None:
    receiver.answer(200, 410, 500)
    async with webhook_world(database_url, receiver.url()) as world:
        for _ in range(3):
            await fail(world.conn)
            await world.tick()
        await world.conn.execute(
            "UPDATE webhook_deliveries SET created_at = created_at - interval '31 days'"
        )
        await world.lead_anew()
        await world.tick()
        rows = await world.deliveries()
        assert [each["last_status"] for each in rows] == [500]
        await world.declare()
        await world.tick()
        await world.conn.execute("UPDATE webhooks SET removed_at = now() - interval '31 days'")
        await world.lead_anew()
        await world.tick()
        assert await world.deliveries() == []
        row = await (await world.conn.execute("SELECT count(*) AS n FROM webhooks")).fetchone()
        assert row == {"n": 0}


# Secrets


async def test_no_secret_is_in_any_log_payload_or_row(
    database_url: str, receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "hook").write_text(CANARY)
    (tmp_path / "broken").write_text(f"whsec_{CANARY}!")
    receiver.answer(500, 200, 410)
    hooks = (
        Webhook(receiver.url(f"/{CANARY}?t={CANARY}"), (), "hook"),
        Webhook(receiver.url("/broken"), (), "broken"),
        Webhook("http://127.0.0.1:1/" + CANARY),
    )
    async with webhook_world(database_url, *hooks, secrets_dir=tmp_path) as world:
        await change(world.conn, "api", env=Jsonb({"A": CANARY}), memo=CANARY)
        for _ in range(3):
            await fail(world.conn)
            await fail_load(world.conn, digest=f"d{_}")
            await world.pass_time(HOUR)
            await world.tick()
        columns = "kind, payload, last_error"
        rows = await (
            await world.conn.execute(f"SELECT {columns} FROM webhook_deliveries")
        ).fetchall()
    assert len(rows) == 18
    assert any("not base64" in row["last_error"] for row in rows)
    said: list[Any] = [*rows, *(each.body for each in receiver.got), caplog.text]
    assert CANARY not in repr(said)
    assert CANARY not in repr([dict(each.headers) for each in receiver.got])


# What goes wrong on our side


async def test_a_database_that_is_away_is_not_blamed_on_the_receiver(
    database_url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is posted that we do not know to lead for, and no try is counted."""
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        confirm, asked = Lead.confirm, []

        async def once(self: Lead) -> None:
            asked.append(1)
            if len(asked) > 1:
                raise Unreachable("the database is away")
            await confirm(self)

        monkeypatch.setattr(Lead, "confirm", once)
        await world.tick()
        row = await world.delivery()
        assert (receiver.got, row["attempts"], row["last_error"]) == ([], 0, "")
        assert world.failures.counts == {"webhooks": 1}
        assert not world.runner.nudge.is_set(), "or it would turn in circles"
        monkeypatch.undo()
        await world.tick()
    assert len(receiver.got) == 1


async def test_requests_that_make_no_sense_are_answered_and_hold_up_nothing(
    database_url: str, receiver: Receiver
) -> None:
    async with webhook_world(database_url, receiver.url()) as world:
        for arguments in ({"retry": "no number"}, {"test": "nobody"}, {}, {"retry": None}):
            await world.conn.execute(
                "INSERT INTO leader_requests (kind, arguments) VALUES ('webhooks', %s)",
                (Jsonb(arguments),),
            )
        await fail(world.conn)
        await world.tick()
        rows = await (await world.conn.execute("SELECT * FROM leader_requests")).fetchall()
        assert all(row["done_at"] is not None and row["result"]["error"] for row in rows)
    assert receiver.kinds == ["workspace.error"]


async def test_of_a_revision_that_is_not_there_nothing_is_told(
    database_url: str, receiver: Receiver
) -> None:
    async with webhook_world(database_url, receiver.url()) as world:
        await world.conn.execute("INSERT INTO webhook_events (revision_id) VALUES (99)")
        await world.tick()
        assert await world.waiting() == 0
    assert receiver.got == []
