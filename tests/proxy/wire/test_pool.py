"""Kept connections to workspaces: used again, never trusted; nothing is sent twice by mistake."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from codehub.proxy.client import Client
from codehub.proxy.server import Server
from codehub.proxy.upstream import Link
from codehub.proxy.wire_limits import WireLimits
from tests.proxy.wire.test_cuts import InMemory
from tests.proxy.wire.wire_world import GET, OK, PATIENCE, OpenGate, Workspace, until, wire

if TYPE_CHECKING:
    from tests.proxy.wire.wire_world import Talk, Wire

pytestmark = pytest.mark.anyio


async def ask(talk: Talk, raw: bytes = GET % b"") -> int:
    talk.send(raw)
    return (await talk.answer()).status


async def test_a_connection_is_used_again_by_whoever_comes_next(world: Wire) -> None:
    workspace = Workspace()
    await world.serve(workspace)
    for _ in range(3):
        assert await world.status(GET % b"") == 200
    assert (workspace.connections, len(workspace.heads)) == (1, 3)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n\r\nok",
    ],
)
async def test_a_connection_that_is_to_end_is_not_kept(world: Wire, answer: bytes) -> None:
    workspace = Workspace(answer)
    await world.serve(workspace)
    for _ in range(2):
        assert await world.status(GET % b"") == 200
    assert workspace.connections == 2


POISON = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
TOO_MUCH = {
    "a length": [OK + POISON],
    "a length in pieces": [OK[:-1], OK[-1:] + POISON],
    "chunks": [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + POISON
    ],
    "no body": [b"HTTP/1.1 304 Not Modified\r\n\r\n" + POISON],
}


@pytest.mark.parametrize("name", TOO_MUCH)
async def test_what_nobody_asked_for_answers_nobody(world: Wire, name: str) -> None:
    """A second answer in one go must not become the answer to somebody else's question."""
    connections = 0

    async def talkative(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        pieces = TOO_MUCH[name] if connections == 1 else [OK]
        while await reader.readuntil(b"\r\n\r\n"):
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0.01)

    await world.serve(talkative)
    async with world.talk() as talk:
        talk.send(GET % b"")
        assert (await talk.answer()).body in (b"ok", b"")
        talk.send(GET % b"")
        assert (await talk.answer()).body == b"ok"
    assert connections == 2


async def test_what_nobody_asked_for_answers_nobody_later_either() -> None:
    go, said = asyncio.Event(), asyncio.Event()
    connections = 0

    async def talkative(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await go.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        said.set()
        await reader.read()

    async with wire(upstream_idle_seconds=1000) as world, world.talk() as talk:
        await world.serve(talkative)
        assert await ask(talk) == 200
        go.set()
        await until(said.is_set)
        await until(lambda: not world.server.pool._open)
        talk.send(GET % b"")
        assert (await talk.answer()).body == b"ok"
    assert connections == 2


class Forgetful:
    """Answers once on each connection, and closes it when the next request comes."""

    def __init__(self, second: bytes = b"") -> None:
        self.heads: list[bytes] = []
        self.second = second

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.second)
        await writer.drain()


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"OPTIONS", b"DELETE"])
async def test_a_stale_connection_costs_nothing_where_it_is_safe(
    world: Wire, method: bytes
) -> None:
    workspace = Forgetful()
    await world.serve(workspace)
    async with world.talk() as talk:
        assert await ask(talk) == 200
        talk.send(b"%b /again HTTP/1.1\r\nHost: h\r\n\r\n" % method)
        assert (await talk.answer(bodiless=method == b"HEAD")).status == 200
    assert [head.split(b" ")[1] for head in workspace.heads] == [b"/", b"/again", b"/again"]


@pytest.mark.parametrize(
    "request_",
    [
        b"POST / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"PATCH / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi",
        b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi",
        b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
async def test_what_must_not_be_sent_twice_is_not(world: Wire, request_: bytes) -> None:
    workspace = Forgetful()
    await world.serve(workspace)
    async with world.talk() as talk:
        assert await ask(talk) == 200
        assert await ask(talk, request_) == 502
    assert len(workspace.heads) == 2


async def test_after_a_single_byte_nothing_is_sent_again(world: Wire) -> None:
    for begun in (b"H", b"HTTP/1.1 103 Early Hints\r\n\r\n"):
        workspace = Forgetful(begun)
        await world.serve(workspace)
        async with world.talk() as talk:
            assert await ask(talk) == 200
            assert await ask(talk) == 502
        assert len(workspace.heads) == 2


async def test_a_new_connection_that_fails_is_not_tried_again(world: Wire) -> None:
    workspace = Workspace(None)
    await world.serve(workspace)
    assert await world.status(GET % b"") == 502
    assert len(workspace.heads) == 1


async def test_a_request_is_sent_again_once_at_most(world: Wire) -> None:
    workspace = Workspace(OK, None)
    await world.serve(workspace)
    async with world.talk() as talk:
        assert await ask(talk) == 200
        assert await ask(talk) == 502
    assert len(workspace.heads) == 3


async def test_what_must_not_be_sent_twice_takes_a_fresh_connection() -> None:
    post = b"POST / HTTP/1.1\r\nHost: h\r\n\r\n"
    async with wire(upstream_fresh_seconds=PATIENCE) as world:
        workspace = Workspace()
        await world.serve(workspace)
        assert [await world.status(each) for each in (GET % b"", post, post)] == [200] * 3
        assert workspace.connections == 1
    async with wire(upstream_fresh_seconds=-1) as world:
        workspace = Workspace()
        await world.serve(workspace)
        assert [await world.status(each) for each in (GET % b"", post, GET % b"")] == [200] * 3
        assert workspace.connections == 2


async def test_kept_connections_end_when_nobody_needs_them() -> None:
    async with wire(upstream_idle_seconds=0.1) as world:
        workspace = Workspace()
        await world.serve(workspace)
        assert await world.status(GET % b"") == 200
        await until(lambda: workspace.ended == 1)
        await until(lambda: not world.server.pool._idle)


async def test_kept_and_open_connections_have_a_limit() -> None:
    go = asyncio.Event()
    open_now = 0

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        open_now += 1
        try:
            await reader.readuntil(b"\r\n\r\n")
            await go.wait()
            writer.write(OK)
            await reader.read()
        finally:
            open_now -= 1

    async with wire(upstream_connections=3, upstream_idle=2) as world:
        await world.serve(slow)
        asking = [asyncio.create_task(world.status(GET % b"")) for _ in range(3)]
        await until(lambda: open_now == 3)
        assert await world.status(GET % b"") == 503
        go.set()
        assert await asyncio.gather(*asking) == [200, 200, 200]
        await until(lambda: open_now == 2)


def test_a_connection_that_was_held_back_reads_on_when_it_is_kept() -> None:
    """A slow client holds it back up to the last byte of its answer; the next must not wait."""
    gate = OpenGate()
    server = Server(gate, WireLimits())
    link, client = Link(server.pool, (gate.upstream.host, gate.upstream.port)), Client(server)
    workspace, browser = InMemory(), InMemory()
    link.connection_made(workspace)
    client.connection_made(browser)
    server.pool.give(link)
    client.data_received(GET % b"")
    link.data_received(OK[:-1])
    client.pause_writing()
    assert not workspace.reading
    link.data_received(OK[-1:])
    assert browser.written == OK
    assert workspace.reading
    assert server.pool.take(link.address, fresh=False) is link


def test_a_refusal_to_a_client_who_is_gone_already_harms_nobody() -> None:
    class Gone(InMemory):
        def write_eof(self) -> None:
            raise OSError(107, "Transport endpoint is not connected")

    server = Server(OpenGate(), WireLimits())
    client, gone = Client(server), Gone()
    client.connection_made(gone)
    client.data_received(b"nonsense")
    assert gone.written.startswith(b"HTTP/1.1 400 ")


async def test_a_client_that_leaves_while_connecting_leaves_nothing_behind(world: Wire) -> None:
    await world.serve(Workspace())
    async with world.talk() as talk:
        talk.send(GET % b"")
    await until(lambda: not world.server._clients)
    await until(lambda: not world.server._tasks)
    assert await world.status(GET % b"") == 200
    assert len(world.server.pool._open) == 1
