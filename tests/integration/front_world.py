"""A front over a real database and Redis, the real demo behind it, and clients of raw HTTP."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.model.runtime import Upstream
from codehub.model.states import DesiredState, IntentSource, Phase
from codehub.model.workspace import Intent, Status
from codehub.proxy.activity import ActivityBuffer
from codehub.proxy.front import Front
from codehub.proxy.routes import Routes
from codehub.proxy.wake import waker
from codehub.store.connect import connect
from codehub.store.pool import Pool
from tests.integration.stored import insert
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace

    Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PATIENCE = 60
HTML = {"Accept": "text/html"}


@dataclass(frozen=True)
class Answer:
    """What a client got, as it was sent; chunks are put together."""

    status: int
    headers: dict[str, str]
    body: bytes
    raw: bytes = b""


@dataclass
class FrontWorld:
    """A front that listens on `port`. `upstreams` says where workspaces answer."""

    port: int
    front: Front
    conn: AsyncConnection[DictRow]
    pool: Pool
    signals: RedisSignals
    pages: Path
    upstreams: dict[UUID, Upstream] = field(default_factory=dict)
    servers: list[asyncio.Server] = field(default_factory=list)

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def say(self, data: bytes) -> Answer:
        """Send these bytes and take what comes until the connection ends."""
        reader, writer = await self.open()
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(data)
                return parsed(await reader.read())
        finally:
            writer.close()

    async def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named = {"Host": f"localhost:{self.port}"} | named
        lines = [f"{method} {path} HTTP/1.1", *(f"{key}: {each}" for key, each in named.items())]
        return await self.say("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """The same through the standard library's client."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await asyncio.to_thread(_ask, self.port, method, path, body, named)

    async def add(self, *workspaces: Workspace) -> None:
        await insert(self.conn, *workspaces)

    async def serve(self, handler: Handler, name: str = "api", **declared: Any) -> None:
        """A running workspace whose port this handler answers."""
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        self.servers.append(server)
        await self.run(name, Upstream(*server.sockets[0].getsockname()), **declared)

    async def run(self, name: str, upstream: Upstream | None, **declared: Any) -> Workspace:
        """A running workspace that answers there."""
        one = running(name, **declared)
        await self.add(one)
        if upstream is not None:
            self.upstreams[one.id] = upstream
        return one


def running(name: str = "api", number: int = 1, **declared: Any) -> Workspace:
    return workspace(name, number=number, status=Status(Phase.RUNNING), **declared)


def asleep(
    name: str = "api", number: int = 1, phase: Phase = Phase.STANDBY, **more: Any
) -> Workspace:
    lowered = Intent(DesiredState(phase.value), IntentSource.TTL)
    return workspace(name, number=number, intent=lowered, status=Status(phase), **more)


async def until(condition: Callable[[], object]) -> None:
    """Returns once it holds; somebody else is at work on it."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (what is waited for tells nobody)
            await asyncio.sleep(0.01)


@asynccontextmanager
async def front_world(
    database_url: str, redis_url: str, pages: Path, **settings: Any
) -> AsyncIterator[FrontWorld]:
    signals = RedisSignals(redis_url, prefix=f"front-{uuid4().hex}")
    upstreams: dict[UUID, Upstream] = {}

    async def find(workspace_id: UUID) -> Upstream | None:
        return upstreams.get(workspace_id)

    async with Pool(database_url) as pool, await connect(database_url) as conn:
        front = Front(
            routes=Routes(pool, find),
            pages=pages,
            activity=ActivityBuffer(signals, pool, Settings(**settings)),
            wake=waker(pool),
            port=0,
        )
        port = await front.start()
        world = FrontWorld(port, front, conn, pool, signals, pages, upstreams)
        try:
            yield world
        finally:
            await front.stop()
            for server in world.servers:
                server.close()
            await signals.close()


def parsed(raw: bytes) -> Answer:
    """The last response in these bytes (an interim one may stand before it)."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    status = int(first.split(" ")[1]) if first else 0
    if 100 < status < 200 or not first:
        return Answer(status, {}, body, raw)
    if status == 100:
        return Answer(parsed(body).status, parsed(body).headers, parsed(body).body, raw)
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        before = headers.get(name.lower())
        headers[name.lower()] = value if before is None else f"{before}, {value}"
    if headers.get("transfer-encoding") == "chunked":
        body = _unchunked(body)
    return Answer(status, headers, body, raw)


def _unchunked(data: bytes) -> bytes:
    found: list[bytes] = []
    while True:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            assert data == b"\r\n"
            return b"".join(found)
        found.append(data[:length])
        assert data[length : length + 2] == b"\r\n"
        data = data[length + 2 :]


def _ask(port: int, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, named, response.read())
    finally:
        connection.close()


@contextmanager
def demo_workspace(home: Path, base_path: str) -> Iterator[Upstream]:
    """The real demo in its own process, ended by its own pid."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "codehub.demo"],
        env={**os.environ, "PORT": str(port), "HOME": str(home), "CODEHUB_BASE_PATH": base_path},
        stdout=subprocess.DEVNULL,
    )
    try:
        _until_answers(port)
        yield Upstream("127.0.0.1", port)
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def _until_answers(port: int) -> None:
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise TimeoutError(f"nothing answers on port {port}")
