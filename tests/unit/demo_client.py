"""A client for the tests of the demo: plain requests, and the client's side of RFC 6455."""

from __future__ import annotations

import asyncio
import base64
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from codehub.demo.server import Demo
from codehub.demo.websocket import unmask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
KEY = base64.b64encode(b"0123456789abcdef").decode()
UPGRADE = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Client:
    """One connection to the demo."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, method: str, path: str, *, body: bytes = b"", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.send(method, path, {"Content-Length": str(len(body)), **named}, body)
        return await self.answer(bodiless=method == "HEAD")

    async def send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: hub.test"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()

    async def answer(self, *, bodiless: bool = False) -> Answer:
        async with asyncio.timeout(30):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in map(_split, lines)}
            length = 0 if bodiless else int(headers.get("content-length", "0"))
            return Answer(int(first.split()[1]), headers, await self.reader.readexactly(length))

    async def upgrade(self, path: str, **changes: str | None) -> Answer:
        wanted = {**UPGRADE, **{name.replace("_", "-"): each for name, each in changes.items()}}
        headers = {name: value for name, value in wanted.items() if value is not None}
        await self.send("GET", path, headers, b"")
        return await self.answer()

    def frame(self, opcode: int, payload: bytes = b"", *, first: int = 0x80) -> None:
        """A masked frame, as a client sends it."""
        size, mask = len(payload), b"\x01\x02\x03\x04"
        length = struct.pack("!B", 0x80 | size) if size < 126 else struct.pack("!BQ", 0xFF, size)
        self.writer.write(bytes([first | opcode]) + length + mask + unmask(payload, mask))

    async def heard(self) -> tuple[int, bytes]:
        """The next frame of the server, which masks nothing and sends no fragments."""
        async with asyncio.timeout(30):
            first, length = await self.reader.readexactly(2)
            assert first & 0xF0 == 0x80
            assert not length & 0x80
            if length == 126:
                (length,) = struct.unpack("!H", await self.reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", await self.reader.readexactly(8))
            return first & 0x0F, await self.reader.readexactly(length)

    async def ended(self) -> bool:
        async with asyncio.timeout(30):
            return await self.reader.read() == b""


def _split(line: str) -> tuple[str, str, str]:
    return line.partition(":")


@asynccontextmanager
async def serving(home: Path, base_path: str = "/") -> AsyncIterator[Client]:
    demo = Demo(name="api", home=home, base_path=base_path, started_at=NOW)
    server = await asyncio.start_server(demo.serve, "127.0.0.1", 0, limit=2**16)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        server.close()
        await asyncio.gather(
            *(each for each in asyncio.all_tasks() if "serve" in repr(each.get_coro())),
            return_exceptions=True,
        )


@asynccontextmanager
async def talking(home: Path, path: str = "/echo") -> AsyncIterator[Client]:
    async with serving(home) as client:
        answer = await client.upgrade(path)
        assert answer.status == 101
        yield client
