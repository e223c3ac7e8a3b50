"""Silent WebSockets are pinged in every period; time stands where the test puts it."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from codehub.proxy.client import Client
from codehub.proxy.frames import PING, frame
from codehub.proxy.server import Server
from codehub.proxy.upstream import Link
from codehub.proxy.wire_limits import WireLimits
from tests.proxy.wire.test_cuts import InMemory
from tests.proxy.wire.wire_world import HANDSHAKE, SWITCH, OpenGate

if TYPE_CHECKING:
    from collections.abc import Callable

LIMITS = WireLimits()
EVERY = int(LIMITS.ping_seconds)
TEXT, PONG = 1, 10


class Clock:
    """A loop in which a second passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def call_later(self, _seconds: float, _call: Callable[[], None]) -> None:
        """The test sweeps by itself."""


class Socket:
    """An open WebSocket: what both ends get to read, and when."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        gate = OpenGate()
        self._server = Server(gate, LIMITS)
        link = Link(self._server.pool, (gate.upstream.host, gate.upstream.port))
        client = Client(self._server)
        self.browser, self.workspace = Switching(), Switching()
        link.connection_made(self.workspace)
        client.connection_made(self.browser)
        self._server.pool.give(link)
        client.data_received(HANDSHAKE)
        link.data_received(SWITCH)
        self.browser.written = b""

    def pings(self, seconds: int, *, answered: bool = True) -> list[int]:
        """After how many seconds it is pinged, in so many of silence."""
        found: list[int] = []
        for second in range(1, seconds + 1):
            self._clock.now += 1
            self.browser.take()
            self._server._sweep()
            if self.browser.take() == frame(PING):
                found.append(second)
                if answered:
                    self.says(frame(PONG, masked=True))
        return found

    def says(self, data: bytes) -> None:
        self.browser.protocol.data_received(data)

    def hears(self, data: bytes) -> None:
        self.workspace.protocol.data_received(data)


class Switching(InMemory):
    """One end, whose bytes go to whoever has taken it over."""

    def set_protocol(self, protocol: object) -> None:
        self.protocol: Client = protocol  # type: ignore[assignment]

    def take(self) -> bytes:
        taken, self.written = self.written, b""
        return taken


@pytest.fixture
def socket(monkeypatch: pytest.MonkeyPatch) -> Socket:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    return Socket(clock)


@pytest.mark.parametrize("answered", [True, False])
def test_a_silent_one_is_pinged_in_every_period(socket: Socket, answered: bool) -> None:
    """The answer to a ping is no reason to leave the next one out."""
    found = socket.pings(20 * EVERY, answered=answered)
    assert {later - before for before, later in pairwise(found)} == {EVERY}
    assert len(found) == 20


def test_none_is_silent_for_longer_than_that(socket: Socket) -> None:
    """Whenever it fell silent: what closes a silent connection does not wait for us to look."""
    for offset in range(2 * EVERY):
        socket.pings(offset)
        socket.hears(frame(TEXT, b"hello"))
        assert socket.pings(EVERY) != []


@pytest.mark.parametrize("from_client", [True, False])
def test_where_anything_moves_nobody_is_pinged(socket: Socket, from_client: bool) -> None:
    for _ in range(5 * EVERY):
        assert socket.pings(1) == []
        if from_client:
            socket.says(frame(TEXT, b"hello", masked=True))
        else:
            socket.hears(frame(TEXT, b"hello"))
