"""Connections to workspaces: each reads one answer at a time, then waits in the pool.

What comes while nobody has asked ends the connection: it must not become the answer to the next
request.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from codehub.proxy.bodies import ChunkReader
from codehub.proxy.framing import CHUNKED, UNTIL_CLOSE, Bad, looks_wrong
from codehub.proxy.parsing import END, Response, ResponseParser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.proxy.exchange import Exchange
    from codehub.proxy.pool import Address, Pool
    from codehub.proxy.seam import Header

HEAD_LIMIT: Final = 64 * 1024
"""Of an answer; a workspace may say a little more than a client."""
MOST_INTERIM: Final = 16
"""Interim answers before the answer."""

_HEAD: Final = -3
"""No body is being read: a head is next, or nothing at all."""


class Link(asyncio.Protocol):
    """One connection to a workspace, with at most one exchange on it."""

    __slots__ = (
        *("_buffer", "_chunks", "_interim", "_left", "_parser", "_pool", "_reusable"),
        *("address", "exchange", "since", "transport", "used"),
    )

    def __init__(self, pool: Pool, address: Address) -> None:
        self._pool = pool
        self.address = address
        self.transport: asyncio.Transport
        self.exchange: Exchange | None = None
        self.used = False
        """Whether it has served a request before."""
        self.since = 0.0
        """When it was given back."""
        self._buffer = b""
        self._interim = 0
        self._left = _HEAD
        """Bytes to come of the answer's body, or how it is framed."""
        self._chunks = ChunkReader()
        self._parser = ResponseParser()
        self._reusable = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        exchange, left = self.exchange, self._left
        if exchange is None:
            self.transport.abort()
        elif left == _HEAD:
            self._read_head(self._buffer + data if self._buffer else data, exchange)
        elif left > len(data):
            self._left = left - len(data)
            exchange.piece(data)
        else:
            self._read_body(data, exchange)

    def eof_received(self) -> None:
        self._end(closed=True)
        self.transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        self._end(closed=False)
        self._pool.lost(self)

    def pause_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.hold_body()

    def resume_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.let_body()

    def _end(self, *, closed: bool) -> None:
        """The workspace has `closed` the connection, or it broke, which is no answer's end."""
        exchange, self.exchange = self.exchange, None
        if exchange is None:
            return
        if self._left == UNTIL_CLOSE and closed:
            exchange.ended(reusable=False)
        else:
            exchange.broken(silent=self._left == _HEAD and not self._buffer and not self._interim)

    def _read_head(self, data: bytes, exchange: Exchange) -> None:
        try:
            response = self._answer(data)
        except Bad:
            self._refuse(exchange)
            return
        if response is None:
            return
        rest, self._buffer = self._buffer, b""
        if response.status == 101:
            exchange.switched(response, rest)
            return
        left = exchange.body_length(response)
        self._reusable = response.keep_alive and left != UNTIL_CLOSE
        if 0 <= left <= len(rest):
            self._reusable = self._reusable and left == len(rest)
            exchange.begin(response, rest[:left])
            self._finish(exchange)
            return
        self._left = left
        exchange.begin(response, b"")
        if rest and self.exchange is exchange:
            self._read_body(rest, exchange)

    def _answer(self, data: bytes) -> Response | None:
        """The head of the answer proper, and what follows it in the buffer; None if not here yet.

        Interim answers end here: what they are good for is between us and the workspace.
        """
        while (end := data.find(END)) >= 0:
            if end > HEAD_LIMIT:
                break
            response = self._parser.parse(data[: end + 4])
            data = data[end + 4 :]
            if response.status >= 200 or response.status == 101:
                self._buffer, self._interim = data, 0
                return response
            self._interim += 1
        self._buffer = data
        if len(data) > HEAD_LIMIT or self._interim > MOST_INTERIM or looks_wrong(data, b"HTTP/1."):
            raise Bad(502, "the answer cannot be read")
        return None

    def _read_body(self, data: bytes, exchange: Exchange) -> None:
        """What completes a body of known length, or a piece of one of another framing."""
        left = self._left
        if left == UNTIL_CLOSE:
            exchange.piece(data)
        elif left == CHUNKED:
            self._read_chunks(data, exchange)
        elif left > len(data):
            self._left = left - len(data)
            exchange.piece(data)
        else:
            self._reusable = self._reusable and left == len(data)
            exchange.piece(data[:left])
            self._finish(exchange)

    def _read_chunks(self, data: bytes, exchange: Exchange) -> None:
        try:
            piece = self._chunks.feed(data)
        except Bad:
            self._refuse(exchange)
            return
        if piece:
            exchange.piece(piece)
        if self._chunks.rest is not None and self.exchange is exchange:
            self._reusable = self._reusable and not self._chunks.rest
            self._finish(exchange)

    def _finish(self, exchange: Exchange) -> None:
        if self.exchange is not exchange:  # it was given up meanwhile
            return
        self.exchange = None
        trailers: Sequence[Header] = ()
        if self._left == CHUNKED:
            trailers, self._chunks = self._chunks.trailers, ChunkReader()
        self._left = _HEAD
        exchange.ended(reusable=self._reusable, trailers=trailers)

    def _refuse(self, exchange: Exchange) -> None:
        self.exchange = None
        self.transport.abort()
        exchange.broken(silent=False)
