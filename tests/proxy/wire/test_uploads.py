"""Bodies on their way to workspaces and back: streamed, with flat memory, and with limits."""

from __future__ import annotations

import asyncio
import hashlib
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from codehub.proxy.seam import Answer, Ask
from tests.proxy.wire.wire_world import GET, MIB, OK, Workspace, until, wire

if TYPE_CHECKING:
    from codehub.proxy.seam import Forward
    from tests.proxy.wire.wire_world import Handler, Wire

pytestmark = pytest.mark.anyio

PUT = b"PUT / HTTP/1.1\r\nHost: hub.test\r\n"
PIECE = bytes(range(256)) * 256


def sink(total: int) -> Handler:
    """Takes so many bytes and answers with their hash."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        digest, left = hashlib.sha256(), total
        while left:
            piece = await reader.read(65536)
            if not piece:
                return
            digest.update(piece)
            left -= len(piece)
        text = digest.hexdigest().encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
        await writer.drain()

    return take


async def test_a_large_upload_arrives_whole(world: Wire) -> None:
    total = 24 * MIB
    await world.serve(sink(total))
    async with world.talk() as talk:
        talk.send(PUT + b"Content-Length: %d\r\n\r\n" % total)
        for _ in range(total // len(PIECE)):
            talk.send(PIECE)
            await talk.writer.drain()
        answer = await talk.answer()
    assert answer.body.decode() == hashlib.sha256(PIECE * (total // len(PIECE))).hexdigest()


class Stuck:
    """A workspace that reads a head and then nothing, until it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.got = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await self.go.wait()
        while piece := await reader.read(MIB):
            self.got += len(piece)


async def stalled(sent: list[int]) -> int:
    """How much got out once nothing more does."""
    before = -1
    while before != sent[0]:
        before = sent[0]
        await asyncio.sleep(0.3)
    return before


async def pour(writer: asyncio.StreamWriter, total: int, sent: list[int]) -> None:
    while sent[0] < total:
        writer.write(PIECE)
        await writer.drain()
        sent[0] += len(PIECE)


async def test_a_workspace_that_does_not_read_slows_the_upload(world: Wire) -> None:
    workspace, total, sent = Stuck(), 64 * MIB, [0]
    await world.serve(workspace)
    async with world.talk() as talk:
        talk.send(PUT + b"Content-Length: %d\r\n\r\n" % total)
        tracemalloc.start()
        try:
            pouring = asyncio.create_task(pour(talk.writer, total, sent))
            assert await stalled(sent) < total
            assert tracemalloc.get_traced_memory()[1] < 8 * MIB
        finally:
            tracemalloc.stop()
        workspace.go.set()
        await pouring
        await until(lambda: workspace.got == total)


class Source:
    """Sends so many bytes as fast as they are taken."""

    def __init__(self, total: int, *, chunked: bool) -> None:
        self.total = total
        self.chunked = chunked
        self.sent = [0]
        self.broken = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        chunks, length = b"Transfer-Encoding: chunked", b"Content-Length: %d" % self.total
        writer.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % (chunks if self.chunked else length))
        self.sent[0] = 0
        try:
            while self.sent[0] < self.total:
                writer.write(b"%x\r\n%b\r\n" % (len(PIECE), PIECE) if self.chunked else PIECE)
                await writer.drain()
                self.sent[0] += len(PIECE)
            writer.write(b"0\r\n\r\n" if self.chunked else b"")
            await writer.drain()
        except ConnectionError:
            self.broken.set()


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_client_that_does_not_read_slows_the_workspace(world: Wire, chunked: bool) -> None:
    source = Source(32 * MIB, chunked=chunked)
    await world.serve(source)
    async with world.talk() as talk:
        tracemalloc.start()
        try:
            talk.send(GET % b"")
            assert await stalled(source.sent) < source.total
            assert tracemalloc.get_traced_memory()[1] < 8 * MIB
        finally:
            tracemalloc.stop()
        for _ in range(2):
            answer = await talk.answer()
            assert len(answer.body) == source.total
            talk.send(GET % b"")


async def test_a_client_that_asks_on_without_reading_is_not_read_for_ever(world: Wire) -> None:
    """Its answers wait in its socket, then its requests do."""
    world.gate.verdict = lambda _: Answer(200, [], PIECE)
    async with world.talk() as talk:
        tracemalloc.start()
        try:
            talk.send((GET % b"") * 2000)
            await until(lambda: len(world.gate.heads) > 2)
            before = -1
            while before != len(world.gate.heads):
                before = len(world.gate.heads)
                await asyncio.sleep(0.2)
            assert before < 2000
            assert tracemalloc.get_traced_memory()[1] < 8 * MIB
        finally:
            tracemalloc.stop()
        for _ in range(2000):
            assert len((await talk.answer()).body) == len(PIECE)


async def test_what_comes_during_an_answer_waits_in_the_clients_socket(world: Wire) -> None:
    go = asyncio.Event()

    async def slow(_: bytes) -> Answer | Forward:
        await go.wait()
        return Answer(200, [], b"")

    sent, total = [0], 64 * MIB
    world.gate.verdict = lambda _: Ask(slow)
    async with world.talk() as talk:
        tracemalloc.start()
        try:
            talk.send(GET % b"")
            pouring = asyncio.create_task(pour(talk.writer, total, sent))
            assert await stalled(sent) < total
            assert tracemalloc.get_traced_memory()[1] < 8 * MIB
        finally:
            tracemalloc.stop()
            pouring.cancel()
        go.set()
        assert (await talk.answer()).status == 200


async def test_a_workspace_that_ends_during_an_upload_gave_no_answer(world: Wire) -> None:
    told = asyncio.Event()

    async def failed() -> Answer:
        await told.wait()
        return Answer(502, [], b"gone")

    world.gate.failed = failed
    workspace = Workspace(None)
    await world.serve(workspace)
    async with world.talk() as talk:
        talk.send(PUT + b"Content-Length: %d\r\n\r\n" % (4 * len(PIECE)))
        await until(lambda: workspace.ended and not world.server.pool._open)
        for _ in range(3):
            talk.send(PIECE)
            await asyncio.sleep(0.01)
        told.set()
        assert (await talk.answer()).body == b"gone"


async def test_a_client_that_leaves_in_the_middle_ends_the_workspaces_work(world: Wire) -> None:
    source = Source(1024 * MIB, chunked=False)
    await world.serve(source)
    async with world.talk() as talk:
        talk.send(GET % b"")
        await talk.reader.readexactly(100_000)
    await until(source.broken.is_set)
    assert source.sent[0] < source.total


async def test_a_client_that_leaves_before_the_answer_is_not_worked_for(world: Wire) -> None:
    workspace = Stuck()
    workspace.go.set()
    ended = asyncio.Event()

    async def watched(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await workspace(reader, writer)
        ended.set()

    await world.serve(watched)
    async with world.talk() as talk:
        talk.send(GET % b"")
        await until(lambda: world.server.pool._open)
        talk.writer.write_eof()
        await until(ended.is_set)


@pytest.mark.parametrize("who", ["client", "workspace"])
async def test_an_answer_without_length_that_breaks_off_ends_in_a_reset(
    world: Wire, who: str
) -> None:
    """Its end is the connection's: only a reset tells a broken one from a whole one."""
    go = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await go.wait()

    await world.serve(endless)
    async with world.talk() as talk:
        talk.send(b"GET / HTTP/1.0\r\n\r\n")
        await talk.reader.readuntil(b"abc")
        if who == "client":
            talk.writer.write_eof()
        else:
            go.set()
        with pytest.raises(ConnectionResetError):
            await talk.reader.read()
    go.set()


async def test_an_answer_before_the_end_of_the_body_comes_through(world: Wire) -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n"
    await world.serve(Workspace(refusal))
    raw = await world.say(PUT + b"Content-Length: 1000000\r\n\r\nabc")
    assert raw == refusal.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


async def test_a_refusal_is_heard_by_whoever_is_still_sending() -> None:
    async with wire(linger_seconds=60) as world:
        world.gate.verdict = lambda _: Answer(403, [], b"not you")
        async with world.talk() as talk:
            talk.send(PUT + b"Content-Length: %d\r\n\r\n" % (8 * MIB) + b"x" * (8 * MIB))
            await talk.writer.drain()
            assert (await talk.answer()).body == b"not you"
            assert await talk.rest() == b""


# 100 Continue


async def test_100_continue_is_said_once_and_only_when_the_body_is_wanted(world: Wire) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    got: list[bytes] = []

    async def takes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(interim)
        got.append(head + await reader.readexactly(2))
        writer.write(OK)
        await writer.drain()

    await world.serve(takes)
    ask = PUT + b"Content-Length: 2\r\nExpect: 100-Continue\r\n\r\n"
    async with world.talk() as talk:
        talk.send(ask)
        assert await talk.reader.readuntil(b"\r\n\r\n") == interim
        talk.send(b"hi")
        assert await talk.reader.readexactly(len(OK)) == OK
    assert b"expect" not in got[0].lower()
    assert (await world.say(ask.replace(b"Expect", b"Connection: close\r\nExpect") + b"hi")).count(
        b"100 Continue"
    ) == 1
    world.gate.verdict = lambda _: Answer(404, [], b"no")
    raw = await world.say(ask)
    assert raw.startswith(b"HTTP/1.1 404 ")
    assert b"Connection: close" in raw
    old = ask.replace(b"1.1", b"1.0")
    assert b"100 Continue" not in await world.say(old + b"hi")


# Limits


async def test_bodies_have_a_limit() -> None:
    async with wire(body_bytes=1000) as world:
        await world.serve(sink(1000))
        chunks = PUT + b"Transfer-Encoding: chunked\r\n\r\n"
        assert await world.status(PUT + b"Content-Length: 1000\r\n\r\n" + b"x" * 1000) == 200
        assert await world.status(PUT + b"Content-Length: 1001\r\n\r\n") == 413
        assert await world.status(chunks + b"200\r\n%b\r\n" % (b"x" * 512) * 2) == 413


async def test_a_body_that_stands_still_is_not_waited_for() -> None:
    async with wire(stall_seconds=0.2) as world:
        await world.serve(sink(1000))
        raw = await world.say(PUT + b"Content-Length: 1000\r\n\r\nabc")
        assert raw.startswith(b"HTTP/1.1 408 ")


async def test_a_client_that_reads_nothing_for_long_is_let_go() -> None:
    async with wire(stall_seconds=0.2) as world:
        source = Source(1024 * MIB, chunked=False)
        await world.serve(source)
        async with world.talk() as talk:
            talk.send(GET % b"")
            talk.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until(source.broken.is_set)


async def test_a_slow_reader_of_a_last_answer_still_gets_all_of_it() -> None:
    """The connection is to end, but not before the client has read."""
    async with wire(linger_seconds=0.05) as world:
        body = PIECE * 512
        world.gate.verdict = lambda _: Answer(200, [], body)
        async with world.talk() as talk:
            talk.send(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            await asyncio.sleep(0.5)
            assert (await talk.answer()).body == body


# Questions


async def test_a_question_gets_the_body(world: Wire) -> None:
    async def echo(body: bytes) -> Answer | Forward:
        return Answer(200, [], body)

    world.gate.verdict = lambda _: Ask(echo, 5)
    assert (await world.say(PUT + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello")).endswith(
        b"\r\n\r\nhello"
    )
    chunks = PUT + b"Transfer-Encoding: chunked\r\n\r\n"
    async with world.talk() as talk:
        talk.send(chunks + b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")
        assert (await talk.answer()).body == b"hello"
        talk.send(GET % b"")
        assert (await talk.answer()).body == b""
    assert await world.status(PUT + b"Content-Length: 6\r\n\r\n") == 413
    assert await world.status(chunks + b"6\r\nhello!\r\n") == 413


@pytest.mark.parametrize("most", [0, 100])
async def test_a_question_may_end_in_a_forward_with_the_body(world: Wire, most: int) -> None:
    got: list[bytes] = []

    async def takes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        end = b"0\r\n\r\n" if b"chunked" in head else b"hello"
        got.append(await reader.readuntil(end))
        writer.write(OK)
        await writer.drain()

    async def forward(_: bytes) -> Answer | Forward:
        await asyncio.sleep(0.01)
        return world.gate.forward(world.gate.heads[-1])

    await world.serve(takes)
    world.gate.verdict = lambda _: Ask(forward, most)
    assert await world.status(PUT + b"Content-Length: 5\r\n\r\nhello") == 200
    chunks = PUT + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    assert await world.status(chunks) == 200
    assert [b"hello" in each for each in got] == [True, True]


async def test_a_question_is_answered_even_if_nobody_waits(world: Wire) -> None:
    asked, done, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(_: bytes) -> Answer | Forward:
        asked.set()
        await go.wait()
        done.set()
        return Answer(200, [], b"")

    world.gate.verdict = lambda _: Ask(slow)
    async with world.talk() as talk:
        talk.send(GET % b"")
        await until(asked.is_set)
    await until(lambda: not world.server._clients)
    go.set()
    await until(done.is_set)
