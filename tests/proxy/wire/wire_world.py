"""A server on the wire between raw sockets: clients that say any bytes, workspaces that do too."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codehub.model.runtime import Upstream
from codehub.proxy.frames import accept_key
from codehub.proxy.seam import Answer, Forward
from codehub.proxy.server import Server
from codehub.proxy.wire_limits import WireLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from codehub.proxy.seam import RequestHead, Verdict

    Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PATIENCE = 60
MIB = 2**20
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET /%b HTTP/1.1\r\nHost: hub.test\r\n\r\n"
KEY = base64.b64encode(b"0123456789abcdef")
HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: hub.test\r\nConnection: keep-alive, Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n"
    b"Sec-WebSocket-Protocol: chat, other\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
) % KEY
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: %b\r\nSec-WebSocket-Protocol: chat\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
) % accept_key(KEY)


@dataclass
class Seen:
    """A watcher that remembers."""

    answers: list[int] = field(default_factory=list)
    moves: int = 0
    ends: list[bool] = field(default_factory=list)
    frames: list[tuple[int, int, bytes, bool]] = field(default_factory=list)
    hang_up: Callable[[], None] | None = None
    closed_times: int = 0

    def answered(self, status: int) -> None:
        self.answers.append(status)

    def moving(self, *, ends: bool) -> None:
        self.moves += 1
        self.ends.append(ends)

    def frame(self, opcode: int, length: int, first: bytes, *, from_client: bool) -> None:
        self.frames.append((opcode, length, first, from_client))

    def opened(self, hang_up: Callable[[], None]) -> None:
        self.hang_up = hang_up

    def closed(self) -> None:
        self.closed_times += 1


class OpenGate:
    """Forwards everything, unless a test says otherwise."""

    def __init__(self) -> None:
        self.upstream = Upstream("127.0.0.1", 1)
        self.base = b""
        self.script: bytes | None = None
        self.forbidden: frozenset[bytes] = frozenset()
        self.own = False
        self.failed: Callable[[], Awaitable[Answer]] | None = None
        self.seen = Seen()
        self.held: dict[Callable[[], None], None] = {}
        """Answers that last: how each of them is broken off."""
        self.heads: list[RequestHead] = []
        self.verdict: Callable[[RequestHead], Verdict] = self.forward

    def judge(self, head: RequestHead) -> Verdict:
        self.heads.append(head)
        return self.verdict(head)

    def forward(self, head: RequestHead) -> Forward:
        return Forward(
            self.upstream,
            head.target.removeprefix(self.base),
            self.base,
            [each for each in head.headers if each[0].lower() != b"x-hidden"],
            self.seen,
            script=self.script,
            forbidden_cookies=self.forbidden,
            failed=self.failed,
            hold=self.hold,
            own=self.own,
        )

    def hold(self, hang_up: Callable[[], None]) -> Callable[[], None]:
        self.held[hang_up] = None
        return lambda: self.held.pop(hang_up, None)

    def refuse(self, head: RequestHead | None, status: int, reason: str) -> Answer:
        return Answer(status, [(b"Content-Type", b"text/plain")], f"{reason}\n".encode())


class Workspace:
    """Keeps the heads it got, and answers each with the next of its scripted answers.

    The last answer is given again and again. None closes the connection instead of answering.
    """

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = deque(answers or (OK,))
        self.heads: list[bytes] = []
        self.connections = 0
        self.ended = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self.answers.popleft() if len(self.answers) > 1 else self.answers[0]
                if answer is None:
                    break
                writer.write(answer)
                if _ends(answer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended += 1
            writer.close()

    @property
    def lines(self) -> list[str]:
        return self.heads[-1].decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")


def _ends(answer: bytes) -> bool:
    """Whether the end of the connection is the end of the answer, or is announced in it."""
    head = answer.partition(b"\r\n\r\n")[0].lower()
    framed = b"content-length" in head or b"transfer-encoding" in head or b" 204 " in head
    return not framed or b"connection: close" in head or head.startswith(b"http/1.0")


@dataclass
class Wire:
    """The server, its gate, and ways to talk to it."""

    server: Server
    gate: OpenGate
    port: int = 0
    servers: list[asyncio.Server] = field(default_factory=list)

    async def serve(self, handler: Handler) -> None:
        """Put a workspace behind the gate."""
        server = await asyncio.start_server(_quietly(handler), "127.0.0.1", 0)
        self.servers.append(server)
        self.gate.upstream = Upstream("127.0.0.1", server.sockets[0].getsockname()[1])

    async def open(self, address: str = "127.0.0.1") -> Talk:
        """A connection that comes from this address."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, limit=MIB, local_addr=(address, 0)
        )
        return Talk(reader, writer)

    async def say(self, raw: bytes) -> bytes:
        """Everything that comes back, until the connection ends."""
        async with self.talk() as talk:
            talk.send(raw)
            return await talk.rest()

    @asynccontextmanager
    async def talk(self, address: str = "127.0.0.1") -> AsyncIterator[Talk]:
        talk = await self.open(address)
        try:
            async with asyncio.timeout(PATIENCE):
                yield talk
        finally:
            await talk.close()

    async def status(self, raw: bytes) -> int:
        """The status of the first answer, on a connection of its own."""
        async with self.talk() as talk:
            talk.send(raw)
            return (await talk.answer()).status


@dataclass
class Got:
    """One answer as it came."""

    status: int
    head: bytes
    body: bytes

    def values(self, name: str) -> list[str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = [line.partition(": ") for line in lines]
        return [value for key, _, value in pairs if key.lower() == name.lower()]

    def value(self, name: str) -> str | None:
        return next(iter(self.values(name)), None)


@dataclass
class Talk:
    """One client's connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, raw: bytes) -> None:
        self.writer.write(raw)

    async def answer(self, *, bodiless: bool = False) -> Got:
        """The next answer on the connection."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
        got = Got(int(head.split(b" ")[1]), head, b"")
        if bodiless or got.status in (101, 204, 304) or got.status < 200:
            return got
        length = got.value("content-length")
        if got.value("transfer-encoding") == "chunked":
            got.body = await self._chunks()
        elif length is not None:
            got.body = await self.reader.readexactly(int(length))
        else:
            got.body = await self.reader.read()
        return got

    async def _chunks(self) -> bytes:
        found: list[bytes] = []
        while True:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            piece = await self.reader.readexactly(size + 2)
            assert piece.endswith(b"\r\n")
            if not size:
                return b"".join(found)
            found.append(piece[:-2])

    async def rest(self) -> bytes:
        """All that still comes; a connection that breaks has an end, too."""
        found = b""
        try:
            while piece := await self.reader.read(65536):
                found += piece
        except ConnectionError:
            pass
        return found

    async def close(self) -> None:
        self.writer.transport.abort()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


def _quietly(handler: Handler) -> Callable[..., Awaitable[None]]:
    """A workspace whose caller went away has nothing more to say about it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    return handle


@asynccontextmanager
async def wire(**limits: object) -> AsyncIterator[Wire]:
    """A server that listens, and a gate that forwards all to whatever `serve` puts behind it."""
    gate = OpenGate()
    server = Server(gate, WireLimits(**limits))  # type: ignore[arg-type]
    world = Wire(server, gate)
    world.port = await server.start()
    try:
        yield world
    finally:
        await server.drain(0)
        for each in world.servers:
            each.close()


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that is bound to happen."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
