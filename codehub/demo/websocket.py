"""The server's side of RFC 6455, by hand: the demo needs nothing but Python.

Text and binary messages, fragments, ping, pong and close; masking is required, extensions are not
offered, and frames, messages and the number of fragments have limits.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import struct
from contextlib import suppress
from enum import IntEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from codehub.demo.messages import Bad, Response

if TYPE_CHECKING:
    from codehub.demo.messages import Request

MAX_MESSAGE: Final = 256 * 2**10
MAX_FRAGMENTS: Final = 256
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_SPOKEN: Final = {"Upgrade": "websocket", "Sec_WebSocket_Version": "13"}
_CLOSE_SECONDS: Final = 2


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class Code(IntEnum):
    """Why a connection closes."""

    NORMAL = 1000
    PROTOCOL_ERROR = 1002
    INVALID_TEXT = 1007
    TOO_BIG = 1009


class Broken(Exception):
    """The peer broke the protocol or a limit; the connection closes with `code`."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _Closed(Exception):
    """The peer has closed."""


def accept(request: Request) -> Response:
    """The answer that turns this connection into a WebSocket; Bad when it must not become one."""
    if not (
        request.has_token("connection", "upgrade") and request.has_token("upgrade", "websocket")
    ):
        raise Bad(HTTPStatus.UPGRADE_REQUIRED, "this address speaks WebSocket", **_SPOKEN)
    if request.headers.get("sec-websocket-version") != "13":
        raise Bad(HTTPStatus.UPGRADE_REQUIRED, "only version 13 is spoken here", **_SPOKEN)
    if not is_same_origin(request):
        raise Bad(HTTPStatus.FORBIDDEN, "another site may not connect")
    key = request.headers.get("sec-websocket-key", "")
    try:
        if len(base64.b64decode(key, validate=True)) != 16:
            raise binascii.Error
    except (binascii.Error, ValueError):
        raise Bad(HTTPStatus.BAD_REQUEST, "the key is not 16 bytes in base64") from None
    proof = base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": proof}
    return Response(HTTPStatus.SWITCHING_PROTOCOLS, headers=headers)


def is_same_origin(request: Request) -> bool:
    """A browser tells which site asks; a proxy in front may have changed the Host."""
    origin = request.headers.get("origin")
    if origin is None:
        return True
    hosts = {request.headers.get(name) for name in ("host", "x-forwarded-host")}
    return urlsplit(origin).netloc in hosts - {None}


class WebSocket:
    """Messages over an accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._closed = False

    async def receive(self) -> str | bytes | None:
        """The next message; None when the connection has ended, for whatever reason."""
        try:
            opcode, payload = await self._message()
            return _decode(payload) if opcode == Opcode.TEXT else payload
        except Broken as broken:
            await self.close(broken.code, broken.reason)
        except (_Closed, asyncio.IncompleteReadError, ConnectionError):
            pass
        return None

    async def send(self, message: str | bytes) -> None:
        text = isinstance(message, str)
        payload = message.encode() if isinstance(message, str) else message
        await self._write(Opcode.TEXT if text else Opcode.BINARY, payload)

    async def close(self, code: Code = Code.NORMAL, reason: str = "") -> None:
        """Say goodbye and hear the other side's, or stop waiting for it."""
        await self._say_close(code, reason)
        with suppress(Broken, _Closed, asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while True:
                    await self._frame()

    async def _message(self) -> tuple[int, bytes]:
        """Put fragments together; answer the control frames between them."""
        kind, parts, size = None, list[bytes](), 0
        while True:
            final, opcode, payload = await self._frame(room=MAX_MESSAGE - size)
            if (opcode == Opcode.CONTINUATION) != (kind is not None):
                raise Broken(Code.PROTOCOL_ERROR, "fragments out of order")
            kind = opcode if kind is None else kind
            parts.append(payload)
            size += len(payload)
            if final:
                return kind, b"".join(parts)
            if len(parts) >= MAX_FRAGMENTS:
                raise Broken(Code.TOO_BIG, "too many fragments")

    async def _frame(self, room: int = MAX_MESSAGE) -> tuple[bool, int, bytes]:
        """The next data frame; control frames before it are answered."""
        while True:
            final, opcode, payload = await self._read_frame(room)
            if opcode == Opcode.CLOSE:
                await self._say_close(*_check_close(payload))
                raise _Closed
            if opcode == Opcode.PING:
                await self._write(Opcode.PONG, payload)
            elif opcode != Opcode.PONG:
                return final, opcode, payload

    async def _read_frame(self, room: int) -> tuple[bool, int, bytes]:
        first, second = await self._reader.readexactly(2)
        final, opcode, length = bool(first & 0x80), first & 0x0F, second & 0x7F
        if first & 0x70 or opcode not in set(Opcode):
            raise Broken(Code.PROTOCOL_ERROR, "an unknown kind of frame")
        if not second & 0x80:
            raise Broken(Code.PROTOCOL_ERROR, "a client's frames are masked")
        if opcode >= Opcode.CLOSE and (length > 125 or not final):
            raise Broken(Code.PROTOCOL_ERROR, "a control frame is short and whole")
        if length == 126:
            (length,) = struct.unpack("!H", await self._reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self._reader.readexactly(8))
        if length > room and opcode < Opcode.CLOSE:
            raise Broken(Code.TOO_BIG, "the message is too long")
        mask = await self._reader.readexactly(4)
        return final, opcode, unmask(await self._reader.readexactly(length), mask)

    async def _say_close(self, code: int, reason: str) -> None:
        if self._closed:
            return
        payload = struct.pack("!H", code) + reason.encode()[:123]
        with suppress(ConnectionError):
            await self._write(Opcode.CLOSE, payload)
        self._closed = True

    async def _write(self, opcode: Opcode, payload: bytes) -> None:
        if self._closed:
            return
        self._writer.write(encode_frame(opcode, payload))
        await self._writer.drain()


def encode_frame(opcode: Opcode, payload: bytes) -> bytes:
    """One whole frame as a server sends it: not masked, not in parts."""
    first, length = 0x80 | opcode, len(payload)
    if length < 126:
        return struct.pack("!BB", first, length) + payload
    if length < 2**16:
        return struct.pack("!BBH", first, 126, length) + payload
    return struct.pack("!BBQ", first, 127, length) + payload


def unmask(payload: bytes, mask: bytes) -> bytes:
    """XOR with the repeated mask, as one large number: quick without a dependency."""
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


def _decode(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise Broken(Code.INVALID_TEXT, "text is UTF-8") from None


def _check_close(payload: bytes) -> tuple[int, str]:
    """What to answer to a close frame: its own code, if it may be sent at all."""
    if not payload:
        return Code.NORMAL, ""
    if len(payload) == 1:
        raise Broken(Code.PROTOCOL_ERROR, "half a code")
    (code,) = struct.unpack("!H", payload[:2])
    _decode(payload[2:])
    if not (code in {1000, 1001, 1002, 1003} or 1007 <= code <= 1014 or 3000 <= code <= 4999):
        raise Broken(Code.PROTOCOL_ERROR, "a code that is never sent")
    return code, ""
