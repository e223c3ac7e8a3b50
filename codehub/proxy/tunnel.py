"""A WebSocket after its handshake: bytes both ways, with an eye on the frames.

Each end writes what the other reads, and stops reading while the other cannot be written to.
Frames of our own (ping, close) go in between two frames of that direction, never into one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from codehub.proxy.frames import (
    GOING_AWAY,
    PING,
    POLICY,
    FrameScanner,
    accept_key,
    close_frame,
    frame,
)
from codehub.telemetry.instruments import TRAFFIC

if TYPE_CHECKING:
    from codehub.proxy.client import Client
    from codehub.proxy.parsing import Response
    from codehub.proxy.seam import RequestHead, Watcher
    from codehub.proxy.server import Server
    from codehub.proxy.upstream import Link

_PING: Final = frame(PING)
_ACCEPT: Final = b"sec-websocket-accept"


def agrees(asked: RequestHead, response: Response) -> bool:
    """Whether a workspace has understood the handshake, and not just repeated words."""
    proofs = [value for name, value in response.headers if name.lower() == _ACCEPT]
    upgrade = response.tokens(b"upgrade") == {b"websocket"}
    says_so = b"upgrade" in response.tokens(b"connection")
    key = asked.get(b"sec-websocket-key") or b""
    return upgrade and says_so and proofs == [accept_key(key)]


class End(asyncio.Protocol):
    """One connection of a tunnel; what it reads goes to `other`."""

    __slots__ = ("_before", "_last_words", "_scanner", "_tunnel", "other", "transport")

    def __init__(
        self, tunnel: Tunnel, before: Client | Link, watcher: Watcher, *, client: bool
    ) -> None:
        self._tunnel = tunnel
        self._before = before
        """Whose connection it was until the handshake: it keeps count of them."""
        self.transport = before.transport
        self.other = self.transport
        self._scanner = FrameScanner(watcher, from_client=client)
        self._last_words: bytes | None = None
        """A close frame that waits for the end of the frame on its way."""

    @property
    def between(self) -> bool:
        return self._scanner.between

    def data_received(self, data: bytes) -> None:
        self._tunnel.moved = True
        if self._last_words is not None:
            self._say_last_words(data)
            return
        self._scanner.feed(data)
        self.other.write(data)

    def pause_writing(self) -> None:
        self._tunnel.partner(self).transport.pause_reading()

    def resume_writing(self) -> None:
        self._tunnel.partner(self).transport.resume_reading()

    def eof_received(self) -> None:
        self._tunnel.ended(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tunnel.lost(self)
        self._before.connection_lost(exc)

    def end_with(self, words: bytes) -> None:
        """Send these to the other side after the frame that is on its way there, if any."""
        if self._last_words is None:
            self._last_words = words
            if self._scanner.between:
                self.other.write(words)

    def _say_last_words(self, data: bytes) -> None:
        """Only what completes a frame still passes."""
        if self._scanner.between or self._last_words is None:
            return
        rest = data[: self._scanner.upto(data)]
        self._scanner.feed(rest)
        self.other.write(rest)
        if self._scanner.between:
            self.other.write(self._last_words)


class Tunnel:
    """Two connections, spliced."""

    __slots__ = (
        *("_client", "_ending", "_lost", "_pinged", "_server", "_upstream", "_watcher"),
        "moved",
    )

    def __init__(self, server: Server, client: Client, upstream: Link, watcher: Watcher) -> None:
        self._server = server
        self._watcher = watcher
        self._client = End(self, client, watcher, client=True)
        self._upstream = End(self, upstream, watcher, client=False)
        self._client.other, self._upstream.other = upstream.transport, client.transport
        self._ending: asyncio.TimerHandle | None = None
        self._lost = 0
        self._pinged = False
        """Whether it was pinged at the last look: what moved since then may be the answer."""
        self.moved = True
        """Whether anything passed since the last look."""

    def open(self, early: bytes, rest: bytes) -> None:
        """Take over both connections; `early` and `rest` came with the handshake."""
        self._server.tunnels.add(self)
        TRAFFIC.websockets += 1
        self._watcher.opened(self.hang_up)
        self._client.transport.set_protocol(self._client)
        self._upstream.transport.set_protocol(self._upstream)
        if rest:
            self._upstream.data_received(rest)
        if early:
            self._client.data_received(early)

    def partner(self, end: End) -> End:
        return self._upstream if end is self._client else self._client

    def look(self) -> None:
        """A silent WebSocket is pinged at every other look, so that middleboxes keep it."""
        is_due = not (self.moved or self._pinged)
        self.moved = self._pinged = False
        if is_due and self._ending is None and self._upstream.between:
            self._client.transport.write(_PING)
            self._pinged = True

    def hang_up(self) -> None:
        """Whoever opened it may no longer have it."""
        self._close(POLICY)

    def go_away(self) -> None:
        """The server is stopping."""
        self._close(GOING_AWAY)

    def abort(self) -> None:
        self._client.transport.abort()
        self._upstream.transport.abort()

    def ended(self, end: End) -> None:
        """One side is at its end: what it said still goes out, then the other one ends too."""
        self.partner(end).transport.close()
        self._soon()

    def lost(self, end: End) -> None:
        self._lost += 1
        if self._lost == 1:
            self.ended(end)
            self._server.tunnels.discard(self)
            TRAFFIC.websockets -= 1
            self._watcher.closed()
        elif self._ending is not None:
            self._ending.cancel()

    def _close(self, code: int) -> None:
        if self._lost:
            return
        self._upstream.end_with(close_frame(code))
        self._client.end_with(close_frame(code, masked=True))
        self._soon()

    def _soon(self) -> None:
        """Whoever does not end by itself is ended."""
        if self._ending is None:
            loop = asyncio.get_running_loop()
            self._ending = loop.call_later(self._server.limits.goodbye_seconds, self.abort)
