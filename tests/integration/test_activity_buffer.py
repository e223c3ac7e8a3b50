"""The activity buffer: whatever happens to Redis and Postgres, nothing recorded is lost."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.errors import DatabaseProblem, Unreachable
from codehub.proxy.activity import ActivityBuffer
from codehub.store.connect import connect
from codehub.store.pool import Pool
from tests.integration.phases import PATIENCE, running
from tests.integration.stored import insert, live

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.embedded.redis import EmbeddedRedis

pytestmark = pytest.mark.anyio

API, WEB = UUID(int=1), UUID(int=2)
SLACK = timedelta(seconds=30)
"""Far more than a test takes, far less than the ages it looks at."""


class World:
    """A buffer whose time the test moves."""

    def __init__(self, signals: RedisSignals, pool: Pool, **settings: Any) -> None:
        self.now = 1000.0
        self.signals = signals
        self.buffer = ActivityBuffer(signals, pool, Settings(**settings), clock=lambda: self.now)

    async def ages(self) -> dict[tuple[int, str], timedelta]:
        """What Redis has heard: how long ago each was active."""
        read = await self.signals.read_activity()
        return {(each.workspace_id.int, each.source): read.at - each.at for each in read.sightings}

    async def forget(self) -> None:
        """The coordinator took everything."""
        await self.signals.forget_activity((await self.signals.read_activity()).sightings)


@asynccontextmanager
async def world_of(database_url: str, redis_url: str, **settings: Any) -> AsyncIterator[World]:
    signals = RedisSignals(redis_url, prefix=f"buffer-{uuid4().hex}")
    async with Pool(database_url) as pool:
        try:
            yield World(signals, pool, **settings)
        finally:
            await signals.close()


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    async with world_of(database_url, redis_url) as found:
        yield found


async def test_what_is_recorded_reaches_redis_with_its_age(world: World) -> None:
    world.buffer.record(API, "traffic")
    world.buffer.record(WEB, "input")
    world.now += 100
    world.buffer.record(WEB, "traffic")
    await world.buffer.flush()
    ages = await world.ages()
    assert set(ages) == {(1, "traffic"), (2, "input"), (2, "traffic")}
    assert timedelta(seconds=100) <= ages[1, "traffic"] < timedelta(seconds=100) + SLACK
    assert ages[2, "traffic"] < SLACK


async def test_nothing_to_tell_says_nothing(world: World) -> None:
    await world.buffer.flush()
    assert await world.ages() == {}


async def test_recent_activity_is_told_again_and_old_activity_is_not(world: World) -> None:
    world.buffer.record(API, "traffic")
    await world.buffer.flush()
    await world.forget()
    world.now += 179
    await world.buffer.flush()
    assert timedelta(seconds=179) <= (await world.ages())[1, "traffic"]
    await world.forget()
    world.now += 2
    await world.buffer.flush()
    assert await world.ages() == {}
    assert world.buffer._seen == {}
    assert world.buffer._told == {}


async def test_a_newer_time_replaces_the_older(world: World) -> None:
    world.buffer.record(API, "traffic")
    await world.buffer.flush()
    world.now += 170
    world.buffer.record(API, "traffic")
    await world.buffer.flush()
    assert (await world.ages())[1, "traffic"] < SLACK


async def test_without_redis_postgres_gets_it_with_its_source(
    database_url: str, own_redis: EmbeddedRedis
) -> None:
    async with (
        world_of(database_url, own_redis.url) as world,
        await connect(database_url) as conn,
    ):
        await insert(conn, running("api"), running("web", 2))
        world.buffer.record(API, "traffic")
        world.buffer.record(WEB, "input")
        world.now += 100
        own_redis.stop()
        await world.buffer.flush()
        now = (await (await conn.execute("SELECT now() AS now")).fetchone() or {})["now"]
        api, web = (await live(conn, "api")).activity, (await live(conn, "web")).activity
        assert (api.source, web.source) == ("traffic", "input")
        assert api.last_access_at is not None
        assert timedelta(seconds=100) <= now - api.last_access_at < timedelta(seconds=100) + SLACK


async def test_a_flush_that_nobody_hears_loses_nothing(
    database_url: str, own_redis: EmbeddedRedis
) -> None:
    async with (
        world_of(database_url, own_redis.url) as world,
        await connect(database_url) as conn,
    ):
        await insert(conn, running("api"))
        world.buffer.record(API, "traffic")
        own_redis.stop()
        await conn.execute("ALTER TABLE workspaces RENAME TO away")
        for _ in range(2):
            with pytest.raises((Unreachable, DatabaseProblem)):
                await world.buffer.flush()
            assert await world.buffer.try_flush() is False
        world.now += 4000
        await conn.execute("ALTER TABLE away RENAME TO workspaces")
        assert await world.buffer.try_flush() is True
        now = (await (await conn.execute("SELECT now() AS now")).fetchone() or {})["now"]
        seen = (await live(conn, "api")).activity.last_access_at
        assert seen is not None
        assert timedelta(seconds=4000) <= now - seen < timedelta(seconds=4000) + SLACK


async def test_what_comes_during_a_flush_is_told_by_the_next(world: World) -> None:
    """Redis has the older time, and the newer one was recorded before the flush returned."""
    heard = world.signals.record_activity

    async def slowly(ages: Any) -> None:
        await heard(ages)
        world.now += 1000
        world.buffer.record(API, "traffic")

    world.buffer.record(API, "traffic")
    world.signals.record_activity = slowly  # type: ignore[method-assign]
    await world.buffer.flush()
    world.signals.record_activity = heard  # type: ignore[method-assign]
    world.now += 1000
    await world.buffer.flush()
    age = (await world.ages())[1, "traffic"]
    assert timedelta(seconds=0) <= age < timedelta(seconds=1000) + SLACK


async def test_it_flushes_by_itself(database_url: str, redis_url: str) -> None:
    async with world_of(database_url, redis_url, activity_flush_interval=0.01) as world:
        world.buffer.record(API, "traffic")
        running_ = asyncio.create_task(world.buffer.run())
        async with asyncio.timeout(PATIENCE):
            while not await world.ages():
                world.now += 1
        running_.cancel()
        await asyncio.gather(running_, return_exceptions=True)


async def test_who_comes_back_after_a_while_is_known_to_postgres_at_once(
    database_url: str, redis_url: str
) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, running("api", 1))
    async with world_of(database_url, redis_url, activity_flush_interval=3600) as world:
        running_ = asyncio.create_task(world.buffer.run())
        world.buffer.record(API, "traffic")
        async with asyncio.timeout(PATIENCE), await connect(database_url) as conn:
            known = await live(conn, "api")
            while known.activity.last_access_at is None:
                known = await live(conn, "api")
        running_.cancel()
        await asyncio.gather(running_, return_exceptions=True)
        assert known.activity.source == "traffic"
        assert await world.ages() == {}, "the flush itself is an hour away"
