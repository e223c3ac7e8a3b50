"""Activity from Redis to Postgres, and nobody lowered for a silence that may be a loss."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from redis.asyncio import Redis

from codehub.adapters.redis import RedisSignals
from codehub.errors import Unreachable
from tests.integration.stored import change, number
from tests.integration.ttl_world import MemorySignals, awake, ttl_world

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.embedded.redis import EmbeddedRedis
    from tests.integration.ttl_world import TtlWorld

pytestmark = pytest.mark.anyio

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
DAY = timedelta(days=1)
STRANGER = UUID(int=99)


async def sync(world: TtlWorld) -> dict[str, Any]:
    row = await (await world.conn.execute("SELECT * FROM activity_sync")).fetchone()
    assert row is not None
    return row


async def blind(world: TtlWorld, before: datetime) -> bool:
    """Whether idleness counts from some moment after `before`."""
    return bool((await sync(world))["blind_until"] >= before)


async def settled(world: TtlWorld) -> datetime:
    """A hub that has seen everything for a while; the time since which it should stay so."""
    await world.tick()
    await world.watch(2 * MINUTE)
    return await world.now()


# The drain


@pytest.mark.parametrize("ahead", [timedelta(0), 5 * HOUR, -400 * DAY])
async def test_activity_is_recorded_by_its_age_whatever_redis_takes_the_time_to_be(
    database_url: str, ahead: timedelta
) -> None:
    async with ttl_world(database_url, awake(), signals=MemorySignals(ahead)) as world:
        before = await world.now()
        await world.signals.record_activity(
            {(number(1), "traffic"): 3 * HOUR, (number(1), "input"): 2 * HOUR}
        )
        await world.tick()

        row = await world.row()
        assert before - 2 * HOUR - SECOND <= row["last_access_at"] <= await world.now() - 2 * HOUR
        assert row["last_access_source"] == "input"
        assert world.signals.members == {}


async def test_activity_from_the_future_is_of_now(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        await world.signals.record_activity({(number(1), "input"): -DAY})
        await world.tick()
        assert (await world.row())["last_access_at"] <= await world.now()


async def test_older_activity_moves_nothing(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        touched = await world.now()
        await change(world.conn, "api", last_access_at=touched, last_access_source="touch")
        await world.signals.record_activity({(number(1), "traffic"): MINUTE})
        await world.tick()
        row = await world.row()
        assert (row["last_access_at"], row["last_access_source"]) == (touched, "touch")
        assert world.signals.members == {}


async def test_what_another_hub_left_in_redis_stays_for_a_day(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        await world.signals.record_activity({(STRANGER, "input"): timedelta(0)})
        await world.tick()
        assert set(world.signals.members) == {(STRANGER, "input")}
        await world.pass_time(DAY + MINUTE)
        await world.tick()
        assert world.signals.members == {}


async def test_what_cannot_be_forgotten_is_read_again_to_no_effect(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(seen: object) -> None:
        raise Unreachable("Redis went away")

    async with ttl_world(database_url, awake()) as world:
        since = await settled(world)
        await world.signals.record_activity({(number(1), "input"): SECOND})
        with monkeypatch.context() as patch:
            patch.setattr(world.signals, "forget_activity", refuse)
            await world.tick()
        recorded = (await world.row())["last_access_at"]
        assert recorded is not None
        assert world.failures.counts == {"ttl": 1}
        await world.tick()
        assert recorded - SECOND <= (await world.row())["last_access_at"] <= recorded + SECOND
        assert not await blind(world, since)
        assert world.signals.members == {}


# Blindness


async def test_the_first_look_of_a_hub_lowers_nobody(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        before = await world.now()
        await world.tick()
        assert await world.desired() == "RUNNING"
        assert await blind(world, before)


async def test_a_hub_that_watches_on_is_not_blind(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        since = await settled(world)
        await world.watch(3 * MINUTE)
        assert not await blind(world, since - 3 * MINUTE)


async def test_a_new_leader_takes_over_without_blindness(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        since = await settled(world)
        await world.lead_anew()
        await world.tick()
        assert not await blind(world, since)


TROUBLE: dict[str, Callable[[MemorySignals], None]] = {
    "flushed": MemorySignals.flush,
    "restarted": MemorySignals.restart,
    "replaced": lambda signals: setattr(signals, "sentinel", "of another"),
}


@pytest.mark.parametrize("what", TROUBLE)
async def test_after_trouble_with_redis_idleness_counts_anew(database_url: str, what: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        since = await settled(world)
        world.signals.save()
        await world.watch(7 * MINUTE)
        TROUBLE[what](world.signals)
        await world.watch(9 * MINUTE)
        assert await world.desired() == "RUNNING"
        assert await blind(world, since - 16 * MINUTE)
        await world.watch(5 * MINUTE)
        assert await world.desired() == "STANDBY"


async def test_while_redis_is_away_nobody_falls_and_then_idleness_counts_anew(
    database_url: str,
) -> None:
    async with ttl_world(database_url, awake()) as world:
        await settled(world)
        drained = (await sync(world))["drained_at"]
        world.signals.down = True
        await world.tick()
        await world.tick()
        assert world.failures.counts == {"ttl": 2}
        assert (await sync(world))["drained_at"] == drained
        await world.pass_time(HOUR)
        await world.tick()
        assert await world.desired() == "RUNNING"

        world.signals.down = False
        await world.watch(9 * MINUTE)
        assert await world.desired() == "RUNNING"
        await world.watch(5 * MINUTE)
        assert await world.desired() == "STANDBY"


async def test_one_missing_answer_is_blindness_for_the_next_leader_too(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        since = await settled(world)
        world.signals.down = True
        await world.tick()
        world.signals.down = False
        await world.lead_anew()
        await world.tick()
        assert await blind(world, since)


async def test_a_long_time_without_a_look_is_blind(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        await settled(world)
        before = await world.now()
        await world.pass_time(HOUR)
        await world.tick()
        assert await blind(world, before)
        assert await world.desired() == "RUNNING"


async def test_a_clock_that_goes_back_is_blind(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        since = await settled(world)
        await world.pass_time(-HOUR)
        await world.tick()
        assert await blind(world, since)
        assert (await sync(world))["blind_until"] <= await world.now()


async def test_a_redis_that_keeps_nothing_is_no_answer(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(text: str) -> None:
        return None

    async with ttl_world(database_url, awake()) as world:
        monkeypatch.setattr(world.signals, "write_sentinel", lose)
        await world.tick()
        assert world.failures.counts == {"ttl": 1}
        count = await world.conn.execute("SELECT FROM activity_sync")
        assert await count.fetchall() == []


async def test_two_hubs_that_share_a_redis_do_not_blind_each_other(
    make_database_url: Callable[[], str],
) -> None:
    shared = MemorySignals()
    async with (
        ttl_world(make_database_url(), awake(), signals=shared) as one,
        ttl_world(make_database_url(), awake("other", 2), signals=shared) as two,
    ):
        for _ in range(2):
            await one.tick()
            await two.tick()
        since = await one.now()
        await shared.record_activity({(number(1), "input"): SECOND, (number(2), "input"): SECOND})
        await one.tick()
        await two.tick()

        assert not await blind(one, since)
        assert not await blind(two, since)
        assert (await one.row("api"))["last_access_source"] == "input"
        assert (await two.row("other"))["last_access_source"] == "input"


# A real Redis


async def test_a_real_redis_flushed_and_restarted(
    database_url: str, own_redis: EmbeddedRedis
) -> None:
    signals = RedisSignals(own_redis.url)
    async with ttl_world(database_url, awake()) as world, Redis.from_url(own_redis.url) as client:
        await world.lead_anew(signals)
        await world.tick()
        since = await world.now()
        await signals.record_activity({(number(1), "input"): MINUTE})
        await world.tick()
        seen = (await world.row())["last_access_at"]
        assert since - MINUTE - SECOND <= seen <= await world.now() - MINUTE
        assert (await signals.read_activity()).sightings == ()
        assert not await blind(world, since)

        await client.flushall()
        await world.tick()
        assert await blind(world, since)

        since = await world.now()
        await world.tick()
        assert not await blind(world, since)
        own_redis.stop()
        own_redis.start()
        await world.tick()
        assert await blind(world, since)
        assert datetime.now(UTC) > since
    await signals.close()
