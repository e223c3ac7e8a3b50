"""A client's connection, whatever is said on it: back-pressure, limits of time, and its end."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from enum import IntEnum
from socket import SO_LINGER, SOL_SOCKET
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.proxy.seam import Header
    from codehub.proxy.server import Server

HELD_LIMIT: Final = 64 * 1024
"""How much may wait of what is not wanted yet."""
NEVER: Final = float("inf")
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class State(IntEnum):
    """What the next bytes are."""

    HEAD = 0
    """The next request."""
    HOLD = 1
    """Not wanted yet: a request is being answered."""
    BODY = 2
    """For whoever wanted the request's body."""
    LINGER = 3
    """Thrown away until the client closes: all is said."""
    LEFT = 4
    """Nobody's: the connection is gone, or somebody else's."""


class Work(Protocol):
    """What is being done about a request."""

    begun: bool
    """Whether its answer is on its way."""

    def body(self, piece: bytes, *, last: bool) -> None:
        """Takes a piece of the request's body."""

    def hold_answer(self) -> None:
        """The client cannot be written to for now."""

    def let_answer(self) -> None:
        """Now it can."""

    def leave(self) -> None:
        """Nobody waits for the answer any more."""


class Connection(asyncio.Protocol):
    """One client's connection."""

    __slots__ = (
        *("_buffer", "_paused", "_state", "_work", "_write_left", "body_by", "deadline", "peer"),
        *("server", "trailers", "transport", "write_paused"),
    )

    def __init__(self, server: Server) -> None:
        self.server = server
        self.peer = ""
        self.transport: asyncio.Transport
        self.deadline = NEVER
        """When the server's sweep calls `overdue`."""
        self.body_by = NEVER
        """When it does so too, however fast the request's body comes meanwhile."""
        self.trailers: Sequence[Header] = ()
        """What came after the latest body in chunks, once that is whole."""
        self.write_paused = False
        self._state: int = State.HEAD
        self._buffer = b""
        self._work: Work | None = None
        self._paused = 0
        self._write_left = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if isinstance(name, tuple) else "unknown"
        self.deadline = self.server.now + self.server.limits.head_seconds

    def connection_lost(self, _: Exception | None) -> None:
        self._depart()

    def eof_received(self) -> None:
        # Whoever says that nothing more comes is most often gone: nobody works for them.
        if self._work is not None and self._work.begun:
            self.abort()
        else:
            self._depart()

    def _depart(self) -> None:
        work, self._work, self._state = self._work, None, State.LEFT
        self.deadline = NEVER
        if work is not None:
            work.leave()

    # Back-pressure

    def pause_writing(self) -> None:
        self.write_paused = True
        self.deadline = self.server.now + self.server.limits.stall_seconds
        if self._work is not None:
            self._work.hold_answer()

    def resume_writing(self) -> None:
        self.write_paused = False
        self._reset_deadline()
        if self._work is not None:
            self._work.let_answer()

    def hold(self, *, for_work: bool = False) -> None:
        """Stop reading: too much waits already, or the work cannot take more of the body."""
        if not self._paused:
            self.transport.pause_reading()
        self._paused |= 2 if for_work else 1

    def let(self, *, for_work: bool = False) -> None:
        """One reason less not to read."""
        before = self._paused
        self._paused &= ~(2 if for_work else 1)
        if before and not self._paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _let_more(self) -> None:
        """Read on, unless enough waits already: a request may be short, and much comes at once."""
        if len(self._buffer) <= HELD_LIMIT:
            self.let()

    def _let_all(self) -> None:
        if self._paused:
            self.let()
            self.let(for_work=True)

    # Time, and the end

    def _reset_deadline(self) -> None:
        """How long the client has for what is next."""
        limits, now = self.server.limits, self.server.now
        if self.write_paused or self._state == State.BODY:
            self.deadline = now + limits.stall_seconds
        elif self._state == State.HEAD:
            self.deadline = now + limits.idle_seconds
        elif self._state == State.LINGER:
            self.deadline = now + limits.linger_seconds
        else:
            self.deadline = NEVER

    def leave(self) -> bytes:
        """Give the connection away; what came early goes along."""
        self._work, self._state, self.deadline = None, State.LEFT, NEVER
        self._let_all()
        data, self._buffer = self._buffer, b""
        return data

    def abort(self) -> None:
        """End it at once. An answer that is half out must not look whole, so it is torn off."""
        if self._work is not None and self._work.begun:
            self.tear()
        self._depart()
        self.transport.abort()

    def tear(self) -> None:
        """Let the end of this connection be a reset: some answers last until its end."""
        sock = self.transport.get_extra_info("socket")
        with suppress(OSError):
            sock.setsockopt(SOL_SOCKET, SO_LINGER, _AT_ONCE)

    def _linger(self, *, heard: bool = False) -> None:
        """Say no more. Unless all was `heard`, hear the client out before closing.

        Closing on unread bytes would tear the answer away. Within TLS no direction can be ended by
        itself, so there the client has to close, or time does.
        """
        self._state = State.LINGER
        self._buffer = b""
        self._work = None
        self.body_by = NEVER
        self._reset_deadline()
        self._let_all()
        if heard:
            self.transport.close()
        elif self.transport.can_write_eof():
            with suppress(OSError):  # the client may have gone already
                self.transport.write_eof()

    def _stop_lingering(self) -> None:
        """Close, once what was said is out or does not get out."""
        left = self.transport.get_write_buffer_size()
        if left and left != self._write_left:
            self._write_left = left
            self.deadline = self.server.now + self.server.limits.stall_seconds
        elif left:
            self.abort()
        else:
            self.transport.close()
