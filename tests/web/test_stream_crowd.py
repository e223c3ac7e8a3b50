"""Many streams on one process, and streams through the proxy that stands in front of it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis

from codehub.model.runtime import Upstream
from codehub.proxy.process import Listening, serve_proxy
from codehub.web.process import CONNECTIONS
from tests.web.stream_world import HOURLY, PATIENCE, stream_world
from tests.web.test_stream import BOBS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from codehub.embedded.redis import EmbeddedRedis
    from tests.web.stream_world import StreamWorld

pytestmark = pytest.mark.anyio

MANY = 200
SLOW_TO_LEAVE = 3600.0


@asynccontextmanager
async def fronted(world: StreamWorld, pages: Path) -> AsyncIterator[int]:
    """The port of a proxy, which would wait for ever for requests to finish."""
    settings = world.settings.model_copy(update={"proxy_drain_seconds": SLOW_TO_LEAVE})
    web, listening = Upstream("127.0.0.1", world.port), Listening(port=0)
    async with serve_proxy(settings, world.url, world.signals, pages, listening, web) as port:
        try:
            yield port
        finally:
            world.leaving.set()


async def test_two_hundred_follow_on_the_connections_of_one_pool(
    database_url: str, redis_url: str
) -> None:
    async with stream_world(
        database_url, redis_url, web_streams_per_user=MANY, web_look_seconds=HOURLY
    ) as world:
        cookie = await world.cookie("bob")
        first = await world.follow(cookie)
        await first.all()
        alone = await world.connections()
        others = await asyncio.gather(*(world.follow(cookie) for _ in range(MANY - 1)))
        tabs = [first, *others]
        for tab in others:
            assert sorted(each["name"] for each in await tab.all()) == BOBS
        await world.change("bob-running", memo="for all of them")
        for tab in tabs:
            assert (await tab.next()).data["memo"] == "for all of them"
        # However many there are, they share the pool; it may have grown to its size meanwhile.
        assert await world.connections() <= alone + CONNECTIONS


async def test_however_many_follow_the_process_has_one_subscription(
    database_url: str, own_redis: EmbeddedRedis
) -> None:
    async with stream_world(database_url, own_redis.url, web_streams_per_user=MANY) as world:
        shown = [await world.cookie(name) for name in ("ana", "bob", "root")]
        tabs = await asyncio.gather(*(world.follow(shown[n % 3]) for n in range(MANY)))
        for tab in tabs:
            await tab.all()
        async with Redis.from_url(own_redis.url) as redis:
            (subscriber,) = await redis.client_list(_type="pubsub")
        # What happens to workspaces, and that everything may have.
        assert (subscriber["sub"], subscriber["psub"]) == ("0", "2")


async def test_a_change_reaches_everybody_by_being_told(database_url: str, redis_url: str) -> None:
    """The database is looked at once an hour: what nobody tells of stays unknown that long."""
    async with stream_world(
        database_url, redis_url, told=False, web_streams_per_user=MANY, web_look_seconds=HOURLY
    ) as world:
        cookie = await world.cookie("bob")
        tabs = await asyncio.gather(*(world.follow(cookie) for _ in range(MANY)))
        for tab in tabs:
            await tab.all()
        await world.change("bob-running", memo="nobody tells of this")
        await world.change("bob-standby", memo="pushed")
        said = {"event": "workspace_updated", "id": str(await world.id_of("bob-standby"))}
        channel = f"{world.settings.redis_channel_sse_prefix}:bob"
        await world.signals.publish(channel, json.dumps(said))
        for tab in tabs:
            found = await tab.next()
            assert (found.kind, found.data["memo"]) == ("workspace_updated", "pushed")


async def test_through_the_proxy_nothing_is_held_back(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    """Each event is read before the next one comes about."""
    async with stream_world(database_url, redis_url) as world, fronted(world, tmp_path) as port:
        bob = await world.tab("bob", port=port)
        assert bob.headers["x-accel-buffering"] == "no"
        assert (await bob.next()).names == BOBS
        for number in range(5):
            await world.change("bob-running", memo=str(number))
            assert (await bob.next()).data["memo"] == str(number)
        assert (await world.follow("X-Nobody: 1", port=port)).status == 401


async def test_through_the_proxy_a_logout_ends_it(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with stream_world(database_url, redis_url) as world, fronted(world, tmp_path) as port:
        bob = await world.tab("bob", port=port)
        await bob.all()
        await world.run("UPDATE sessions SET revoked_at = now()")
        assert (await bob.next()).kind == "bye"
        assert (await bob.next()).kind == "end"


async def test_a_proxy_that_ends_need_not_wait_for_streams(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with stream_world(database_url, redis_url) as world:
        async with asyncio.timeout(PATIENCE), fronted(world, tmp_path) as port:
            bob = await world.tab("bob", port=port)
            await bob.all()
        assert (await bob.next()).kind == "bye"


async def test_who_leaves_through_the_proxy_is_gone_behind_it(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with (
        stream_world(database_url, redis_url, web_streams_per_user=1) as world,
        fronted(world, tmp_path) as port,
    ):
        cookie = await world.cookie("bob")
        bob = await world.follow(cookie, port=port)
        await bob.all()
        assert (await world.follow(cookie, port=port)).status == 429
        bob.close()
        again = await world.let_in(cookie, port=port)
        assert (await again.next()).names == BOBS
