"""Bodies: how long they are, and how they get from one connection to the other.

A body is read by its framing and framed anew, piece by piece: nothing waits in memory but one
piece and what the sockets hold, and a slow reader slows the writer.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from codehub.proxy.wire import HEAD_LIMIT, Bad, read_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.proxy.wire import Head

PIECE: Final = 64 * 1024
_CHUNK: Final = re.compile(r"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_BODILESS: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Cut(Exception):
    """The stream ended in the middle of a body."""


@dataclass(frozen=True, slots=True)
class Framing:
    """`length` bytes, or in chunks, or (with neither) until the connection ends."""

    length: int | None = None
    chunked: bool = False

    @property
    def empty(self) -> bool:
        return self.length == 0


NOTHING: Final = Framing(0)
CHUNKED: Final = Framing(chunked=True)
UNTIL_END: Final = Framing()


def request_framing(head: Head) -> Framing:
    """How a request's body is framed; anything that could be read in two ways is refused."""
    return _framing(head, HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_IMPLEMENTED) or NOTHING


def response_framing(head: Head, *, method: str, status: int) -> Framing:
    """How a response's body is framed; it depends on what was asked, too."""
    refused = HTTPStatus.BAD_GATEWAY
    found = _framing(head, refused, refused) or UNTIL_END
    return NOTHING if method == "HEAD" or status in _BODILESS else found


def _framing(head: Head, broken: HTTPStatus, unknown: HTTPStatus) -> Framing | None:
    encodings, lengths = head.all("transfer-encoding"), head.all("content-length")
    if encodings and lengths:
        raise Bad(broken, "a message has a length or an encoding, not both")
    if encodings:
        if [each.lower() for each in encodings] != ["chunked"]:
            raise Bad(unknown, "the only transfer encoding is chunked")
        return CHUNKED
    if not lengths:
        return None
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise Bad(broken, "the Content-Length is not one number")
    return Framing(int(lengths[0]))


async def copy(
    source: asyncio.StreamReader,
    sink: asyncio.StreamWriter,
    framing: Framing,
    *,
    idle: float | None = None,
) -> None:
    """The whole body; where its length is not known, in chunks of our own.

    Raises TimeoutError when nothing moves for `idle` seconds.
    """
    in_chunks = framing.length is None
    async with asyncio.timeout(idle) as limit:
        async for piece in pieces(source, framing):
            sink.write(b"%x\r\n%b\r\n" % (len(piece), piece) if in_chunks else piece)
            await sink.drain()
            if idle is not None:
                limit.reschedule(asyncio.get_running_loop().time() + idle)
        if in_chunks:
            sink.write(b"0\r\n\r\n")
        await sink.drain()


async def pieces(source: asyncio.StreamReader, framing: Framing) -> AsyncIterator[bytes]:
    """The body's bytes as they come. Raises Cut when the stream ends too early."""
    if framing.chunked:
        async for piece in _chunks(source):
            yield piece
    elif framing.length is None:
        while piece := await source.read(PIECE):
            yield piece
    else:
        async for piece in _exactly(source, framing.length):
            yield piece


async def _exactly(source: asyncio.StreamReader, left: int) -> AsyncIterator[bytes]:
    while left:
        piece = await source.read(min(left, PIECE))
        if not piece:
            raise Cut
        left -= len(piece)
        yield piece


async def _chunks(source: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := await _chunk_size(source):
        async for piece in _exactly(source, size):
            yield piece
        if await _line(source, 2) != "":
            raise Bad(HTTPStatus.BAD_REQUEST, "a chunk is longer than it says")
    room = HEAD_LIMIT
    while trailer := await _line(source, room):
        # Trailers are hop-by-hop unless both ends agreed on them: they end here.
        room -= len(trailer) + 2


async def _chunk_size(source: asyncio.StreamReader) -> int:
    match = _CHUNK.fullmatch(await _line(source, 1024))
    if match is None:
        raise Bad(HTTPStatus.BAD_REQUEST, "a chunk's size cannot be read")
    return int(match[1], 16)


async def _line(source: asyncio.StreamReader, room: int) -> str:
    line = await read_line(source, room)
    if line is None:
        raise Cut
    return line
