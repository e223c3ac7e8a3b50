"""Redis flushed, restarted and down for an hour, while people work through a proxy.

The proxy, Redis, Postgres and the look for idle workspaces are real, and so is the traffic, which
never pauses. Time alone is moved: everything stored, in all three buffers, happened so much longer
ago. After each step the traffic goes on first, so nobody was away for longer than a step.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from redis.asyncio import Redis

from codehub.adapters.redis import RedisSignals
from codehub.errors import Unreachable
from codehub.model.runtime import Upstream
from codehub.model.states import Phase
from codehub.model.workspace import Status
from codehub.proxy.activity import ActivityBuffer
from codehub.proxy.process import Listening, serve_proxy
from tests.integration.relay import Relay
from tests.integration.ttl_world import awake, ttl_world
from tests.proxy.whole_world import PATIENCE, Whole, Workspace, log_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from codehub.embedded.redis import EmbeddedRedis
    from tests.integration.ttl_world import TtlWorld

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PREFIX = "outage"
INTERVAL, TTL = 120, 900
STEP = timedelta(seconds=2 * INTERVAL)
SETTINGS: dict[str, Any] = {
    "coordinator_ttl_interval": INTERVAL,
    "ttl_standby_seconds": TTL,
    "activity_flush_interval": 0.1,
    "activity_slack_seconds": 1,
    "proxy_drain_seconds": 0,
}
BUSY = {"requests": UUID(int=1), "socket": UUID(int=2)}
IDLE = "idle"


@dataclass
class Site:
    """The hub, the proxy, its traffic, and time."""

    hub: TtlWorld
    proxy: Whole
    redis: EmbeddedRedis
    signals: RedisSignals
    ahead: list[float]
    """How far time was moved, for the proxy's memory."""
    answered: int = 0
    echoed: int = 0
    down: bool = False
    lowered: dict[str, str] = field(default_factory=dict)

    async def request(self) -> None:
        """One after the other, as fast as they are answered; each counts as work."""
        ask = self.proxy.get("/w/requests/save", self.proxy.cookie, "Origin: http://localhost")
        while True:
            answer = await self.proxy.ask(ask.replace(b"GET", b"POST", 1))
            assert answer.startswith(b"HTTP/1.1 200"), answer
            self.answered += 1

    async def talk(self) -> None:
        """On one WebSocket, which stays open through everything."""
        socket = await self.proxy.socket(self.proxy.secret, name="socket")
        while True:
            assert await socket.echoes(b"work")
            self.echoed += 1
            await asyncio.sleep(0.01)

    async def step(self) -> None:
        """Time passes, people go on working, and then there is a look for idle workspaces."""
        await self._move(STEP)
        moment, answered, echoed = await self.hub.now(), self.answered, self.echoed
        async with asyncio.timeout(PATIENCE):
            while self.answered < answered + 2 or self.echoed < echoed + 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            for workspace_id in BUSY.values():
                while not await self._is_told(workspace_id, moment):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        await self.hub.tick()
        for name in (*BUSY, IDLE):
            self.lowered[name] = await self.hub.desired(name)
        assert [self.lowered[name] for name in BUSY] == ["RUNNING", "RUNNING"]

    async def steps(self, lasts: timedelta) -> None:
        for _ in range(lasts // STEP):
            await self.step()

    @property
    def idle_runs(self) -> bool:
        return self.lowered[IDLE] == "RUNNING"

    async def _move(self, by: timedelta) -> None:
        await self.hub.pass_time(by)
        self.ahead[0] += by.total_seconds()
        if self.down:
            return
        async with Redis.from_url(self.redis.url) as redis:
            for member in await redis.zrange(f"{PREFIX}:activity", 0, -1):
                assert isinstance(member, bytes)
                await redis.zincrby(f"{PREFIX}:activity", -int(by.total_seconds() * 1000), member)

    async def _is_told(self, workspace_id: UUID, since: datetime) -> bool:
        """Whether what this one did since then has left the proxy."""
        row = await (
            await self.hub.conn.execute(
                "SELECT last_access_at >= %s AS told FROM workspaces WHERE id = %s",
                (since, workspace_id),
            )
        ).fetchone()
        if row is not None and row["told"]:
            return True
        try:
            found = (await self.signals.read_activity()).sightings
        except Unreachable:
            return False
        return any(each.workspace_id == workspace_id and each.at >= since for each in found)


@asynccontextmanager
async def site(
    url: str, redis: EmbeddedRedis, pages: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    ahead, workspace = [0.0], Workspace()
    defaults = ActivityBuffer.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "clock", lambda: time.monotonic() + ahead[0])
    names = {**BUSY, IDLE: UUID(int=3)}
    async with AsyncExitStack() as stack:
        server = await asyncio.start_server(workspace.serve, "127.0.0.1", 0)
        stack.callback(server.close)
        workspace.port = server.sockets[0].getsockname()[1]
        upstream = Upstream("127.0.0.1", workspace.port)
        runs = Status(Phase.RUNNING, upstream=upstream, phase_changed_at=datetime.now(UTC))
        rows = [awake(name, each.int, status=runs) for name, each in names.items()]
        both = [RedisSignals(redis.url, prefix=PREFIX) for _ in range(2)]
        for each in both:
            stack.push_async_callback(each.close)
        hub = await stack.enter_async_context(ttl_world(url, *rows, **SETTINGS))
        await hub.lead_anew(both[1])
        relay = await stack.enter_async_context(Relay(url))
        serving = serve_proxy(hub.settings, relay.url, both[0], pages, Listening(port=0))
        port = await stack.enter_async_context(serving)
        proxy = Whole(port, workspace, await log_in(hub.conn), "", relay, hub.conn)
        stack.callback(proxy.hang_up)
        made = Site(hub, proxy, redis, both[1], ahead)
        await stack.enter_async_context(working(made))
        yield made


@asynccontextmanager
async def working(made: Site) -> AsyncIterator[None]:
    """People work as long as the block lasts, and none of them is disturbed."""
    tasks = [asyncio.create_task(each()) for each in (made.request, made.talk)]
    try:
        yield
        assert not [task for task in tasks if task.done()], "somebody was cut off"
    finally:
        for task in tasks:
            task.cancel()
        left = await asyncio.gather(*tasks, return_exceptions=True)
    for each in left:
        if not isinstance(each, asyncio.CancelledError):
            raise AssertionError("somebody was cut off") from each


async def flushed(made: Site) -> None:
    async with Redis.from_url(made.redis.url) as redis:
        await redis.flushall()


async def restarted(made: Site) -> None:
    await asyncio.to_thread(made.redis.stop)
    await asyncio.to_thread(made.redis.start)


async def down_for_an_hour(made: Site) -> None:
    await asyncio.to_thread(made.redis.stop)
    made.down = True
    await made.steps(timedelta(hours=1))
    assert made.idle_runs, "nobody can know that it is idle"
    await asyncio.to_thread(made.redis.start)
    made.down = False


@pytest.mark.parametrize("fault", [flushed, restarted, down_for_an_hour])
async def test_nobody_who_works_is_stopped_and_who_does_not_is_in_the_end(
    database_url: str,
    own_redis: EmbeddedRedis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[Site], Awaitable[None]],
) -> None:
    idle_for = timedelta(seconds=TTL)
    async with site(database_url, own_redis, tmp_path, monkeypatch) as made:
        await made.steps(idle_for - STEP)
        assert made.idle_runs, "its time is not over yet"
        await fault(made)
        await made.step()
        await made.step()
        assert made.idle_runs, "idleness counts from the end of the time that nobody knows of"
        await made.steps(idle_for)
        assert made.lowered[IDLE] == "STANDBY", "silence that is known of counts again"
