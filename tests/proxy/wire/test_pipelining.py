"""Requests that come faster than they are answered, or their answers read: memory stays flat."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from codehub.proxy.client import Client
from codehub.proxy.connection import HELD_LIMIT
from codehub.proxy.seam import Answer, Ask
from codehub.proxy.server import Server
from codehub.proxy.wire_limits import WireLimits
from tests.proxy.wire.test_cuts import InMemory
from tests.proxy.wire.test_uploads import stalled
from tests.proxy.wire.wire_world import GET, MIB, OpenGate

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from codehub.proxy.seam import Forward, Verdict
    from tests.proxy.wire.wire_world import Wire

REQUEST = GET % b""
FORM = b"POST / HTTP/1.1\r\nHost: hub.test\r\nContent-Length: 1\r\n\r\nx"
READ = 256 * 1024
"""What an event loop reads at once."""
MOST = 2 * (HELD_LIMIT + READ)


class Unanswered(Server):
    """Its questions wait until the test answers them."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        work.close()
        return None  # type: ignore[return-value]


class Sender:
    """Has requests without end, and sends them for as long as they are read."""

    def __init__(self, verdict: Verdict, request: bytes = REQUEST) -> None:
        self.gate = OpenGate()
        self.gate.verdict = lambda _: verdict
        self.client, self.transport = Client(Unanswered(self.gate, WireLimits())), InMemory()
        self.client.connection_made(self.transport)
        self.piece = request * (READ // len(request))
        self.longest = 0

    def send(self) -> None:
        """As much as is taken; more than this is too much anyway."""
        while self.transport.reading and self.longest < 10 * MOST:
            self.client.data_received(self.piece)
            self.longest = max(self.longest, len(self.client._buffer))


@pytest.mark.anyio
async def test_64_mib_of_requests_wait_where_they_are_while_nobody_reads_the_answers(
    world: Wire,
) -> None:
    world.gate.verdict = lambda _: Answer(200, [(b"X-A", b"b" * 200)], b"ok")
    sent, answered, longest = [0], 0, 0
    many = REQUEST * 1500
    async with world.talk() as talk:

        async def pour() -> None:
            while sent[0] * len(REQUEST) < 64 * MIB:
                talk.send(many)
                await talk.writer.drain()
                sent[0] += 1500

        talk.writer.transport.pause_reading()  # type: ignore[attr-defined]
        pouring = asyncio.create_task(pour())
        await stalled(sent)
        (client,) = world.server._clients
        assert client.write_paused
        assert len(client._buffer) < MOST
        assert sent[0] * len(REQUEST) < 64 * MIB
        talk.writer.transport.resume_reading()  # type: ignore[attr-defined]
        while answered < 50_000:
            assert (await talk.answer()).status == 200
            answered += 1
            longest = max(longest, len(client._buffer))
        pouring.cancel()
    assert longest < MOST, "nor does it grow while they are read again"


def test_who_does_not_read_is_not_read() -> None:
    sender = Sender(Answer(200, [], b""))
    sender.client.pause_writing()
    sender.send()
    assert sender.longest < MOST
    assert sender.gate.heads == []
    waiting = len(sender.client._buffer)
    sender.client.resume_writing()
    assert len(sender.gate.heads) == waiting // len(REQUEST)
    assert sender.transport.reading, "all that was here is answered"


@pytest.mark.parametrize("request_", [REQUEST, FORM], ids=["plain", "with a body"])
def test_no_answer_lets_in_more_than_it_took_out(request_: bytes) -> None:
    """A request is a few bytes, and what is read at once is many."""

    async def never(_: bytes) -> Answer | Forward:
        raise AssertionError("the test answers in its place")

    sender = Sender(Ask(never, 10), request_)
    for _ in range(200):
        sender.send()
        sender.client.told(Answer(200, [], b""), None)
    assert len(sender.gate.heads) == 201
    assert sender.longest < MOST
