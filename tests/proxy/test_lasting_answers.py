"""A workspace's stream of events ends with the login it was opened with, or in other hands.

Everything is real but the workspace. The proxy asks the database by itself so rarely here that what
it learns it learns by being told.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.model.access import Scope
from codehub.model.runtime import Upstream
from codehub.service.tokens import create_token
from tests.integration.stored import insert
from tests.proxy.gate_world import awake, gate_world, until
from tests.proxy.heads_of import head
from tests.proxy.test_changing_hands import RARELY, pass_on
from tests.proxy.test_ends import TOLD
from tests.proxy.whole_world import PATIENCE, log_in, whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.proxy.whole_world import Whole

pytestmark = pytest.mark.anyio

EVENT = b"data: still here\n\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
FRAMINGS = {
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(EVENT), EVENT),
    "until the end": HEAD + b"\r\n" + EVENT,
}


class Events:
    """A workspace that begins a stream of events, and has no more to say."""

    def __init__(self, framing: str) -> None:
        self.framing = framing
        self.listeners = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.listeners += 1
        writer.write(FRAMINGS[self.framing])
        try:
            await reader.read()
        except ConnectionError:
            pass
        finally:
            self.listeners -= 1
            writer.close()


@asynccontextmanager
async def streaming(proxy: Whole, framing: str) -> AsyncIterator[Events]:
    """Alice has another workspace, which streams."""
    events = Events(framing)
    server = await asyncio.start_server(events.serve, "127.0.0.1", 0)
    upstream = Upstream("127.0.0.1", server.sockets[0].getsockname()[1])
    await insert(proxy.conn, awake("web", number=2, upstream=upstream))
    try:
        yield events
    finally:
        server.close()


async def listen(proxy: Whole, shown: str) -> asyncio.StreamReader:
    """Somebody who follows it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    proxy.writers.append(writer)
    writer.write(proxy.get("/w/web/events", shown))
    async with asyncio.timeout(PATIENCE):
        await reader.readuntil(EVENT)
    return reader


async def is_torn(reader: asyncio.StreamReader) -> bool:
    """That it ends, and not as if all had been said."""
    async with asyncio.timeout(PATIENCE):
        try:
            await reader.read()
        except ConnectionResetError:
            return True
    return False


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("name", TOLD)
async def test_whatever_ends_a_login_ends_its_streams(
    database_url: str, redis_url: str, tmp_path: Path, name: str, framing: str
) -> None:
    async with (
        whole(database_url, redis_url, tmp_path, **RARELY) as proxy,
        streaming(proxy, framing) as events,
    ):
        kind, sql = TOLD[name]
        made = await create_token(
            proxy.conn, "alice", "all", [Scope.READ, Scope.WAKE], timedelta(days=1), by="test"
        )
        session, token = f"Cookie: codehub={proxy.secret}", f"Authorization: Bearer {made.secret}"
        theirs = await listen(proxy, session if kind == "session" else token)
        others = await listen(proxy, f"Cookie: codehub={await log_in(proxy.conn, 'bob')}")
        await proxy.conn.execute(
            f"{sql} WHERE {'id' if ' users ' in sql else 'user_id'} = "
            "(SELECT id FROM users WHERE name = 'alice')".encode()
        )
        assert await is_torn(theirs)
        await until(lambda: events.listeners == 1)
        assert not others.at_eof(), "nobody else's"


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_whose_workspace_it_was_loses_the_stream_and_an_admin_does_not(
    database_url: str, redis_url: str, tmp_path: Path, framing: str
) -> None:
    async with (
        whole(database_url, redis_url, tmp_path, **RARELY) as proxy,
        streaming(proxy, framing) as events,
    ):
        alices = await listen(proxy, proxy.cookie)
        bobs = await listen(proxy, f"Cookie: codehub={await log_in(proxy.conn, 'bob')}")
        await pass_on(proxy.conn, "carol", "web")
        assert await is_torn(alices)
        await until(lambda: events.listeners == 1)
        assert not bobs.at_eof()


async def test_one_that_begins_after_the_logout_is_ended_too(
    database_url: str, redis_url: str
) -> None:
    """It was let through by what was known a moment ago. Nothing is kept of what is over."""
    async with gate_world(database_url, redis_url) as world:
        await world.add(awake())
        await until(lambda: world.table.find("api"))
        asked = head(cookie=await world.log_in())
        hold = (await world.forward(asked)).hold
        assert hold is not None
        release = hold(lambda: None)
        assert (len(world.identities._open), len(world.table._open)) == (1, 1)
        release()
        assert (len(world.identities._open), len(world.table._open)) == (0, 0)
        await world.conn.execute("UPDATE sessions SET revoked_at = now()")
        await until(lambda: not world.identities._known.claims())
        ended = asyncio.Event()
        hold(ended.set)
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
