"""What passes, and what of it is somebody at work: all policies, in several processes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.core.engage import ALIVE_SECONDS, REPEATS_SECONDS
from codehub.model.access import Identity, Person, Visitor, Way
from codehub.model.people import Role
from codehub.model.route import Route
from codehub.model.workspace import ActivityPolicy, PathPrefix
from codehub.proxy.activity import ActivityBuffer
from codehub.proxy.identity import Identities
from codehub.proxy.living import CHANNEL, who_of
from codehub.proxy.request_watch import MOMENT
from codehub.proxy.table import RouteTable
from codehub.proxy.watch import Watch
from codehub.service.sessions import log_out
from codehub.store.pool import Pool
from tests.integration.stored import live
from tests.integration.ttl_world import awake as awake_for_long
from tests.integration.ttl_world import ttl_world
from tests.proxy.gate_world import PATIENCE, UPSTREAM, awake, gate_world, running, until
from tests.proxy.heads_of import SOCKET, head

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.embedded.redis import EmbeddedRedis

pytestmark = pytest.mark.anyio

API = UUID(int=1)
AUTO, TRAFFIC, CONNECTIONS = (
    ActivityPolicy.AUTO,
    ActivityPolicy.TRAFFIC,
    ActivityPolicy.CONNECTIONS,
)
OTHERS = '["00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002", 1, 2]'
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


def route(activity: ActivityPolicy = AUTO, workspace_id: UUID | None = None, **more: Any) -> Route:
    fields: dict[str, Any] = {"path_prefix": PathPrefix.STRIP, "inject": True} | more
    return Route(
        workspace_id or uuid4(), "api", UUID(int=100), UPSTREAM, activity=activity, **fields
    )


def somebody() -> Identity:
    return Identity(Person(UUID(int=100), "alice", Role.MEMBER), Way.SESSION, uuid4())


class Proxy:
    """One process that watches, in a time that the test moves."""

    def __init__(self, signals: RedisSignals, pool: Pool, url: str) -> None:
        self.now = 1000.0
        self.signals = signals
        self.buffer = ActivityBuffer(signals, pool, Settings(), clock=lambda: self.now)
        self.identities = Identities(pool, url)
        self.table = RouteTable(pool, url, interval=3600)
        self.watch = Watch(
            self.buffer, signals, self.identities, self.table, clock=lambda: self.now
        )

    def answer(
        self,
        to: Route,
        who: Identity,
        target: str = "/w/api/save",
        method: str = "POST",
        status: int = 200,
        **headers: str,
    ) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.watch.watcher(to, head(target, named, method=method), who).answered(status)

    def taken(self) -> dict[str, float]:
        """What was recorded since this was last asked, and how long ago each was."""
        seen = {source: self.now - at for (_, source), at in self.buffer._seen.items()}
        self.buffer._seen.clear()
        return seen


@asynccontextmanager
async def proxies(database_url: str, redis_url: str, count: int = 1) -> AsyncIterator[list[Proxy]]:
    async with Pool(database_url, size=2) as pool:
        made = [Proxy(RedisSignals(redis_url), pool, database_url) for _ in range(count)]
        try:
            yield made
        finally:
            for each in made:
                await each.watch.close()
                await each.signals.close()


@pytest.fixture
async def proxy(database_url: str, redis_url: str) -> AsyncIterator[Proxy]:
    async with proxies(database_url, redis_url) as (one,):
        yield one


# Requests


@pytest.mark.parametrize("policy", [AUTO, TRAFFIC])
async def test_an_answered_request_is_activity_where_no_page_tells_better(
    proxy: Proxy, policy: ActivityPolicy
) -> None:
    to, who = route(policy), somebody()
    proxy.answer(to, who)
    assert proxy.taken() == {"traffic": 0}
    for status in (301, 302, 401, 404, 500, 101):
        proxy.answer(to, who, status=status)
    assert proxy.taken() == {}
    for status in (201, 206, 304):
        proxy.answer(to, who, f"/w/api/{status}", "GET", status)
        assert proxy.taken() == {"traffic": 0}


async def test_what_a_page_asks_for_again_and_again_is_nobodys_work(proxy: Proxy) -> None:
    to, who = route(TRAFFIC), somebody()
    for query in ("", "?1", "?2"):
        proxy.answer(to, who, f"/w/api/poll{query}", "GET")
    assert proxy.taken() == {"traffic": 0}
    proxy.now += REPEATS_SECONDS - 1
    proxy.answer(to, who, "/w/api/poll?3", "GET")
    assert proxy.taken() == {}
    proxy.answer(to, somebody(), "/w/api/poll", "GET")
    assert proxy.taken() == {"traffic": 0}, "another session has not asked yet"
    proxy.now += REPEATS_SECONDS
    proxy.answer(to, who, "/w/api/poll", "GET")
    assert proxy.taken() == {"traffic": 0}


async def test_polls_are_forgotten_when_they_no_longer_matter(proxy: Proxy) -> None:
    to = route(TRAFFIC)
    for _ in range(3):
        proxy.answer(to, somebody(), "/w/api/poll", "GET")
    proxy.now += REPEATS_SECONDS - 1
    proxy.watch.tidy()
    assert len(proxy.watch._polls) == 3
    proxy.now += 1
    proxy.watch.tidy()
    assert len(proxy.watch._polls) == 0


@pytest.mark.parametrize("policy", list(ActivityPolicy))
async def test_callers_that_say_so_are_never_activity(proxy: Proxy, policy: ActivityPolicy) -> None:
    to, who = route(policy), somebody()
    proxy.answer(to, who, X_CodeHub_No_Activity="1")
    quiet = proxy.watch.watcher(to, head(headers=SOCKET | {"x-codehub-no-activity": ""}), who)
    quiet.frame(TEXT, 5, b"hello", from_client=True)
    quiet.opened(lambda: None)
    await proxy.buffer.flush()
    quiet.closed()
    assert proxy.taken() == {}


# WebSockets


async def test_data_on_a_websocket_is_activity_either_way(proxy: Proxy) -> None:
    watcher = proxy.watch.watcher(route(TRAFFIC), head(headers=SOCKET), somebody())
    for opcode in (CLOSE, PING, PONG):
        watcher.frame(opcode, 2, b"ab", from_client=True)
    watcher.frame(BINARY, 13, b"\x09 keepalive..", from_client=True)
    assert proxy.taken() == {}
    for from_client in (True, False):
        watcher.frame(BINARY, 40, b"data", from_client=from_client)
        assert proxy.taken() == {"traffic": 0}
        proxy.now += 1


async def test_of_many_frames_the_last_is_known_to_the_moment(proxy: Proxy) -> None:
    watcher = proxy.watch.watcher(route(TRAFFIC), head(headers=SOCKET), somebody())
    for _ in range(1000):
        proxy.now += 0.01
        watcher.frame(TEXT, 5, b"hello", from_client=True)
    assert proxy.taken()["traffic"] <= MOMENT


async def test_a_keepalive_does_not_hide_what_comes_right_after_it(proxy: Proxy) -> None:
    watcher = proxy.watch.watcher(route(TRAFFIC), head(headers=SOCKET), somebody())
    watcher.frame(BINARY, 13, b"\x09 keepalive..", from_client=True)
    watcher.frame(BINARY, 40, b"data", from_client=True)
    assert proxy.taken() == {"traffic": 0}


async def test_with_connections_an_open_websocket_is_activity_at_each_flush(proxy: Proxy) -> None:
    to, who = route(CONNECTIONS), somebody()
    proxy.answer(to, who)
    first, second = (proxy.watch.watcher(to, head(headers=SOCKET), who) for _ in range(2))
    first.frame(TEXT, 5, b"hello", from_client=True)
    assert proxy.taken() == {}
    for each in (first, second):
        each.opened(lambda: None)
    assert proxy.taken() == {"connections": 0}
    proxy.now += 1000
    await proxy.buffer.flush()
    assert proxy.taken() == {"connections": 0}
    first.closed()
    proxy.taken()
    proxy.now += 1000
    await proxy.buffer.flush()
    assert proxy.taken() == {"connections": 0}, "one is still open"
    second.closed()
    assert proxy.taken() == {"connections": 0}, "it was open until now"
    proxy.now += 1000
    await proxy.buffer.flush()
    assert proxy.taken() == {}
    assert proxy.watch._sockets == {}


async def test_closing_twice_counts_once(proxy: Proxy) -> None:
    to, who = route(CONNECTIONS), somebody()
    one, other = (proxy.watch.watcher(to, head(headers=SOCKET), who) for _ in range(2))
    one.opened(lambda: None)
    other.opened(lambda: None)
    one.closed()
    one.closed()
    assert proxy.watch._sockets[to.id] == 1


@pytest.mark.parametrize("policy", [AUTO, TRAFFIC])
async def test_elsewhere_an_open_websocket_alone_is_no_activity(
    proxy: Proxy, policy: ActivityPolicy
) -> None:
    watcher = proxy.watch.watcher(route(policy), head(headers=SOCKET), somebody())
    watcher.opened(lambda: None)
    await proxy.buffer.flush()
    watcher.closed()
    assert proxy.taken() == {}


# Living pages


async def test_where_a_page_tells_of_input_nothing_else_counts(proxy: Proxy) -> None:
    to, who = route(AUTO), somebody()
    proxy.watch.reported(to, who, by_input=False)
    proxy.answer(to, who)
    watcher = proxy.watch.watcher(to, head(headers=SOCKET), who)
    watcher.frame(TEXT, 5, b"hello", from_client=True)
    assert proxy.taken() == {}
    proxy.watch.reported(to, who, by_input=True)
    assert proxy.taken() == {"input": 0}


async def test_it_counts_for_that_session_and_that_workspace_alone(proxy: Proxy) -> None:
    to, who = route(AUTO), somebody()
    proxy.watch.reported(to, who, by_input=False)
    proxy.answer(to, somebody())
    assert proxy.taken() == {"traffic": 0}
    proxy.answer(route(AUTO), who)
    assert proxy.taken() == {"traffic": 0}


async def test_a_page_that_is_gone_tells_nothing_so_traffic_counts_again(proxy: Proxy) -> None:
    to, who = route(AUTO), somebody()
    proxy.watch.reported(to, who, by_input=False)
    proxy.now += ALIVE_SECONDS - 1
    proxy.answer(to, who)
    assert proxy.taken() == {}
    proxy.now += 1
    proxy.answer(to, who)
    assert proxy.taken() == {"traffic": 0}
    proxy.watch.tidy()
    assert len(proxy.watch._pages) == 0


@pytest.mark.parametrize("more", [{"activity": TRAFFIC}, {"inject": False}])
async def test_where_traffic_is_what_counts_a_page_changes_nothing(
    proxy: Proxy, more: dict[str, Any]
) -> None:
    """Nor does one that is open since before the spec turned the script off."""
    to, who = route(**more), somebody()
    proxy.watch.reported(to, who, by_input=False)
    proxy.answer(to, who)
    assert proxy.taken() == {"traffic": 0}


async def test_the_tag_is_for_documents_that_are_judged_by_input(proxy: Proxy) -> None:
    asked = head()
    tag = proxy.watch.script(route(AUTO), asked, b"/w/api")
    assert tag is not None
    assert tag.startswith(b"<script ")
    assert tag.endswith(b"></script>")
    assert b'src="/_codehub/activity.js"' in tag
    assert b'data-codehub="api"' in tag
    assert b'data-every="20"' in tag
    short = proxy.watch.script(route(AUTO, standby_ttl=8), asked, b"/w/api")
    assert b'data-every="2"' in (short or b"")
    assert proxy.watch.script(route(AUTO, inject=False), asked, b"/w/api") is None
    assert proxy.watch.script(route(TRAFFIC), asked, b"/w/api") is None
    assert proxy.watch.script(route(CONNECTIONS), asked, b"/w/api") is None


# Several processes


async def hears(listener: Proxy, teller: Proxy) -> None:
    """Until what one is told reaches the other."""
    to, who = route(AUTO), somebody()

    def counts_nothing() -> bool:
        teller.watch.reported(to, who, by_input=False)
        listener.answer(to, who)
        return listener.taken() == {}

    await until(counts_nothing)


async def test_a_page_that_tells_one_process_counts_in_all(
    database_url: str, redis_url: str
) -> None:
    async with proxies(database_url, redis_url, 2) as (one, other), running(other.watch):
        await hears(other, one)
        to, who = route(AUTO), somebody()
        one.watch.reported(to, who, by_input=True)
        await until(lambda: other.watch._pages.lives(who_of(who, to), other.now))
        other.answer(to, who)
        assert other.taken() == {}, "only the one that was told records the input"
        other.answer(to, somebody())
        assert other.taken() == {"traffic": 0}
        assert one.taken() == {"input": 0}


async def test_nonsense_on_the_channel_is_passed_over(database_url: str, redis_url: str) -> None:
    async with proxies(database_url, redis_url, 2) as (one, other), running(other.watch):
        await hears(other, one)
        for nonsense in ("", "no json", "{}", "[1, 2]", '["a", "b"]', "[]", "null", OTHERS):
            await one.signals.publish(CHANNEL, nonsense)
        await hears(other, one)


async def test_without_redis_traffic_counts_elsewhere_and_input_here(
    database_url: str, own_redis: EmbeddedRedis
) -> None:
    """The doubt is in the user's favour; and when Redis is back, all hear of each other again."""
    async with proxies(database_url, own_redis.url, 2) as (one, other), running(other.watch):
        await hears(other, one)
        own_redis.stop()
        to, who = route(AUTO), somebody()
        one.watch.reported(to, who, by_input=False)
        await one.watch.close()
        one.answer(to, who)
        assert one.taken() == {}
        other.answer(to, who)
        assert other.taken() == {"traffic": 0}
        own_redis.start()
        await hears(other, one)


# The end of a login


async def test_who_is_logged_out_loses_the_websocket(database_url: str, redis_url: str) -> None:
    async with gate_world(database_url, redis_url) as world:
        await world.add(awake())
        await until(lambda: world.table.find("api"))
        ended: list[str] = []
        watchers = {}
        sessions = {}
        for name in ("first", "closed", "other"):
            secret = await world.log_in()
            asked = head(headers=SOCKET, cookie=secret)
            identity = await world.identities.look_up(asked)
            assert identity is not None
            sessions[name] = identity.id
            watchers[name] = (await world.forward(asked)).watcher
            watchers[name].opened(partial(ended.append, name))
        watchers["closed"].closed()
        for name in ("closed", "first"):
            assert await log_out(world.conn, sessions[name], Visitor())
        await until(lambda: ended)
        assert ended == ["first"]
        watchers["first"].closed()


# On to the database


async def test_what_a_person_did_is_told_to_the_database_with_its_source(
    database_url: str, redis_url: str
) -> None:
    """Through Redis, as it usually goes."""
    signals = RedisSignals(redis_url, prefix=f"watch-{uuid4().hex}")
    async with ttl_world(database_url, awake_for_long()) as hub:
        proxy = Proxy(signals, hub.pool, database_url)
        await hub.lead_anew(signals)
        to, who = route(AUTO, API), somebody()
        proxy.answer(to, who)
        await proxy.buffer.flush()
        await hub.tick()
        assert (await live(hub.conn, "api")).activity.source == "traffic"
        proxy.now += 10
        proxy.watch.reported(to, who, by_input=True)
        await proxy.buffer.flush()
        await hub.tick()
        assert (await live(hub.conn, "api")).activity.source == "input"
        assert (await live(hub.conn, "api")).intent.desired == "RUNNING"
        await proxy.watch.close()
        await signals.close()


async def test_who_comes_back_is_known_to_the_database_at_once(
    database_url: str, redis_url: str
) -> None:
    signals = RedisSignals(redis_url, prefix=f"watch-{uuid4().hex}")
    async with ttl_world(database_url, awake_for_long()) as hub:
        proxy = Proxy(signals, hub.pool, database_url)
        flushing = asyncio.create_task(proxy.buffer.run())
        proxy.watch.reported(route(AUTO, API), somebody(), by_input=True)
        async with asyncio.timeout(PATIENCE):
            while (await live(hub.conn, "api")).activity.source != "input":
                pass
        assert (await signals.read_activity()).sightings == ()
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        await proxy.watch.close()
        await signals.close()


async def test_without_redis_the_database_hears_of_open_websockets_too(
    database_url: str, own_redis: EmbeddedRedis
) -> None:
    signals = RedisSignals(own_redis.url)
    async with ttl_world(database_url, awake_for_long()) as hub:
        proxy = Proxy(signals, hub.pool, database_url)
        watcher = proxy.watch.watcher(route(CONNECTIONS, API), head(headers=SOCKET), somebody())
        watcher.opened(lambda: None)
        proxy.taken()
        own_redis.stop()
        await proxy.buffer.flush()
        assert (await live(hub.conn, "api")).activity.source == "connections"
        await proxy.watch.close()
        await signals.close()
