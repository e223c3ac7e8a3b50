"""Heads of HTTP/1.1 messages: read strictly, line by line, and never passed on as they came.

Whatever two programs could read differently (bare line feeds, folded headers, spaces before a
colon, control characters) is refused, so nothing can be smuggled past the front.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEAD_LIMIT: Final = 32 * 1024
"""Bytes of a head; also how far a stream reads ahead, so that what waits in memory stays small."""

HOP_BY_HOP: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te"),
        *("proxy-connection", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers that are about one connection only."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIRST: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (/[\x21-\x7e\x80-\xff]*) HTTP/1\.1")
_STATUS: Final = re.compile(r"HTTP/1\.[01] ([1-9][0-9][0-9])(?: ([\t\x20-\x7e\x80-\xff]*))?")
_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

Headers = tuple[tuple[str, str], ...]


class Bad(Exception):
    """A message that must not be understood; a client is told so with `status`."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the headers in their order, as they were sent."""

    first: str
    headers: Headers

    def all(self, name: str) -> list[str]:
        """Every value under a name in small letters."""
        return [value for key, value in self.headers if key.lower() == name]

    def get(self, name: str) -> str | None:
        """The first value under a name in small letters."""
        return next(iter(self.all(name)), None)

    def tokens(self, name: str) -> frozenset[str]:
        """The words of a comma-separated header, in small letters."""
        parts = (part for value in self.all(name) for part in value.split(","))
        return frozenset(part.strip().lower() for part in parts) - {""}


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for. `target` is the path and query, byte for byte."""

    method: str
    target: str
    head: Head

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def upgrade(self) -> bool:
        """Whether it asks for a WebSocket."""
        asks = "upgrade" in self.head.tokens("connection")
        return self.method == "GET" and asks and self.head.tokens("upgrade") == {"websocket"}


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head; None when the other side ended before it was whole."""
    lines: list[str] = []
    room = HEAD_LIMIT
    while True:
        line = await read_line(reader, room)
        if line is None:
            return None
        room -= len(line) + 2
        if line == "":
            break
        lines.append(line)
    if not lines:
        raise Bad(HTTPStatus.BAD_REQUEST, "the message has no first line")
    return Head(lines[0], tuple(_header(line) for line in lines[1:]))


async def read_line(reader: asyncio.StreamReader, room: int) -> str | None:
    """One line without its end, which must be CR LF; None at the end of the stream."""
    try:
        raw = await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raw = b""
    if not raw or len(raw) > room:
        raise Bad(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too large")
    line = raw[:-2].decode("latin-1")
    if not raw.endswith(b"\r\n") or _FORBIDDEN.search(line):
        raise Bad(HTTPStatus.BAD_REQUEST, "a line of the head has a character it must not have")
    return line


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN.fullmatch(name):
        raise Bad(HTTPStatus.BAD_REQUEST, "a header cannot be read")
    return name, value.strip(" \t")


def parse_request(head: Head) -> Request:
    """The request that a head makes."""
    match = _FIRST.fullmatch(head.first)
    if match is None:
        version = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
        other = re.search(r" HTTP/[0-9.]+$", head.first)
        if other and other[0] != " HTTP/1.1":
            raise Bad(version, "only HTTP/1.1 is spoken here")
        raise Bad(HTTPStatus.BAD_REQUEST, "this is not an HTTP/1.1 request")
    if len(head.all("host")) != 1:
        raise Bad(HTTPStatus.BAD_REQUEST, "a request has exactly one Host header")
    return Request(match[1], match[2], head)


def parse_status(head: Head) -> tuple[int, str]:
    """Number and words of a response's first line."""
    match = _STATUS.fullmatch(head.first)
    if match is None:
        raise Bad(HTTPStatus.BAD_GATEWAY, "the answer is not HTTP/1.1")
    return int(match[1]), match[2] or ""


def kept_headers(head: Head, without: Iterable[str] = ()) -> Headers:
    """The headers that go on to the next hop: none that is about this connection."""
    dropped = HOP_BY_HOP | head.tokens("connection") | frozenset(without)
    return tuple(each for each in head.headers if each[0].lower() not in dropped)


def write_head(first: str, headers: Sequence[tuple[str, str]]) -> bytes:
    """A head written anew from parts that were read strictly."""
    lines = [first, *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")
