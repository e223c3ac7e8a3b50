"""Stopping: nothing new, what is under way finishes, the rest ends."""

from __future__ import annotations

import asyncio
import socket as sockets
from typing import TYPE_CHECKING

import pytest

from codehub.errors import CodeHubError
from codehub.proxy.frames import close_frame
from codehub.proxy.seam import Answer, Ask
from codehub.proxy.server import Server
from codehub.proxy.wire_limits import WireLimits
from tests.proxy.wire.test_websockets import Socket, connect
from tests.proxy.wire.wire_world import GET, OK, PATIENCE, Workspace, until

if TYPE_CHECKING:
    from codehub.proxy.seam import Forward
    from tests.proxy.wire.wire_world import Wire

pytestmark = pytest.mark.anyio


async def test_a_request_under_way_finishes_and_idle_connections_end(world: Wire) -> None:
    go, asked = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await go.wait()
        writer.write(OK)
        await writer.drain()

    await world.serve(slow)
    async with world.talk() as idle, world.talk() as busy:
        busy.send(GET % b"")
        await until(asked.is_set)
        draining = asyncio.create_task(world.server.drain(PATIENCE))
        assert await idle.rest() == b""
        with pytest.raises(OSError):
            await world.open()
        assert not draining.done()
        go.set()
        answer = await busy.answer()
        assert (answer.body, answer.value("connection")) == (b"ok", "close")
        assert await busy.rest() == b""
        await draining
    assert world.server.pool._idle == {}


async def test_websockets_are_told_that_we_go(world: Wire) -> None:
    socket = Socket()
    async with world.talk() as talk:
        await connect(world, talk, socket)
        draining = asyncio.create_task(world.server.drain(PATIENCE))
        assert await talk.reader.readexactly(4) == close_frame(1001)
        assert (await socket.reader.readexactly(8))[0] == 0x88
        socket.ended.set()
        assert await talk.rest() == b""
        await draining
    assert world.gate.seen.closed_times == 1


async def test_what_does_not_end_is_ended(world: Wire) -> None:
    ended = asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()

    async def stuck(_: bytes) -> Answer | Forward:
        await asyncio.Event().wait()
        return Answer(200, [])

    await world.serve(never)
    async with world.talk() as one, world.talk() as two:
        one.send(GET % b"")
        await until(lambda: world.server.pool._open)
        world.gate.verdict = lambda _: Ask(stuck)
        two.send(GET % b"")
        await until(lambda: world.server._tasks)
        await world.server.drain(0.05)
        assert await one.rest() == b""
        assert await two.rest() == b""
    await until(ended.is_set)
    assert not world.server._tasks


async def test_several_servers_on_one_port(world: Wire) -> None:
    world.gate.verdict = lambda _: Answer(200, [], b"one of us")
    one, two = Server(world.gate, WireLimits()), Server(world.gate, WireLimits())
    port = await one.start("127.0.0.1", 0, reuse_port=True)
    assert await two.start("127.0.0.1", port, reuse_port=True) == port
    world.port = port
    assert await world.status(GET % b"") == 200
    await one.drain(1)
    assert await world.status(GET % b"") == 200
    await two.drain(1)


async def test_a_socket_that_is_given(world: Wire) -> None:
    await world.serve(Workspace())
    with sockets.socket() as given:
        given.bind(("127.0.0.1", 0))
        server = Server(world.gate, WireLimits())
        world.port = await server.start(sock=given)
        assert world.port == given.getsockname()[1]
        assert await world.status(GET % b"") == 200
        await server.drain(1)


async def test_a_port_that_is_taken_is_told(world: Wire) -> None:
    with pytest.raises(CodeHubError, match=f"cannot listen on 127.0.0.1:{world.port}"):
        await Server(world.gate, WireLimits()).start("127.0.0.1", world.port)
