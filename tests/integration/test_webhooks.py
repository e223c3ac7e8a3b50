"""Webhooks from the audit to a real receiver: signed, tried again, never lost, never doubled."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from codehub.model.events import EventKind
from codehub.model.people import Webhook
from codehub.store.clock import read_now
from tests.integration.receiver import receiving
from tests.integration.stored import change
from tests.integration.webhook_world import fail, fail_load, tell, webhook_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.receiver import Got, Receiver

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
CANARY = "canary-7f3a"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def other() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


# What is told


async def test_an_error_is_told_with_who_what_and_why(
    database_url: str, receiver: Receiver
) -> None:
    url, front = receiver.url("/x?y=1"), "https://hub.example.org/"
    async with webhook_world(database_url, url, proxy_public_url=front) as world:
        await change(world.conn, "api", phase="ERROR")
        await fail(world.conn)
        await world.tick()
        (got,) = receiver.got
        hub = await (await world.conn.execute("SELECT id FROM hub")).fetchone()
        assert hub is not None
        assert got.path == "/x?y=1"
        assert got.headers["content-type"] == "application/json"
        assert got.headers["user-agent"] == "CodeHub/test"
        told = got.payload
        assert abs(datetime.fromisoformat(told.pop("at")) - datetime.now(UTC)) < HOUR
        assert told == {
            "id": got.id,
            "type": "workspace.error",
            "hub": {"id": str(hub["id"]), "name": "team"},
            "workspace": {
                "id": str(UUID(int=1)),
                "name": "api",
                "owner": "alice",
                "phase": "ERROR",
            },
            "change": {"from": "STANDBY", "to": "ERROR"},
            "reason": "ImagePullFailed",
            "message": "the image is not there",
            "url": "https://hub.example.org/w/api/",
        }
        row = await world.delivery()
        assert (str(row["id"]), row["attempts"], row["last_status"]) == (got.id, 1, 204)
        assert row["delivered_at"] is not None


async def test_every_kind_of_event_and_nothing_else(database_url: str, receiver: Receiver) -> None:
    async with webhook_world(database_url, receiver.url()) as world:
        conn = world.conn
        ttl = {"source": "ttl", "by": "ttl"}
        await tell(conn, EventKind.EXPIRING, "RUNNING", "STANDBY", reason="idle 55m", **ttl)
        await tell(conn, EventKind.PHASE, "PENDING", "RUNNING")
        await tell(conn, EventKind.ERROR, "", "ActionFailed", reason="tried again soon")
        await tell(conn, EventKind.DESIRED, "STANDBY", "ARCHIVED", reason="asleep 1d", **ttl)
        await tell(conn, EventKind.PHASE, "STANDBY", "ARCHIVED", reason="done")
        await tell(conn, EventKind.PHASE, "DELETED", "ARCHIVED", reason="undeleted")
        await fail_load(conn, "one", "two")
        await world.tick()
        told = {each.payload["type"]: each.payload for each in receiver.got}
        assert sorted(told) == ["revision.failed", "workspace.archived", "workspace.expiring"]
        assert len(receiver.got) == 3
        expiring, archived = told["workspace.expiring"], told["workspace.archived"]
        assert (expiring["reason"], expiring["message"]) == ("ttl", "idle 55m")
        assert expiring["change"] == {"from": "RUNNING", "to": "STANDBY"}
        assert (archived["reason"], archived["message"]) == ("ttl", "asleep 1d")
        failed = told["revision.failed"]
        assert failed["message"] == "one (and 1 more)"
        assert failed["revision"]["problems"] == ["one", "two"]
        assert failed["revision"]["commit"] == "abc123"
        assert "workspace" not in failed
        assert await world.waiting() == 0


async def test_each_gets_what_it_asked_for(
    database_url: str, receiver: Receiver, other: Receiver
) -> None:
    hooks = (Webhook(receiver.url(), ("revision.failed",)), Webhook(other.url()))
    async with webhook_world(database_url, *hooks) as world:
        await fail(world.conn)
        await fail_load(world.conn)
        await world.tick()
    assert receiver.kinds == ["revision.failed"]
    assert sorted(other.kinds) == ["revision.failed", "workspace.error"]
    assert not {*receiver.ids} & {*other.ids}


async def test_where_no_webhook_is_declared_nothing_is_kept(
    database_url: str, receiver: Receiver
) -> None:
    async with webhook_world(database_url) as world:
        await fail(world.conn)
        await fail_load(world.conn)
        assert await world.waiting() == 0
        await world.tick()
        await world.declare(receiver.url())
        await world.tick()
        assert await world.deliveries() == []
    assert receiver.got == []


# Signatures


def verified(got: Got, key: bytes) -> bool:
    """As a receiver would do it, by the convention alone."""
    signed = b".".join([got.id.encode(), got.headers["webhook-timestamp"].encode(), got.body])
    wanted = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return f"v1,{wanted}" in got.headers["webhook-signature"].split(" ")


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        ("a plain text\n", [b"a plain text"]),
        (f"whsec_{base64.b64encode(b'raw bytes').decode()}\n", [b"raw bytes"]),
        ("new one\nold one\n", [b"new one", b"old one"]),
    ],
    ids=["text", "base64", "two"],
)
async def test_a_secret_signs(
    database_url: str, receiver: Receiver, tmp_path: Path, content: str, keys: list[bytes]
) -> None:
    (tmp_path / "hook").write_text(content)
    hook = Webhook(receiver.url(), (), "hook")
    async with webhook_world(database_url, hook, secrets_dir=tmp_path) as world:
        await fail(world.conn)
        await world.tick()
    (got,) = receiver.got
    assert [verified(got, key) for key in keys] == [True] * len(keys)
    assert not verified(got, b"another one")
    sent_at = datetime.fromtimestamp(int(got.headers["webhook-timestamp"]), UTC)
    assert abs(sent_at - datetime.now(UTC)) < timedelta(minutes=5)


async def test_without_a_declared_secret_it_is_not_signed(
    database_url: str, receiver: Receiver
) -> None:
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        await world.tick()
    assert "webhook-signature" not in receiver.got[0].headers
    assert receiver.got[0].id


async def test_a_missing_secret_keeps_it_back_until_it_is_there(
    database_url: str, receiver: Receiver, tmp_path: Path
) -> None:
    hook = Webhook(receiver.url(), (), "hook")
    async with webhook_world(database_url, hook, secrets_dir=tmp_path) as world:
        await fail(world.conn)
        await world.tick()
        row = await world.delivery()
        assert receiver.got == []
        assert (row["attempts"], row["last_error"]) == (1, 'there is no secret "hook"')
        (tmp_path / "hook").write_text("here it is")
        await world.pass_time(HOUR)
        await world.tick()
    assert verified(receiver.got[0], b"here it is")


# Trying again


async def test_what_fails_is_tried_again_under_the_same_id_with_growing_waits(
    database_url: str, receiver: Receiver
) -> None:
    receiver.answer(500, 503, 302, 404, 200)
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        for tries, status in enumerate((500, 503, 302, 404), 1):
            before, whole = await read_now(world.conn), timedelta(seconds=10 * 2 ** (tries - 1))
            await world.tick()
            row = await world.delivery()
            assert (row["attempts"], row["last_status"]) == (tries, status)
            assert f"it answered {status}" in row["last_error"]
            assert before + whole / 2 <= row["next_at"] <= await read_now(world.conn) + whole
            await world.pass_time(row["next_at"] - await read_now(world.conn))
        await world.tick()
        row = await world.delivery()
        assert (row["attempts"], row["last_status"], row["last_error"]) == (5, 200, "")
    assert len({*receiver.ids}) == 1
    assert len({each.body for each in receiver.got}) == 1


async def test_before_its_time_it_is_not_tried(database_url: str, receiver: Receiver) -> None:
    receiver.answer(500)
    async with webhook_world(database_url, receiver.url(), webhook_backoff_seconds=3600) as world:
        await fail(world.conn)
        for _ in range(3):
            await world.tick()
    assert len(receiver.got) == 1


async def test_it_is_given_up_after_a_day_and_not_before(
    database_url: str, receiver: Receiver
) -> None:
    receiver.answer(500)
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        await world.tick()
        await world.pass_time(timedelta(hours=23, minutes=50))
        await world.tick()
        row = await world.delivery()
        assert row["failed_at"] is None
        assert row["next_at"] <= row["expires_at"]
        await world.pass_time(timedelta(minutes=30))
        await world.tick()
        row = await world.delivery()
        assert row["failed_at"] is not None
        assert (row["attempts"], row["last_error"]) == (3, "it answered 500")
        await world.pass_time(HOUR)
        await world.tick()
    assert len(receiver.got) == 3


async def test_gone_is_given_up_at_once(database_url: str, receiver: Receiver) -> None:
    receiver.answer(410)
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        await world.tick()
        row = await world.delivery()
        assert row["failed_at"] is not None
        assert "410" in row["last_error"]


async def test_retry_after_is_heeded(database_url: str, receiver: Receiver) -> None:
    receiver.answer(429, retry_after="7200")
    async with webhook_world(database_url, receiver.url()) as world:
        await fail(world.conn)
        await world.tick()
        await world.pass_time(HOUR)
        await world.tick()
        assert len(receiver.got) == 1
        await world.pass_time(HOUR)
        await world.tick()
        assert len(receiver.got) == 2


async def test_nobody_there_is_told_without_the_address(database_url: str) -> None:
    with receiving() as gone:
        url = gone.url(f"/{CANARY}")
    async with webhook_world(database_url, url) as world:
        await fail(world.conn)
        await world.tick()
        row = await world.delivery()
        assert row["attempts"] == 1
        assert row["last_error"].startswith("127.0.0.1 cannot be reached: ")
        assert CANARY not in row["last_error"]
