"""WebSockets through the wire: the handshake, bytes both ways, and every kind of end."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from codehub.proxy.frames import CLOSE, TRY_AGAIN_LATER, close_frame, frame
from codehub.proxy.seam import Answer
from tests.proxy.wire.wire_world import GET, HANDSHAKE, KEY, MIB, OK, SWITCH, Workspace, until, wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.proxy.wire.wire_world import Talk, Wire

pytestmark = pytest.mark.anyio

TEXT, BINARY, PING, PONG = 1, 2, 9, 10


class Socket:
    """A workspace's side of a WebSocket, in raw bytes."""

    def __init__(self, early: bytes = b"") -> None:
        self.early = early
        self.head = b""
        self.open = asyncio.Event()
        self.ended = asyncio.Event()
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.head = await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCH + self.early)
        self.reader, self.writer = reader, writer
        self.open.set()
        await self.ended.wait()


async def connect(world: Wire, talk: Talk, socket: Socket) -> None:
    await world.serve(socket)
    talk.send(HANDSHAKE)
    answer = await talk.answer()
    assert answer.status == 101
    await socket.open.wait()


def masked(opcode: int, payload: bytes) -> bytes:
    return frame(opcode, payload, masked=True)


async def test_the_handshake_and_bytes_both_ways(world: Wire) -> None:
    socket = Socket(early=frame(TEXT, b"welcome"))
    await world.serve(socket)
    async with world.talk() as talk:
        early = masked(TEXT, b"eager")
        talk.send(HANDSHAKE + early)
        answer = await talk.answer()
        assert answer.head + b"\r\n\r\n" == SWITCH.replace(
            b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b""
        ).replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert b"Sec-WebSocket-Protocol: chat, other\r\n" in socket.head
        assert b"Connection: Upgrade\r\nUpgrade: websocket\r\n" in socket.head
        assert await talk.reader.readexactly(9) == frame(TEXT, b"welcome")
        assert await socket.reader.readexactly(len(early)) == early
        socket.ended.set()
        assert await talk.rest() == b""
    seen = world.gate.seen
    assert seen.answers == [101]
    assert sorted(seen.frames) == sorted([(TEXT, 7, b"welcome", False), (TEXT, 5, b"eager", True)])
    await until(lambda: seen.closed_times == 1)


async def test_frames_of_every_size_pass_unchanged_and_are_seen(world: Wire) -> None:
    socket = Socket()
    sizes = [0, 1, 13, 16, 17, 125, 126, 1000, 65535, 65536, 200_000]
    sent = b""
    for size in sizes:
        long = struct.pack("!BBQ", 0x82, 0x80 | 127, size)
        medium = struct.pack("!BBH", 0x82, 0x80 | 126, size % 65536)
        head = bytes((0x82, 0x80 | size)) if size < 126 else medium if size < 65536 else long
        sent += head + b"\0\0\0\0" + bytes(size)
    async with world.talk() as talk:
        await connect(world, talk, socket)
        talk.send(sent)
        assert await socket.reader.readexactly(len(sent)) == sent
        socket.ended.set()
    firsts = [bytes(min(size, 16)) if size <= 125 else b"" for size in sizes]
    assert world.gate.seen.frames == [
        (BINARY, size, first, True) for size, first in zip(sizes, firsts, strict=True)
    ]


BAD_HANDSHAKES = {
    "no key": HANDSHAKE.replace(b"Sec-WebSocket-Key", b"X-Key"),
    "a short key": HANDSHAKE.replace(KEY, KEY[:-4]),
    "an odd key": HANDSHAKE.replace(KEY, b"!" * 24),
    "an old version": HANDSHAKE.replace(b"Version: 13", b"Version: 8"),
    "a body": HANDSHAKE.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\nhi"),
}


@pytest.mark.parametrize("name", BAD_HANDSHAKES)
async def test_a_bad_handshake_reaches_nobody(world: Wire, name: str) -> None:
    workspace = Workspace()
    await world.serve(workspace)
    assert await world.status(BAD_HANDSHAKES[name]) == 400
    assert workspace.heads == []


BAD_SWITCHES = {
    "another proof": SWITCH.replace(b"Accept: ", b"Accept: x"),
    "no proof": SWITCH.replace(b"Sec-WebSocket-Accept", b"X-Accept"),
    "no upgrade": SWITCH.replace(b"Upgrade: websocket\r\n", b""),
    "another protocol": SWITCH.replace(b"websocket", b"h2c"),
    "no connection": SWITCH.replace(b"Connection: Upgrade\r\n", b""),
}


@pytest.mark.parametrize("name", BAD_SWITCHES)
async def test_a_workspace_that_does_not_speak_websocket(world: Wire, name: str) -> None:
    await world.serve(Workspace(BAD_SWITCHES[name]))
    assert await world.status(HANDSHAKE) == 502
    assert world.gate.seen.hang_up is None


async def test_a_workspace_may_refuse(world: Wire) -> None:
    await world.serve(Workspace(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", OK))
    async with world.talk() as talk:
        talk.send(HANDSHAKE)
        answer = await talk.answer()
        assert (answer.status, answer.body) == (403, b"no")
        talk.send(GET % b"")
        assert (await talk.answer()).body == b"ok"


async def test_the_hub_can_say_no_in_a_frame(world: Wire) -> None:
    """A page only gets to see why if the handshake succeeds."""
    goodbye = close_frame(TRY_AGAIN_LATER, "asleep")
    world.gate.verdict = lambda _: Answer(101, [], goodbye)
    raw = await world.say(HANDSHAKE)
    head, _, frames = raw.partition(b"\r\n\r\n")
    assert b"Sec-WebSocket-Accept: " in head
    assert frames == goodbye


# Ends


async def test_the_workspaces_close_reaches_the_client_with_its_reason(world: Wire) -> None:
    socket = Socket()
    async with world.talk() as talk:
        await connect(world, talk, socket)
        goodbye = close_frame(4001, "over and out")
        socket.writer.write(goodbye)
        socket.ended.set()
        assert await talk.rest() == goodbye
    assert world.gate.seen.frames[0][:3] == (CLOSE, 14, b"\x0f\xa1over and out")
    await until(lambda: not world.server.pool._open)


async def test_a_client_that_leaves_ends_the_workspaces_side(world: Wire) -> None:
    socket = Socket()
    async with world.talk() as talk:
        await connect(world, talk, socket)
        talk.send(masked(TEXT, b"last"))
        await socket.reader.readexactly(10)
    assert await socket.reader.read() == b""
    await until(lambda: world.gate.seen.closed_times == 1)
    await until(lambda: not world.server._clients and not world.server.tunnels)
    assert world.gate.seen.hang_up is not None
    world.gate.seen.hang_up()  # too late, and no harm
    socket.ended.set()


async def test_hanging_up_says_so_to_both(world: Wire) -> None:
    socket = Socket()
    async with world.talk() as talk:
        await connect(world, talk, socket)
        assert world.gate.seen.hang_up is not None
        world.gate.seen.hang_up()
        assert await talk.reader.readexactly(4) == close_frame(1008)
        head = await socket.reader.readexactly(8)
        assert head[:2] == b"\x88\x82"
        assert bytes(a ^ b for a, b in zip(head[6:], head[2:4], strict=True)) == b"\x03\xf0"
        talk.send(masked(TEXT, b"one more"))
        socket.writer.write(frame(TEXT, b"and one"))
        await socket.writer.drain()
        socket.ended.set()
        assert await talk.rest() == b""
    assert await socket.reader.read() == b""


async def test_hanging_up_does_not_break_into_a_frame(world: Wire) -> None:
    """What has begun is ended first; what follows it does not pass any more."""
    socket = Socket()
    async with world.talk() as talk:
        await connect(world, talk, socket)
        text = frame(TEXT, b"0123456789")
        for cut in (1, 5):
            socket.writer.write(text[:cut])
            assert await talk.reader.readexactly(cut) == text[:cut]
            if cut == 1:
                socket.writer.write(text[1:])
                assert await talk.reader.readexactly(11) == text[1:]
        assert world.gate.seen.hang_up is not None
        world.gate.seen.hang_up()
        socket.writer.write(text[5:] + frame(TEXT, b"too late"))
        assert await talk.reader.readexactly(7 + 4) == text[5:] + close_frame(1008)
        socket.ended.set()
        assert await talk.rest() == b""


async def test_hanging_up_in_the_middle_of_a_header(world: Wire) -> None:
    socket = Socket()
    async with world.talk() as talk:
        await connect(world, talk, socket)
        long = struct.pack("!BBH", 0x82, 126, 300) + b"x" * 300
        socket.writer.write(long[:3])
        assert await talk.reader.readexactly(3) == long[:3]
        assert world.gate.seen.hang_up is not None
        world.gate.seen.hang_up()
        for at in range(3, len(long), 50):
            socket.writer.write(long[at : at + 50])
            await socket.writer.drain()
        socket.writer.write(frame(TEXT, b"too late"))
        assert await talk.reader.readexactly(301 + 4) == long[3:] + close_frame(1008)
        socket.ended.set()
        assert await talk.rest() == b""


async def test_whoever_does_not_end_is_ended() -> None:
    async with wire(goodbye_seconds=0.1) as world:
        socket = Socket()
        async with world.talk() as talk:
            await connect(world, talk, socket)
            assert world.gate.seen.hang_up is not None
            world.gate.seen.hang_up()
            assert await talk.rest() == close_frame(1008)
            await until(lambda: not world.server.pool._open)
        socket.ended.set()


# Silence


async def test_silent_websockets_are_pinged_between_frames() -> None:
    async with wire(ping_seconds=0.05) as world:
        socket = Socket()
        async with world.talk() as talk:
            await connect(world, talk, socket)
            assert await talk.reader.readexactly(2) == frame(PING)
            talk.send(masked(PONG, b""))
            assert (await socket.reader.readexactly(6))[0] == 0x8A
            await talk.reader.readexactly(2)
            socket.writer.write(frame(TEXT, b"half")[:3])
            assert (await talk.reader.readuntil(b"h")).replace(frame(PING), b"") == b"\x81\x04h"
            await asyncio.sleep(0.3)  # several times the period in which pings would come
            socket.writer.write(b"alf")
            assert await talk.reader.readexactly(3) == b"alf"
            socket.ended.set()


# Back-pressure


async def pour(write: Callable[[bytes], None], drain: Callable[[], Awaitable[None]]) -> None:
    piece = struct.pack("!BBQ", 0x82, 127, 65536) + bytes(65536)
    while True:
        write(piece)
        await drain()


@pytest.mark.parametrize("from_client", [False, True])
async def test_whoever_does_not_read_slows_the_other(world: Wire, from_client: bool) -> None:
    socket = Socket()
    async with world.talk() as talk:
        await connect(world, talk, socket)
        source, target = (
            (talk.writer, socket.reader) if from_client else (socket.writer, talk.reader)
        )
        tracemalloc.start()
        try:
            pouring = asyncio.create_task(pour(source.write, source.drain))
            before = -1
            while before != len(world.gate.seen.frames):
                before = len(world.gate.seen.frames)
                await asyncio.sleep(0.3)
            assert tracemalloc.get_traced_memory()[1] < 8 * MIB
        finally:
            tracemalloc.stop()
        for _ in range(before + 5):
            assert (await target.readexactly(65546))[:2] == b"\x82\x7f"
        pouring.cancel()
        socket.ended.set()
