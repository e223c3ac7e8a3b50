"""A login does not idle out under somebody who works on a WebSocket, or waits for a file."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from codehub.proxy.identity import Identities
from codehub.proxy.watch import Watch
from tests.proxy.gate_world import gate_world
from tests.proxy.heads_of import SOCKET, head
from tests.proxy.test_watch import AUTO, CONNECTIONS, PING, TEXT, route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.model.workspace import ActivityPolicy
    from codehub.proxy.request_watch import RequestWatch
    from tests.proxy.gate_world import GateWorld

pytestmark = pytest.mark.anyio

AWAY = timedelta(hours=1)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


class Login:
    """A login that was last used by a request an hour ago; its WebSocket is still open."""

    def __init__(self, world: GateWorld, url: str) -> None:
        self.world = world
        self.now = 1000.0
        self.identities = Identities(world.pool, url, clock=lambda: self.now)
        self.watch = Watch(
            world.buffer, world.signals, self.identities, world.table, clock=lambda: self.now
        )

    async def watcher(self, policy: ActivityPolicy = AUTO) -> RequestWatch:
        who = await self.identities.look_up(head(cookie=await self.world.log_in()))
        assert who is not None
        watcher = self.watch.watcher(route(policy), head(headers=SOCKET), who)
        watcher.opened(lambda: None)
        await self.identities.refresh()
        self.now += AWAY.total_seconds()
        await self.world.conn.execute("UPDATE sessions SET last_seen_at = now() - %s", (AWAY,))
        return watcher

    async def is_in_use(self) -> bool:
        await self.identities.refresh()
        query = "SELECT now() - last_seen_at < %s / 2 AS used FROM sessions"
        row = await (await self.world.conn.execute(query, (AWAY,))).fetchone()
        assert row is not None
        return bool(row["used"])


@pytest.fixture
async def login(database_url: str, redis_url: str) -> AsyncIterator[Login]:
    async with gate_world(database_url, redis_url, run=False) as world:
        yield Login(world, database_url)


@pytest.mark.parametrize("policy", [AUTO, CONNECTIONS])
async def test_what_somebody_sends_on_a_websocket_is_use(
    login: Login, policy: ActivityPolicy
) -> None:
    watcher = await login.watcher(policy)
    watcher.frame(PING, 0, b"", from_client=True)
    watcher.frame(TEXT, 5, b"hello", from_client=False)
    assert not await login.is_in_use(), "what only arrives is nobody's doing"
    login.now += 1
    watcher.frame(TEXT, 5, b"hello", from_client=True)
    assert await login.is_in_use()


async def test_a_file_on_its_way_is_use_and_a_stream_is_not(login: Login) -> None:
    watcher = await login.watcher()
    watcher.moving(ends=False)
    assert not await login.is_in_use()
    watcher.moving(ends=True)
    assert await login.is_in_use()


async def test_it_is_the_use_of_no_other_login(login: Login) -> None:
    watcher = await login.watcher()
    other = await login.world.log_in()
    assert await login.identities.look_up(head(cookie=other))
    await login.identities.refresh()
    await login.world.conn.execute("UPDATE sessions SET last_seen_at = now() - %s", (AWAY,))
    login.now += AWAY.total_seconds()
    watcher.frame(TEXT, 5, b"hello", from_client=True)
    await login.identities.refresh()
    query = "SELECT count(*) AS n FROM sessions WHERE now() - last_seen_at < %s / 2"
    row = await (await login.world.conn.execute(query, (AWAY,))).fetchone()
    assert row == {"n": 1}
