"""A whole proxy in front of a workspace that writes down every byte it gets."""

from __future__ import annotations

import asyncio
import base64
import re
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.core.fingerprint import fingerprint
from codehub.model.access import Claim, Scope, Visitor, Way
from codehub.model.runtime import Upstream
from codehub.proxy.frames import accept_key, frame
from codehub.proxy.process import Listening, serve_proxy
from codehub.service.minting import new_secret
from codehub.service.recognising import recognise
from codehub.service.tokens import create_token
from codehub.store.access import find_account
from codehub.store.connect import connect
from codehub.store.sessions import add_session
from tests.integration.relay import Relay
from tests.integration.stored import insert
from tests.proxy.gate_world import awake, people

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

PATIENCE = 60
DAY = timedelta(days=1)
TEXT = 0x81
"""How a frame of text begins."""
KEY = base64.b64encode(b"0123456789abcdef")
PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: codehub=stolen; Path=/\r\n"
    b"Set-Cookie: __Host-codehub=stolen; Path=/; Secure\r\nSet-Cookie: own=1\r\n\r\nok"
)


@dataclass
class Workspace:
    """Answers everything with the same page, and a frame of a WebSocket with the same text."""

    port: int = 0
    heard: bytes = b""
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.heard += head
                if b"upgrade: websocket" in head.lower():
                    await self._switch(reader, writer)
                    return
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                self.heard += await reader.readexactly(int(length[1]) if length else 0)
                writer.write(PAGE)
        writer.close()

    async def _switch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: %b\r\n\r\n" % accept_key(KEY)
        )
        self.opened.set()
        while piece := await reader.read(1024):
            self.heard += piece
            if piece[0] == TEXT:
                writer.write(frame(1, unmasked(piece)))
        writer.close()


def unmasked(piece: bytes) -> bytes:
    """What one short frame of a client says."""
    mask, payload = piece[2:6], piece[6:]
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


@dataclass
class Whole:
    """The proxy's port, the workspace behind it, and what lets alice in, whose it is."""

    port: int
    workspace: Workspace
    secret: str
    token: str
    relay: Relay
    """Between the proxy and its database."""
    conn: AsyncConnection[DictRow]
    """The test's own, past the relay."""
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    """Of WebSockets, to be closed at the end."""

    async def ask(self, request: bytes) -> bytes:
        """One request on a connection of its own, and the whole answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            async with asyncio.timeout(PATIENCE):
                return await reader.read()
        finally:
            writer.close()

    def get(self, path: str, *headers: str, method: str = "GET") -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
        return "\r\n".join([*lines, "", ""]).encode()

    @property
    def cookie(self) -> str:
        return f"Cookie: theme=dark; codehub={self.secret}; own=2"

    async def socket(self, secret: str, *headers: str, name: str = "api") -> Socket:
        """A WebSocket to the workspace, once it is open."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        lines = [
            *(f"GET /w/{name}/ws HTTP/1.1", "Host: localhost", "Connection: Upgrade"),
            *("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Origin: http://localhost"),
            *(f"Sec-WebSocket-Key: {KEY.decode()}", f"Cookie: theme=dark; codehub={secret}"),
        ]
        writer.write("\r\n".join([*lines, *headers, "", ""]).encode())
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        return Socket(reader, writer)

    def hang_up(self) -> None:
        """Close what is still open."""
        for each in self.writers:
            each.close()


@dataclass
class Socket:
    """The client's end of a WebSocket."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ended_with(self) -> int:
        """The code with which it is closed, however long that takes."""
        async with asyncio.timeout(PATIENCE):
            first, length, *code = await self.reader.readexactly(4)
        assert (first, length >= 2) == (0x88, True), "this is no close frame"
        return int.from_bytes(bytes(code))

    async def echoes(self, text: bytes) -> bool:
        """Whether what is said here is said back."""
        self.writer.write(frame(1, text, masked=True))
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readexactly(2 + len(text)) == frame(1, text)


async def log_in(conn: AsyncConnection[DictRow], name: str = "alice") -> str:
    """The secret of a new session."""
    account, secret = await find_account(conn, name), new_secret()
    assert account is not None
    await add_session(conn, account.person.id, fingerprint(secret), Visitor(), DAY)
    return secret


async def csrf_of(conn: AsyncConnection[DictRow], secret: str) -> str:
    """What the hub's own pages send along for this session, in a header or a form."""
    claim = Claim(Way.SESSION, fingerprint(secret))
    return (await recognise(conn, [claim], DAY))[claim].identity.csrf


@asynccontextmanager
async def whole(
    database_url: str, redis_url: str, pages: Path, **chosen: Any
) -> AsyncIterator[Whole]:
    settings, workspace = Settings(**{"proxy_drain_seconds": 0, **chosen}), Workspace()
    server = await asyncio.start_server(workspace.serve, "127.0.0.1", 0)
    workspace.port = server.sockets[0].getsockname()[1]
    signals = RedisSignals(redis_url, prefix=f"whole-{uuid4().hex}")
    async with await connect(database_url) as conn, Relay(database_url) as relay:
        await people(conn)
        await insert(conn, awake("api", upstream=Upstream("127.0.0.1", workspace.port)))
        secret = await log_in(conn)
        made = await create_token(conn, "alice", "t", [Scope.WAKE], DAY, by="test")
        async with serve_proxy(settings, relay.url, signals, pages, Listening(port=0)) as port:
            proxy = Whole(port, workspace, secret, made.secret, relay, conn)
            try:
                yield proxy
            finally:
                proxy.hang_up()
    await signals.close()
    server.close()
