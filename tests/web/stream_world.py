"""A web application on a port, the coordinator's part in telling it, and people who follow."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from redis.asyncio import Redis
from redis.exceptions import RedisError

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.coordinator.hints import Hints
from codehub.coordinator.listen import EventListener
from codehub.coordinator.pace import Failures
from codehub.core.fingerprint import fingerprint
from codehub.model.access import Scope, Visitor
from codehub.proxy.process import Listening
from codehub.service.minting import new_secret
from codehub.service.tokens import create_token
from codehub.store.access import find_account
from codehub.store.connect import connect
from codehub.store.sessions import add_session
from codehub.web.process import serve_web
from tests.integration.stored import change
from tests.web.web_world import DAY, fill

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import timedelta

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

PATIENCE = 60
HOURLY = 3600.0
"""Nothing is looked for by the clock: what is learnt is learnt by being told."""
PATH = "/api/v1/events"
CONNECTIONS = """
SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()
"""


@dataclass(frozen=True)
class Event:
    kind: str
    data: Any
    id: str = ""

    @property
    def names(self) -> list[str]:
        """Of the workspaces in a part of a snapshot."""
        return sorted(each["name"] for each in self.data["items"])


class Follower:
    """The client's end of a stream, read as it comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self._text = b""

    async def start(self) -> None:
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        pairs = (line.partition(": ") for line in lines if line)
        self.headers = {name.lower(): value for name, _, value in pairs}

    async def next(self) -> Event:
        """The next event, beside heartbeats; `end` where the stream is over."""
        while (found := await self.anything()).kind == "heartbeat":
            pass
        return found

    async def anything(self) -> Event:
        async with asyncio.timeout(PATIENCE):
            while True:
                block, found, rest = self._text.partition(b"\n\n")
                if not found:
                    piece = await self._piece()
                    if not piece:
                        return Event("end", None)
                    self._text += piece
                    continue
                self._text = rest
                said = dict(line.split(": ", 1) for line in block.decode().split("\n"))
                if "event" in said:
                    return Event(said["event"], json.loads(said["data"]), said["id"])

    async def all(self) -> list[dict[str, Any]]:
        """The whole snapshot, which must be what comes next."""
        items: list[dict[str, Any]] = []
        while True:
            part = await self.next()
            assert (part.kind, part.data["first"]) == ("snapshot", not items), part
            items += part.data["items"]
            if part.data["last"]:
                return items

    async def until(self, kind: str) -> Event:
        """The next event of this kind."""
        while (found := await self.next()).kind != kind:
            assert found.kind != "end", f"it ended without {kind}"
        return found

    async def update_of(self, name: str, **values: object) -> dict[str, Any]:
        """The next update of a workspace that has these values."""
        while True:
            found = (await self.until("workspace_updated")).data
            if found["name"] == name and values.items() <= found.items():
                return dict(found)

    async def body(self) -> Any:
        """Of an answer that is no stream."""
        length = int(self.headers["content-length"])
        return json.loads(await self.reader.readexactly(length))

    def close(self) -> None:
        self.writer.close()

    async def _piece(self) -> bytes:
        try:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            return (await self.reader.readexactly(size + 2))[:-2]
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""


@dataclass
class StreamWorld:
    """The people and workspaces of `web_world.fill`, on a port."""

    url: str
    conn: AsyncConnection[DictRow]
    settings: Settings
    signals: RedisSignals
    port: int
    leaving: asyncio.Event
    followers: list[Follower] = field(default_factory=list)

    async def follow(self, shown: str, query: str = "", *headers: str, **more: Any) -> Follower:
        """Somebody who shows this begins to follow; `more` is said of the connection."""
        host = more.pop("host", "localhost")
        where = more if "sock" in more else {"host": "127.0.0.1", "port": self.port} | more
        follower = Follower(*await asyncio.open_connection(**where))
        lines = [f"GET {PATH}{query} HTTP/1.1", f"Host: {host}", shown, *headers]
        follower.writer.write("\r\n".join([*lines, "", ""]).encode())
        self.followers.append(follower)
        await follower.start()
        return follower

    async def tab(self, name: str, query: str = "", **more: Any) -> Follower:
        """A dashboard of somebody with a new login."""
        return await self.follow(await self.cookie(name), query, **more)

    async def let_in(self, shown: str, **more: Any) -> Follower:
        """Follow as soon as there is room for it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                follower = await self.follow(shown, **more)
                if follower.status == 200:
                    return follower
                follower.close()
                await asyncio.sleep(0.05)

    async def cookie(self, name: str, lasts: timedelta = DAY) -> str:
        account, secret = await find_account(self.conn, name), new_secret()
        assert account is not None
        await add_session(self.conn, account.person.id, fingerprint(secret), Visitor(), lasts)
        return f"Cookie: codehub={secret}"

    async def bearer(self, name: str, *scopes: Scope) -> str:
        """The header of a new token, which is called `program`."""
        made = await create_token(
            self.conn, name, "program", scopes or tuple(Scope), DAY, by="test"
        )
        return f"Authorization: Bearer {made.secret}"

    async def change(self, name: str, **columns: object) -> None:
        await change(self.conn, name, **columns)

    async def run(self, statement: str, *values: object) -> None:
        await self.conn.execute(statement.encode(), values or None)

    async def id_of(self, name: str) -> UUID:
        cursor = await self.conn.execute("SELECT id FROM workspaces WHERE name = %s", (name,))
        row = await cursor.fetchone()
        assert row is not None
        return UUID(str(row["id"]))

    async def connections(self) -> int:
        """To the database, everybody's."""
        row = await (await self.conn.execute(CONNECTIONS)).fetchone()
        assert row is not None
        return int(row["n"])


@asynccontextmanager
async def stream_world(
    url: str, redis_url: str, *, told: bool = True, between: str | None = None, **chosen: Any
) -> AsyncIterator[StreamWorld]:
    """`told`: a coordinator's listener tells of changes. `between` is the application's way to the
    database, where that is another than the test's."""
    own = f"t-{uuid4().hex}"
    plain: dict[str, Any] = {
        "redis_channel_sse_prefix": f"{own}:sse",
        "redis_channel_wake_prefix": f"{own}:wake",
        "web_look_seconds": HOURLY,
        "web_heartbeat_seconds": 600,
    }
    settings = Settings(**(plain | chosen))
    signals = RedisSignals(redis_url, prefix=own)
    leaving = asyncio.Event()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(signals.close)
        conn = await stack.enter_async_context(await connect(url))
        await fill(conn)
        if told:
            await stack.enter_async_context(_telling(url, signals, settings))
        serving = serve_web(settings, between or url, signals, Listening(port=0), leaving)
        port = await stack.enter_async_context(serving)
        await _is_heard(redis_url, f"{settings.redis_channel_sse_prefix}:nobody")
        world = StreamWorld(url, conn, settings, signals, port, leaving)
        try:
            yield world
        finally:
            for each in world.followers:
                each.close()
                with suppress(ConnectionError):
                    await each.writer.wait_closed()


async def _is_heard(redis_url: str, channel: str) -> None:
    """Once the application hears: whoever followed before that would get a second snapshot."""
    said = json.dumps({"event": "workspace_updated", "id": str(uuid4())})
    # Where there is no Redis, there is nothing to wait for.
    with suppress(RedisError):
        async with asyncio.timeout(PATIENCE), Redis.from_url(redis_url) as redis:
            while not await redis.publish(channel, said):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@asynccontextmanager
async def _telling(url: str, signals: RedisSignals, settings: Settings) -> AsyncIterator[None]:
    """The coordinator's listener, from the moment it listens."""
    listens = asyncio.Event()
    listener = EventListener(
        url,
        signals,
        Hints(),
        settings,
        Failures(),
        on_request=listens.set,
        on_change=lambda: None,
    )
    task = asyncio.create_task(listener.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await listens.wait()
        yield
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)
