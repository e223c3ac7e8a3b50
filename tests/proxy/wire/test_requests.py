"""Requests on the wire: what is passed on, what is refused, and in which order all is answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from codehub.proxy.seam import Answer, Ask
from tests.proxy.wire.wire_world import GET, OK, Workspace, until, wire

if TYPE_CHECKING:
    from codehub.proxy.seam import Forward, RequestHead, Verdict
    from tests.proxy.wire.wire_world import Wire

pytestmark = pytest.mark.anyio

POST = b"POST / HTTP/1.1\r\nHost: hub.test\r\n"


async def test_a_request_is_written_anew(world: Wire) -> None:
    workspace = Workspace()
    await world.serve(workspace)
    async with world.talk() as talk:
        talk.send(
            b'GET /a/..%2F%zz/../x"<>\\^`{|}\xc3\xa4?q=1&q=2? HTTP/1.1\r\n'
            b"host: Hub.test:1\r\nCookie: a=1\r\nX-Two: 1\r\nx-two:   2 \r\nX-Empty:\r\n"
            b"Keep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nConnection: keep-alive\r\n"
            b"Proxy-Authorization: x\r\nX-Hidden: 1\r\n\r\n"
        )
        assert (await talk.answer()).body == b"ok"
    assert workspace.lines == [
        'GET /a/..%2F%zz/../x"<>\\^`{|}\xc3\xa4?q=1&q=2? HTTP/1.1',
        *("host: Hub.test:1", "Cookie: a=1", "X-Two: 1", "x-two: 2", "X-Empty: "),
        *("Connection: TE", "TE: trailers"),
    ]


@pytest.mark.parametrize("target", [b"/?", b"/a/./b/..", b"//double", b"/%00", b"/w/x%2Fy?a=%2F?"])
async def test_targets_pass_byte_for_byte(world: Wire, target: bytes) -> None:
    workspace = Workspace()
    await world.serve(workspace)
    assert await world.status(b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % target) == 200
    assert workspace.heads[0].startswith(b"GET %b HTTP/1.1\r\n" % target)
    assert world.gate.heads[0].target == target


SMUGGLING = {
    "length and chunks": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    "one length twice": POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
    "a list of lengths": POST + b"Content-Length: 4, 4\r\n\r\nabcd",
    "a signed length": POST + b"Content-Length: +4\r\n\r\nabcd",
    "a negative length": POST + b"Content-Length: -4\r\n\r\nabcd",
    "a length in hex": POST + b"Content-Length: 0x4\r\n\r\nabcd",
    "a length with a gap": POST + b"Content-Length: 1 0\r\n\r\nabcd",
    "an endless length": POST + b"Content-Length: 99999999999999999999999\r\n\r\nabcd",
    "no length": POST + b"Content-Length:\r\n\r\nabcd",
    "an odd encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "an encoding in quotes": POST + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "two encodings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunks in two headers": POST
    + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks not last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "an encoding with a tab": POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "a hidden encoding": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "an encoding on a bare line": POST + b"X: 1\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an encoding after a bare return": POST + b"X: 1\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded encoding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a folded header": POST + b"X: a\r\n b\r\n\r\n",
    "a fold at the beginning": b"GET / HTTP/1.1\r\n Host: hub.test\r\n\r\n",
    "a nul": POST + b"Content-Length: 4\0\r\n\r\nabcd",
    "a nul in a name": POST + b"Cont\0ent-Length: 4\r\n\r\n",
    "a control character": POST + b"X: a\x01b\r\n\r\n",
    "a delete character": POST + b"X: a\x7fb\r\n\r\n",
    "a bracket in a name": POST + b"X(: a\r\n\r\n",
    "a name outside ASCII": POST + b"X\xe4: a\r\n\r\n",
    "no name": POST + b": a\r\n\r\n",
    "no colon": POST + b"Content-Length\r\n\r\n",
    "a second host": POST + b"Host: other\r\n\r\n",
    "the same host again": POST + b"Host: hub.test\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\nX: 1\r\n\r\n",
    "an empty host": b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "a host with a path": b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a host with a user": b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
    "a host with a space": b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "two hosts in one": b"GET / HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an absolute target": b"GET http://hub.test/ HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "another's target": b"GET //evil HTTP/1.1\r\nHost: hub.test\r\nHost: evil\r\n\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "a target without slash": b"GET a HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "a fragment": b"GET /a#b HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "a fragment after UTF-8": b"GET /\xc3\xa4#b HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "a control character in the target": b"GET /a\x0bb HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "a nul after UTF-8": b"GET /\xc3\xa4\x00 HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "two spaces": b"GET  / HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "a tab": b"GET\t/ HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "a space at the end": b"GET / HTTP/1.1 \r\nHost: hub.test\r\n\r\n",
    "an empty line first": b"\r\nGET / HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "no version": b"GET /\r\nHost: hub.test\r\n\r\n",
    "version 0.9": b"GET / HTTP/0.9\r\nHost: hub.test\r\n\r\n",
    "version 1.2": b"GET / HTTP/1.2\r\nHost: hub.test\r\n\r\n",
    "version 2.0": b"GET / HTTP/2.0\r\nHost: hub.test\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a version in small letters": b"GET / http/1.1\r\nHost: hub.test\r\n\r\n",
    "another protocol": b"PLAY / RTSP/1.0\r\nHost: hub.test\r\n\r\n",
    "a method in small letters": b"get / HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "an unknown method": b"GETT / HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "CONNECT": b"CONNECT hub.test:80 HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "CONNECT to a path": b"CONNECT / HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "TRACE": b"TRACE / HTTP/1.1\r\nHost: hub.test\r\n\r\n",
    "bare line feeds": b"GET / HTTP/1.1\nHost: hub.test\n\n",
    "a bare line feed at the end": b"GET / HTTP/1.1\r\nHost: hub.test\r\n\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "an odd expectation": POST + b"Expect: a-pony\r\nContent-Length: 1\r\n\r\na",
}
REFUSALS = (400, 417, 501, 505)


@pytest.mark.parametrize("name", SMUGGLING)
async def test_what_could_be_read_in_two_ways_reaches_nobody(world: Wire, name: str) -> None:
    """Neither it nor what stands behind it; and the connection ends."""
    workspace = Workspace()
    await world.serve(workspace)
    raw = await world.say(SMUGGLING[name] + GET % b"smuggled")
    assert int(raw.split(b" ")[1]) in REFUSALS
    assert raw.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close\r\n" in raw
    assert workspace.heads == []
    assert world.gate.heads == []


CHUNKS = {
    "a bare line feed": b"3\nabc\r\n0\r\n\r\n",
    "no size": b"\r\nabc\r\n0\r\n\r\n",
    "a size in words": b"three\r\nabc\r\n0\r\n\r\n",
    "a signed size": b"+3\r\nabc\r\n0\r\n\r\n",
    "a prefixed size": b"0x3\r\nabc\r\n0\r\n\r\n",
    "a size with a space": b"3 \r\nabc\r\n0\r\n\r\n",
    "a space before the size": b" 3\r\nabc\r\n0\r\n\r\n",
    "an endless size": b"ffffffffffffffff3\r\nabc\r\n0\r\n\r\n",
    "more than it says": b"3\r\nabcd\r\n0\r\n\r\n",
    "less than it says": b"4\r\nabc\r\n0\r\n\r\n",
    "a line feed after the chunk": b"3\r\nabc\n0\r\n\r\n",
    "a long extension": b"3;" + b"x" * 2000 + b"\r\nabc\r\n0\r\n\r\n",
    "a line feed in an extension": b"3;a=\n\r\nabc\r\n0\r\n\r\n",
    "a nul in an extension": b"3;a=\0\r\nabc\r\n0\r\n\r\n",
    "a trailer without colon": b"0\r\nabc\r\n\r\n",
    "a folded trailer": b"0\r\nX: 1\r\n b\r\n\r\n",
    "endless trailers": b"0\r\n" + b"X: 1\r\n" * 5000 + b"\r\n",
}


@pytest.mark.parametrize("name", CHUNKS)
async def test_broken_chunks_end_the_request(world: Wire, name: str) -> None:
    ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(-1)
        finally:
            ended.set()

    await world.serve(silent)
    raw = await world.say(POST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS[name])
    assert raw.startswith(b"HTTP/1.1 400 ")
    assert raw.count(b"HTTP/1.1 ") == 1
    await until(ended.is_set)


async def test_heads_have_a_limit(world: Wire) -> None:
    large = b"GET / HTTP/1.1\r\nHost: h\r\nX: %b\r\n\r\n"
    await world.serve(Workspace())
    assert await world.status(large % (b"a" * 30_000)) == 200
    assert await world.status(large % (b"a" * 40_000)) == 431
    assert await world.status((large % (b"a" * 40_000))[:-2]) == 431
    assert await world.status(b"GET / HTTP/1.1\r\nHost: h\r\n%b\r\n" % (b"X: 1\r\n" * 99)) == 200
    assert await world.status(b"GET / HTTP/1.1\r\nHost: h\r\n%b\r\n" % (b"X: 1\r\n" * 100)) == 431


async def test_slow_heads_are_refused() -> None:
    async with wire(head_seconds=1.5) as world, world.talk() as drips, world.talk() as silent:
        drips.send(b"GET / HTTP/1.1\r\n")

        async def drip() -> None:
            while True:
                drips.send(b"X: 1\r\n")
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        try:
            assert (await drips.answer()).status == 408
        finally:
            dripping.cancel()
        assert await silent.rest() == b""


async def test_idle_connections_are_closed() -> None:
    async with wire(idle_seconds=0.2) as world, world.talk() as talk:
        await world.serve(Workspace())
        talk.send(GET % b"")
        assert (await talk.answer()).status == 200
        assert await talk.rest() == b""


# One after the other


async def test_requests_in_one_go_are_answered_in_order(world: Wire) -> None:
    await world.serve(
        Workspace(*(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % n for n in range(3)))
    )

    def verdict(head: RequestHead) -> Verdict:
        if head.path == b"/own":
            return Answer(200, [], b"own")
        if head.path == b"/ask":
            return Ask(slowly, 100)
        return world.gate.forward(head)

    async def slowly(body: bytes) -> Answer | Forward:
        await asyncio.sleep(0.01)
        return Answer(200, [], b"asked " + body)

    world.gate.verdict = verdict
    ask = b"POST /ask HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"
    async with world.talk() as talk:
        talk.send(GET % b"" + GET % b"own" + ask + GET % b"" + GET % b"own" * 2 + GET % b"")
        bodies = [(await talk.answer()).body for _ in range(7)]
    assert bodies == [b"0", b"own", b"asked hi", b"1", b"own", b"own", b"2"]


async def test_a_thousand_requests_in_one_go(world: Wire) -> None:
    """They are answered without one call inside the other, and without reading ahead for ever."""
    world.gate.verdict = lambda head: Answer(200, [], head.target)
    async with world.talk() as talk:
        talk.send(b"".join(GET % str(number).encode() for number in range(1000)))
        for number in range(1000):
            assert (await talk.answer()).body == b"/%d" % number


async def test_a_request_byte_by_byte(world: Wire) -> None:
    workspace = Workspace()
    await world.serve(workspace)
    raw = POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    got = bytearray()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        got.extend(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(OK)
        await writer.drain()

    await world.serve(echo)
    async with world.talk() as talk:
        for at in range(len(raw)):
            talk.send(raw[at : at + 1])
            await asyncio.sleep(0)
        assert (await talk.answer()).body == b"ok"
    assert b"".join(bytes(got).split(b"\r\n")[1::2]) == b"abc"


async def test_connection_close_is_said_and_done(world: Wire) -> None:
    await world.serve(Workspace())
    close = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    raw = await world.say(close + GET % b"more")
    assert raw.startswith(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    assert raw.count(b"HTTP/1.1 ") == 1


async def test_old_clients_get_what_they_understand(world: Wire) -> None:
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    workspace = Workspace(OK, chunks, OK)
    await world.serve(workspace)
    assert await world.say(b"GET / HTTP/1.0\r\n\r\n") == OK.replace(
        b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"
    )
    raw = await world.say(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert raw == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc"
    assert workspace.heads[0] == b"GET / HTTP/1.1\r\n\r\n"
    async with world.talk() as talk:
        for _ in range(2):
            talk.send(b"GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n")
            assert (await talk.answer()).value("connection") == "keep-alive"


# Who may connect


async def test_connections_have_a_limit_and_room_comes_back() -> None:
    async with wire(connections=2) as world:
        world.gate.verdict = lambda _: Answer(200, [], b"in")
        held = [await world.open() for _ in range(2)]
        for each in held:
            each.send(GET % b"")
            assert (await each.answer()).status == 200
        assert await world.status(b"") == 503
        for each in held:
            await each.close()
        async with asyncio.timeout(60):
            while await world.status(GET % b"") != 200:
                pass


async def test_one_address_cannot_take_all() -> None:
    async with wire(connections_per_address=1) as world, world.talk() as talk:
        world.gate.verdict = lambda head: Answer(200, [], head.peer.encode())
        talk.send(GET % b"")
        assert (await talk.answer()).body == b"127.0.0.1"
        assert await world.status(b"") == 503


@pytest.mark.parametrize("network", ["127.0.0.1", "127.0.0.0/8", "127.0.0.1/32"])
async def test_those_in_front_speak_for_many_and_are_not_capped(network: str) -> None:
    listed = frozenset({"10.0.0.0/8", "2001:db8::/32", network})
    async with wire(connections_per_address=1, uncapped=listed) as world:
        world.gate.verdict = lambda _: Answer(200, [], b"in")
        async with world.talk(), world.talk() as talk:
            talk.send(GET % b"")
            assert (await talk.answer()).status == 200
    others = listed - {network}
    async with wire(connections_per_address=1, uncapped=others) as world, world.talk() as talk:
        world.gate.verdict = lambda _: Answer(200, [], b"in")
        talk.send(GET % b"")
        assert (await talk.answer()).status == 200
        assert await world.status(b"") == 503


async def test_a_crowd_beyond_the_limit_is_not_even_told() -> None:
    async with wire(connections=1, linger_seconds=60) as world:
        crowd = [await world.open() for _ in range(80)]
        heard = await asyncio.gather(*(each.rest() for each in crowd[1:]))
        assert [each.startswith(b"HTTP/1.1 503 ") for each in heard] == [True] * 64 + [False] * 15
        assert heard[64:] == [b""] * 15
        for each in crowd:
            await each.close()
