"""What is slow or locked holds up nobody's activity: flushes reach Redis, and nothing is lost."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.errors import Unreachable
from codehub.proxy.activity import ActivityBuffer, patience
from codehub.store.connect import connect, transaction
from codehub.store.pool import Pool
from codehub.store.session import ABORT
from tests.integration.phases import running
from tests.integration.relay import Relay
from tests.integration.stored import insert, live
from tests.proxy.gate_world import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.embedded.redis import EmbeddedRedis

pytestmark = pytest.mark.anyio

API, WEB = UUID(int=1), UUID(int=2)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


class Site:
    """A proxy's buffer, what it tells, and a database that can fall silent for it alone."""

    def __init__(
        self, signals: RedisSignals, pool: Pool, relay: Relay, conn: AsyncConnection[DictRow]
    ) -> None:
        self.signals = signals
        self.relay = relay
        self.conn = conn
        settings = Settings(activity_flush_interval=0.05)
        self.buffer = ActivityBuffer(signals, pool, settings)

    async def in_redis(self) -> set[UUID]:
        return {each.workspace_id for each in (await self.signals.read_activity()).sightings}

    async def in_postgres(self) -> set[UUID]:
        known = [await live(self.conn, name) for name in ("api", "web")]
        return {each.id for each in known if each.activity.last_access_at is not None}


@asynccontextmanager
async def site(database_url: str, redis_url: str) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        conn = await stack.enter_async_context(await connect(database_url))
        await insert(conn, running("api", 1), running("web", 2))
        relay = await stack.enter_async_context(Relay(database_url))
        pool = await stack.enter_async_context(Pool(relay.url, checked=True))
        signals = RedisSignals(redis_url, prefix=f"patience-{uuid4().hex}")
        stack.push_async_callback(signals.close)
        yield Site(signals, pool, relay, conn)


@asynccontextmanager
async def runs(buffer: ActivityBuffer) -> AsyncIterator[None]:
    task = asyncio.create_task(buffer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def locked(database_url: str, workspace_id: UUID) -> AsyncIterator[None]:
    async with await connect(database_url) as conn, transaction(conn):
        await conn.execute("SELECT FROM workspaces WHERE id = %s FOR UPDATE", (workspace_id,))
        yield


async def until_known(where: Callable[[], Awaitable[set[UUID]]], *wanted: UUID) -> None:
    async with asyncio.timeout(PATIENCE):
        while not set(wanted) <= await where():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_locked_row_keeps_nobody_else_back(database_url: str, redis_url: str) -> None:
    async with site(database_url, redis_url) as made, runs(made.buffer):
        async with locked(database_url, API):
            made.buffer.record(API, "input")
            await until_known(made.in_redis, API)
            made.buffer.record(WEB, "input")
            await until_known(made.in_redis, WEB)
            await until_known(made.in_postgres, WEB)
            assert await made.in_postgres() == {WEB}, "the other's row is locked"
        await until_known(made.in_postgres, API)


async def test_a_silent_database_keeps_nobody_from_redis(database_url: str, redis_url: str) -> None:
    async with site(database_url, redis_url) as made, runs(made.buffer):
        made.relay.silence()
        made.buffer.record(API, "input")
        await until_known(made.in_redis, API)
        made.buffer.record(WEB, "input")
        await until_known(made.in_redis, WEB)
        assert await made.in_postgres() == set()
        made.relay.resume()
        await until_known(made.in_postgres, API, WEB)


async def test_without_redis_a_locked_row_keeps_nobody_else_back(
    database_url: str, own_redis: EmbeddedRedis
) -> None:
    async with site(database_url, own_redis.url) as made:
        own_redis.stop()
        async with locked(database_url, API):
            for each in (API, WEB):
                made.buffer.record(each, "input")
            with pytest.raises(Unreachable):
                await made.buffer.flush()
            assert await made.in_postgres() == {WEB}
            assert not await made.buffer.try_flush(), "one of them is still to be told of"
        assert await made.buffer.try_flush()
        assert await made.in_postgres() == {API, WEB}


async def test_a_redis_that_never_answers_leaves_time_for_postgres(database_url: str) -> None:
    silent = asyncio.Event()

    async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with site(database_url, f"redis://127.0.0.1:{port}/0") as made:
            made.buffer.record(API, "input")
            await made.buffer.flush()
            assert await made.in_postgres() == {API}
        silent.set()


@pytest.mark.parametrize("slack", [1.5, 3, 10, 60])
def test_all_patience_fits_into_the_slack(slack: float) -> None:
    """One flush asks Redis, then Postgres: what was done before it began is known in time."""
    settings = Settings(activity_slack_seconds=slack)
    longest = 2 * patience(settings.activity_slack_seconds)
    assert longest < slack


def test_by_default_a_flush_is_over_before_silence_counts() -> None:
    """With the time that it takes to get out of a statement: asking, cutting and ending it."""
    settings = Settings()
    longest = 2 * patience(settings.activity_slack_seconds) + 3 * ABORT
    assert longest <= settings.activity_slack_seconds
