"""From a row that changes to a hint and a message on Redis: real Postgres, real Redis."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from redis.asyncio import Redis

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.coordinator import listen as listen_module
from codehub.coordinator import outbox as outbox_module
from codehub.coordinator.hints import Hints
from codehub.coordinator.listen import CHANNELS, EventListener
from codehub.coordinator.outbox import DROPPED, Outbox
from codehub.coordinator.pace import Failures
from codehub.errors import Unreachable
from codehub.store import listen as store_listen
from codehub.store import session
from codehub.store.connect import connect
from codehub.store.listen import notifications
from tests.integration.elections import PATIENCE, until
from tests.integration.relay import Relay
from tests.integration.stored import change, insert, live, number
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.embedded.redis import EmbeddedRedis

pytestmark = pytest.mark.anyio

SETTINGS = Settings(redis_channel_sse_prefix="here:sse", redis_channel_wake_prefix="here:wake")
BURST = """
SELECT pg_notify('ws_wake', json_build_object(
    'id', lpad(to_hex(n), 32, '0')::uuid, 'user_id', lpad('1', 32, '0')::uuid)::text)
FROM generate_series(1, %s) AS n
"""
LISTENERS = """
SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@dataclass(slots=True)
class Ears:
    """A listener, and what came of it."""

    url: str
    signals: RedisSignals
    hints: Hints = field(default_factory=Hints)
    failures: Failures = field(default_factory=Failures)
    everything: int = 0
    hinted: set[UUID] = field(default_factory=set)
    changes: int = 0
    requests: int = 0
    webhooks: int = 0

    def changed(self) -> None:
        self.changes += 1

    def requested(self) -> None:
        self.requests += 1

    def told_webhooks(self) -> None:
        self.webhooks += 1

    def looked_at_all(self, times: int) -> bool:
        self.hears(())
        return self.everything >= times

    def hears(self, ids: tuple[UUID, ...] | range) -> bool:
        """Whether all of these were hinted at by now."""
        taken = self.hints.take()
        self.everything += taken.everything
        self.hinted |= taken.ids
        return self.hinted.issuperset(UUID(int=n) if isinstance(n, int) else n for n in ids)


@asynccontextmanager
async def listening(ears: Ears) -> AsyncIterator[Ears]:
    listener = EventListener(
        ears.url,
        ears.signals,
        ears.hints,
        SETTINGS,
        ears.failures,
        on_request=ears.requested,
        on_change=ears.changed,
        on_webhook=ears.told_webhooks,
    )
    task = asyncio.create_task(listener.run())
    try:
        await until(lambda: ears.looked_at_all(1))
        yield ears
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)
        assert task.cancelled()


@asynccontextmanager
async def subscribed(url: str) -> AsyncIterator[list[tuple[str, Any]]]:
    """What is published on our channels meanwhile."""
    heard: list[tuple[str, Any]] = []

    async def hear() -> None:
        async for message in pubsub.listen():
            if message["type"] == "pmessage":
                heard.append((message["channel"].decode(), json.loads(message["data"])))

    async with Redis.from_url(url) as client, client.pubsub() as pubsub:
        await pubsub.psubscribe("here:*")
        assert await pubsub.get_message(timeout=PATIENCE)
        hearing = asyncio.create_task(hear())
        yield heard
        hearing.cancel()
        await asyncio.wait({hearing})


@pytest.fixture
async def signals(redis_url: str) -> AsyncIterator[RedisSignals]:
    opened = RedisSignals(redis_url)
    yield opened
    await opened.close()


@pytest.fixture
async def conn(database_url: str) -> AsyncIterator[AsyncConnection[DictRow]]:
    async with await connect(database_url) as conn:
        yield conn


async def test_who_begins_to_listen_looks_at_everything(
    database_url: str, signals: RedisSignals
) -> None:
    async with listening(Ears(database_url, signals)) as ears:
        assert (ears.everything, ears.changes, ears.requests, ears.webhooks) == (1, 1, 1, 1)
        assert not ears.failures.counts


async def test_a_change_reaches_the_controller_and_its_owners_channel(
    database_url: str, signals: RedisSignals, redis_url: str, conn: AsyncConnection[DictRow]
) -> None:
    await insert(conn, workspace("api"))
    one = await live(conn, "api")
    owner = (await (await conn.execute("SELECT id FROM users")).fetchall())[0]["id"]
    async with listening(Ears(database_url, signals)) as ears, subscribed(redis_url) as heard:
        await change(conn, "api", desired_state="STANDBY")
        await change(conn, "api", memo="new")
        await change(conn, "api", deleted_at="2026-11-01")
        await conn.execute(
            "SELECT pg_notify('ws_expiring', %s)",
            (json.dumps({"id": str(one.id), "user_id": str(owner)}),),
        )
        await until(lambda: len(heard) == 4)
        assert ears.hears((one.id,))
        assert ears.changes == 4
    mine = {"id": str(one.id)}
    assert heard == [
        ("here:wake:wc", {"event": "workspace_wake", **mine}),
        (f"here:sse:{owner}", {"event": "workspace_updated", **mine}),
        (f"here:sse:{owner}", {"event": "workspace_deleted", **mine}),
        (f"here:sse:{owner}", {"event": "workspace_expiring", **mine}),
    ]


async def test_what_the_leader_is_asked_for_is_passed_on(
    database_url: str, signals: RedisSignals, conn: AsyncConnection[DictRow]
) -> None:
    async with listening(Ears(database_url, signals)) as ears:
        await conn.execute("INSERT INTO leader_requests (kind) VALUES ('gc')")
        await until(lambda: ears.requests == 2)


async def test_what_webhooks_are_to_be_told_is_passed_on(
    database_url: str, signals: RedisSignals, conn: AsyncConnection[DictRow]
) -> None:
    await conn.execute("INSERT INTO webhooks (name, url) VALUES ('x', 'https://x')")
    async with listening(Ears(database_url, signals)) as ears:
        await conn.execute("INSERT INTO spec_revisions (digest, applied) VALUES ('d', false)")
        await until(lambda: ears.webhooks == 2)
        assert not ears.failures.counts


async def test_a_lost_connection_is_made_again_and_everything_looked_at(
    database_url: str,
    signals: RedisSignals,
    conn: AsyncConnection[DictRow],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listen_module, "RETRY", 0.01)
    async with listening(Ears(database_url, signals)) as ears:
        await conn.execute(LISTENERS)
        await until(lambda: ears.looked_at_all(2))
        assert (ears.changes, ears.requests) == (2, 2)
        assert ears.failures.counts == {"events": 1}
        await conn.execute(BURST, (1,))
        await until(lambda: ears.hears(range(1, 2)))


async def test_a_silent_connection_is_given_up(
    database_url: str, signals: RedisSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen_module, "RETRY", 0.01)
    monkeypatch.setattr(store_listen, "WAKE", 0.05)
    monkeypatch.setattr(store_listen, "PATIENCE", 0.2)
    monkeypatch.setattr(session, "ABORT", 0.05)
    async with (
        Relay(database_url) as relay,
        listening(Ears(relay.url, signals)) as ears,
    ):
        relay.silence()
        await until(lambda: ears.failures.counts["events"] >= 1)
        relay.resume()
        await until(lambda: ears.looked_at_all(2))


async def test_an_absent_database_is_told_once(
    database_url: str,
    signals: RedisSignals,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(listen_module, "RETRY", 0.01)
    async with Relay(database_url) as relay, listening(Ears(relay.url, signals)) as ears:
        await relay.stop()
        await until(lambda: ears.failures.counts["events"] >= 5)
        assert len([each for each in caplog.records if each.levelno >= logging.WARNING]) == 1
        await relay.start()
        await until(lambda: ears.looked_at_all(2))


async def test_without_redis_hints_go_on_and_the_outage_is_told_once(
    database_url: str,
    own_redis: EmbeddedRedis,
    conn: AsyncConnection[DictRow],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(outbox_module, "PAUSE", 0.01)
    signals = RedisSignals(own_redis.url)
    async with listening(Ears(database_url, signals)) as ears:
        await asyncio.to_thread(own_redis.stop)
        await conn.execute(BURST, (10,))
        await until(lambda: ears.failures.counts[DROPPED] == 10)
        await conn.execute(BURST, (30,))
        await until(lambda: ears.failures.counts[DROPPED] == 40)
        assert ears.hears(range(1, 31))
        told = [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert len(told) == 1
        await asyncio.to_thread(own_redis.start)
        async with subscribed(own_redis.url) as heard:
            await conn.execute(BURST, (1,))
            await until(lambda: bool(heard))
        assert ears.failures.counts[DROPPED] == 40
    await signals.close()


class HeldSignals(RedisSignals):
    """A Redis that takes its time: messages go out when it is let go."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.released = asyncio.Event()

    async def publish(self, channel: str, message: str) -> None:
        await self.released.wait()
        await super().publish(channel, message)


async def test_a_burst_holds_up_no_hint(
    database_url: str, redis_url: str, conn: AsyncConnection[DictRow]
) -> None:
    signals = HeldSignals(redis_url)
    async with listening(Ears(database_url, signals)) as ears, subscribed(redis_url) as heard:
        await conn.execute(BURST, (3000,))
        await until(lambda: ears.hears(range(1, 3001)))
        assert heard == []
        signals.released.set()
        await until(lambda: len(heard) == 3000)
        assert [message["id"] for _, message in heard[:2]] == [str(number(1)), str(number(2))]
    assert not ears.failures.counts
    await signals.close()


async def test_the_outbox_is_bounded_and_repeats_nothing(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "ROOM", 3)
    failures, signals = Failures(), HeldSignals(redis_url)
    outbox = Outbox(signals, failures)
    for message in ("1", "2", "3", "2", "4"):
        outbox.put("here:x", message)
    assert (len(outbox), failures.counts[DROPPED]) == (3, 1)
    signals.released.set()
    async with subscribed(redis_url) as heard:
        running = asyncio.create_task(outbox.run())
        await until(lambda: len(heard) == 3)
        running.cancel()
        await asyncio.wait({running})
    assert [message for _, message in heard] == [3, 2, 4]
    await signals.close()


async def test_the_outbox_ends_whenever_it_is_cancelled(redis_url: str) -> None:
    for turns in range(20):
        signals = RedisSignals(redis_url)
        outbox = Outbox(signals, Failures())
        outbox.put("here:x", "1")
        running = asyncio.create_task(outbox.run())
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running}, timeout=PATIENCE)
        assert running.cancelled(), turns
        await signals.close()


async def test_what_is_none_of_ours_is_ignored(
    database_url: str, signals: RedisSignals, conn: AsyncConnection[DictRow]
) -> None:
    strange = ["", "{}", "[1]", '{"id": 5, "user_id": 6}', '{"id": "x", "user_id": null}']
    async with listening(Ears(database_url, signals)) as ears:
        for payload in strange:
            await conn.execute("SELECT pg_notify('ws_wake', %s)", (payload,))
        await conn.execute(BURST, (1,))
        await until(lambda: ears.hears(range(1, 2)))
        assert ears.failures.counts == {"events": len(strange)}
        assert (ears.everything, len(ears.hinted)) == (1, 1)


async def test_nothing_is_lost_between_two_looks_at_the_connection(
    database_url: str, conn: AsyncConnection[DictRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_listen, "WAKE", 0.001)
    async with await connect(database_url) as listener:
        heard = await notifications(listener, CHANNELS)

        async def tell() -> None:
            for n in range(300):
                await conn.execute("SELECT pg_notify('ws_sse', %s)", (str(n),))

        telling = asyncio.create_task(tell())
        async with aclosing(heard), asyncio.timeout(PATIENCE):
            got = [(await anext(heard)).payload for _ in range(300)]
        await telling
    assert got == [str(n) for n in range(300)]


async def test_a_dead_connection_ends_in_unreachable(
    database_url: str, conn: AsyncConnection[DictRow]
) -> None:
    async with await connect(database_url) as listener:
        heard = await notifications(listener, CHANNELS)
        await conn.execute(LISTENERS)
        async with aclosing(heard):
            with pytest.raises(Unreachable):
                await anext(heard)
