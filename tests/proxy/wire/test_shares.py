"""The web application is everybody's: each gets a share of it, and nobody keeps it for long."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from codehub.proxy.networks import Networks
from codehub.proxy.shares import Shares
from tests.proxy.wire.wire_world import GET, OK, PATIENCE, Workspace, until, wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.proxy.seam import Forward, RequestHead
    from tests.proxy.wire.wire_world import Talk, Wire

pytestmark = pytest.mark.anyio

UPLOAD = b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"
HERE, THERE = "127.0.0.1", "127.0.0.2"


async def application(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers requests once they are whole."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"PUT"):
            await reader.readuntil(b"d")
        writer.write(OK)


@asynccontextmanager
async def hub(**limits: Any) -> AsyncIterator[Wire]:
    """All goes to the web application."""
    async with wire(**limits) as world:
        await world.serve(application)
        world.gate.own = True
        yield world


async def upload_slowly(world: Wire, stack: AsyncExitStack, count: int) -> list[Talk]:
    """So many who are about to send a body, and are waited for."""
    talks = [await stack.enter_async_context(world.talk(HERE)) for _ in range(count)]
    before = len(world.gate.heads)
    for talk in talks:
        talk.send(UPLOAD + b"a")
    await until(lambda: len(world.gate.heads) == before + count)
    return talks


async def status(world: Wire, address: str) -> int:
    async with world.talk(address) as talk:
        talk.send(GET % b"")
        return (await talk.answer()).status


async def test_one_address_cannot_shut_out_the_others() -> None:
    async with hub(own_requests=3, upstream_connections=5) as world, AsyncExitStack() as stack:
        slow = await upload_slowly(world, stack, 3)
        for _ in range(5):
            assert await status(world, HERE) == 429
        assert await status(world, THERE) == 200
        slow[0].send(b"bcd")
        assert (await slow[0].answer()).status == 200
        assert await status(world, HERE) == 200


async def test_workspaces_have_no_such_shares() -> None:
    async with hub(own_requests=1) as world, AsyncExitStack() as stack:
        world.gate.own = False
        await upload_slowly(world, stack, 3)
        assert await status(world, HERE) == 200


async def test_whoever_is_known_has_a_share_wherever_they_are() -> None:
    async with hub(own_requests=1) as world, AsyncExitStack() as stack:

        def known(head: RequestHead) -> Forward:
            forward = world.gate.forward(head)
            forward.asker = (head.get(b"x-person") or b"").decode()
            return forward

        world.gate.verdict = known
        await upload_slowly(world, stack, 1)
        for address, person, expected in (
            (HERE, b"", 429),
            (HERE, b"alice", 200),
            (THERE, b"", 200),
        ):
            async with world.talk(address) as talk:
                talk.send(b"GET / HTTP/1.1\r\nHost: h\r\nX-Person: %b\r\n\r\n" % person)
                assert (await talk.answer()).status == expected


async def test_proxies_in_front_speak_for_many() -> None:
    limits = {"own_requests": 1, "uncapped": frozenset({HERE})}
    async with hub(**limits) as world, AsyncExitStack() as stack:
        await upload_slowly(world, stack, 3)
        assert await status(world, HERE) == 200


BROKEN = {
    "an answer": OK,
    "no answer": None,
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
    "nonsense": b"nonsense",
    "a switch": b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_share_is_given_back_whatever_happens(world: Wire, name: str) -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(BROKEN[name] or b"")
        await writer.drain()
        writer.close()

    world.gate.own = True
    await world.serve(breaks)
    async with world.talk() as talk:
        talk.send(GET % b"")
        await talk.reader.read(1)
        await until(lambda: not len(world.server.shares))


async def test_a_share_is_given_back_by_whoever_leaves_or_reaches_nobody() -> None:
    async with hub(own_requests=2) as world:
        async with AsyncExitStack() as stack:
            await upload_slowly(world, stack, 2)
            assert len(world.server.shares) == 1
        await until(lambda: not len(world.server.shares))
        for server in world.servers:
            server.close()
            await server.wait_closed()
        world.server.pool.close()
        assert await status(world, HERE) == 502
        assert not len(world.server.shares)


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 1000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n1;"]
)
async def test_a_body_that_comes_byte_by_byte_is_not_waited_for(framing: bytes) -> None:
    """Nor one whose bytes are no body, but what stands between the chunks."""
    async with hub(own_body_seconds=0.3, stall_seconds=PATIENCE) as world, world.talk() as talk:
        talk.send(b"PUT / HTTP/1.1\r\nHost: h\r\n" + framing)

        async def drip() -> None:
            while True:
                talk.send(b"x")
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        try:
            assert (await talk.answer()).status == 408
        finally:
            dripping.cancel()
        assert not len(world.server.shares)


async def test_a_body_that_is_in_has_no_hurry() -> None:
    """The answer may take its time, and so may the next request."""
    go = asyncio.Event()

    async def thinks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(4)
        await go.wait()
        writer.write(OK)
        await reader.read()

    async with wire(own_body_seconds=0.1) as world, world.talk() as talk:
        world.gate.own = True
        await world.serve(thinks)
        talk.send(UPLOAD + b"abcd")
        await until(lambda: world.server.pool._open)
        began = world.server.now
        await until(lambda: world.server.now > began + 0.5)
        go.set()
        assert (await talk.answer()).status == 200
        began = world.server.now
        await until(lambda: world.server.now > began + 0.5)
        await world.serve(Workspace())
        talk.send(GET % b"")
        assert (await talk.answer()).status == 200


def test_shares_are_counted() -> None:
    shares = Shares(2, Networks(["10.0.0.0/8"]))
    assert [shares.take("a") for _ in range(3)] == [True, True, False]
    assert [shares.take("10.1.1.1") for _ in range(3)] == [True, True, True]
    shares.give("a")
    assert shares.take("a")
    for _ in range(2):
        shares.give("a")
    assert len(shares) == 1
