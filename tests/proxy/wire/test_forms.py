"""Bodies that the proxy reads itself have a time to be whole in, however steadily they come."""

from __future__ import annotations

import asyncio

import pytest

from codehub.proxy.client import Client
from codehub.proxy.seam import Answer, Ask, Forward
from codehub.proxy.wire_limits import WireLimits
from tests.proxy.wire.test_cuts import InMemory
from tests.proxy.wire.test_moving import Moving
from tests.proxy.wire.test_pipelining import Unanswered
from tests.proxy.wire.wire_world import GET, OK, PATIENCE, OpenGate, until, wire

POST = b"POST /login HTTP/1.1\r\nHost: hub.test\r\n"
LENGTH = POST + b"Content-Length: 1000\r\n\r\n"
LIMITS = WireLimits()


async def read(body: bytes) -> Answer | Forward:
    return Answer(200, [], body)


class Form:
    """A client that sends a form to the hub, a byte in each second."""

    def __init__(self, head: bytes = LENGTH) -> None:
        gate = OpenGate()
        gate.verdict = lambda _: Ask(read, 1000)
        self.server = Unanswered(gate, LIMITS)
        self.client, self.transport = Client(self.server), InMemory()
        self.client.connection_made(self.transport)
        self.client.data_received(head)

    def drip(self, seconds: float) -> bytes:
        """What is answered by then."""
        for _ in range(int(seconds)):
            if self.transport.closed:
                break
            self.server.now += 1
            self.client.data_received(b"1")
            if min(self.client.deadline, self.client.body_by) < self.server.now:
                self.client.overdue()
        return self.transport.written


@pytest.mark.parametrize(
    "head", [LENGTH, POST + b"Transfer-Encoding: chunked\r\n\r\n1;"], ids=["length", "chunks"]
)
def test_a_form_that_comes_byte_by_byte_is_not_waited_for(head: bytes) -> None:
    form = Form(head)
    assert form.drip(LIMITS.form_seconds) == b""
    assert form.drip(2).startswith(b"HTTP/1.1 408 ")


def test_who_is_refused_is_heard_out_as_long_as_everybody() -> None:
    """The time for the body is not the time to read the refusal in."""
    form = Form()
    form.client.refuse(413, "the body is too large")
    assert form.client.body_by > form.server.now + LIMITS.form_seconds


def test_a_form_that_is_in_has_no_hurry() -> None:
    """Nor has what comes after it on the connection."""
    form = Form(POST + b"Content-Length: 2\r\n\r\n")
    assert form.drip(2) == b""
    form.server.now += 10 * LIMITS.form_seconds
    assert min(form.client.deadline, form.client.body_by) > form.server.now
    form.client.told(Answer(200, [], b""), b"11")
    assert form.transport.written.startswith(b"HTTP/1.1 200 ")
    assert form.client.body_by > form.server.now


def test_uploads_to_workspaces_take_as_long_as_they_move() -> None:
    moving = Moving(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 10000\r\n\r\n")
    assert moving.upload(1000)
    assert moving.client.body_by > moving.server.now
    assert moving.client.deadline > moving.server.now


@pytest.mark.anyio
async def test_on_the_network_too() -> None:
    async with wire(form_seconds=0.2, stall_seconds=PATIENCE) as world, world.talk() as talk:
        world.gate.verdict = lambda _: Ask(read, 1000)
        talk.send(LENGTH)

        async def drip() -> None:
            while True:
                talk.send(b"x")
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        try:
            assert (await talk.answer()).status == 408
        finally:
            dripping.cancel()


@pytest.mark.anyio
async def test_what_the_form_led_to_may_take_its_time() -> None:
    """It was read, and goes on to somebody who thinks about it."""
    go = asyncio.Event()

    async def thinks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"hello")
        await go.wait()
        writer.write(OK)
        await reader.read()

    async with wire(form_seconds=0.1) as world, world.talk() as talk:

        async def forward(_: bytes) -> Answer | Forward:
            return world.gate.forward(world.gate.heads[-1])

        await world.serve(thinks)
        world.gate.verdict = lambda _: Ask(forward, 1000)
        talk.send(POST + b"Content-Length: 5\r\n\r\nhello")
        await until(lambda: world.server.pool._open)
        began = world.server.now
        await until(lambda: world.server.now > began + 0.5)
        go.set()
        assert (await talk.answer()).body == b"ok"
        world.gate.verdict = lambda _: Answer(204, [], b"")
        talk.send(GET % b"")
        assert (await talk.answer()).status == 204
