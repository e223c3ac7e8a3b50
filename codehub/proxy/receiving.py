"""The body of a request on its way in: brought to whoever wants it, within limits of size and time.

What came with the head waits until somebody does; 100 Continue is said then, and not before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from codehub.proxy.connection import NEVER, Connection, State
from codehub.proxy.framing import Bad
from codehub.proxy.replies import CONTINUE

if TYPE_CHECKING:
    from codehub.proxy.bodies import ChunkReader, LengthReader
    from codehub.proxy.connection import Work
    from codehub.proxy.parsing import Request
    from codehub.proxy.server import Server

_HOLD: Final = int(State.HOLD)
_BODY: Final = int(State.BODY)


class Receiving(Connection, ABC):
    """A client's connection, and the body that comes on it."""

    __slots__ = ("_body", "_body_size", "_request")

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._request: Request | None = None
        self._body: LengthReader | ChunkReader | None = None
        """Follows the request's body as long as it is not whole."""
        self._body_size = 0

    @property
    def body_is_in(self) -> bool:
        return self._body is None

    def want_body(self, work: Work, *, within: float = NEVER) -> None:
        """Bring the request's body to this work, from now on; all of it `within` these seconds."""
        request, self._work = self._request, work
        self._state = _BODY
        self._body_size = 0
        self._reset_deadline()
        self.body_by = self.server.now + within
        if request is not None and request.expects:
            self.transport.write(CONTINUE)
        data, self._buffer = self._buffer, b""
        if data:
            self._take_body(data)
        self._let_more()

    def _take_body(self, data: bytes) -> None:
        body, work = self._body, self._work
        if body is None or work is None:
            return
        try:
            piece = body.feed(data)
            self._measure(piece)
        except Bad as bad:
            self._stop(bad.status, bad.reason)
            return
        self.deadline = self.server.now + self.server.limits.stall_seconds
        if body.rest is not None:
            self._buffer, self._body, self._state = body.rest, None, _HOLD
            self.trailers = body.trailers
            self.body_by = NEVER
            self._reset_deadline()
        if piece or self._body is None:
            work.body(piece, last=self._body is None)

    def _measure(self, piece: bytes) -> None:
        self._body_size += len(piece)
        most = self.server.limits.body_bytes
        if most is not None and self._body_size > most:
            raise Bad(413, "the body is too large")

    def _stop(self, status: int, reason: str) -> None:
        """In the middle of a request: a refusal, unless an answer has begun."""
        if self._work is not None and self._work.begun:
            self.abort()
        else:
            self.refuse(status, reason)

    @abstractmethod
    def refuse(self, status: int, reason: str) -> None:
        """Say what is wrong, and that this was the last word."""
