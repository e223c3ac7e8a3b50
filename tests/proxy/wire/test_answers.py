"""Answers of workspaces on their way back: every framing, every kind of bad one, every header."""

from __future__ import annotations

import asyncio
import ssl
import struct
import subprocess
from socket import SO_LINGER, SOL_SOCKET
from typing import TYPE_CHECKING

import pytest

from codehub.model.runtime import Upstream
from codehub.proxy.seam import Answer, Ask
from codehub.proxy.server import Server
from codehub.proxy.wire_limits import WireLimits
from tests.proxy.wire.wire_world import GET, OK, PATIENCE, Workspace, until, wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from codehub.proxy.seam import Forward
    from tests.proxy.wire.wire_world import Wire

pytestmark = pytest.mark.anyio

CHUNKS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
)
GOOD = {
    "a length": (OK, 200, b"ok"),
    "an empty body": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "chunks": (CHUNKS, 200, b"abcde"),
    "trailers": (CHUNKS[:-2] + b"X-Sum: 1\r\nX-More: 2\r\n\r\n", 200, b"abcde"),
    "until the end": (b"HTTP/1.1 200 OK\r\nX: 1\r\n\r\nall of it", 200, b"all of it"),
    "an old one": (b"HTTP/1.0 200 OK\r\nX: 1\r\n\r\nall of it", 200, b"all of it"),
    "no words": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
    "own words": (b"HTTP/1.1 299 Fine by me\r\nContent-Length: 2\r\n\r\nok", 299, b"ok"),
    "hints first": (
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK,
        *(200, b"ok"),
    ),
    "a length that is said to be hop-by-hop": (
        b"HTTP/1.1 200 OK\r\nConnection: content-length\r\nContent-Length: 2\r\n\r\nok",
        *(200, b"ok"),
    ),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
    "an error": (b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno", 500, b"no"),
}


@pytest.mark.parametrize("name", GOOD)
async def test_answers_of_every_shape(world: Wire, name: str) -> None:
    """And the connection is good for the next request after each of them."""
    sent, status, body = GOOD[name]
    await world.serve(Workspace(sent, OK))
    async with world.talk() as talk:
        for expected in ((status, body), (200, b"ok")):
            talk.send(GET % b"")
            answer = await talk.answer()
            assert (answer.status, answer.body) == expected
    assert world.gate.seen.answers == [status, 200]


@pytest.mark.parametrize("name", GOOD)
async def test_answers_of_every_shape_byte_by_byte(world: Wire, name: str) -> None:
    sent, status, body = GOOD[name]

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for at in range(len(sent)):
            writer.write(sent[at : at + 1])
            await asyncio.sleep(0)

    await world.serve(drip)
    async with world.talk() as talk:
        talk.send(GET % b"")
        answer = await talk.answer()
    assert (answer.status, answer.body) == (status, body)


BAD = {
    "both framings": b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "one length twice": b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    "a list of lengths": b"Content-Length: 2, 2\r\n\r\nab",
    "a signed length": b"Content-Length: +2\r\n\r\nab",
    "two encodings": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "an unknown encoding": b"Transfer-Encoding: gzip\r\n\r\n",
    "a split header": b"X: 1\nY: 2\r\nContent-Length: 0\r\n\r\n",
    "a folded header": b"X: 1\r\n 2\r\nContent-Length: 0\r\n\r\n",
    "a space before the colon": b"Content-Length : 0\r\n\r\n",
    "a nul": b"X: \0\r\nContent-Length: 0\r\n\r\n",
    "a bare return": b"X: a\rSet-Cookie: b=c\r\nContent-Length: 0\r\n\r\n",
    "bare line feeds": b"Content-Length: 0\n\n",
    "a head without end": b"X: " + b"a" * 70_000,
}
WORSE = {
    "not HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "not HTTP at all": b"hello",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "an odd version": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "chunks in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a short status": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "a long status": b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    "two spaces": b"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
    "a switch nobody asked for": b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n",
    "hints for ever": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20,
}


@pytest.mark.parametrize(
    "sent",
    [*(b"HTTP/1.1 200 OK\r\n" + each for each in BAD.values()), *WORSE.values()],
    ids=[*BAD, *WORSE],
)
async def test_bad_answers_are_the_gates_to_tell(world: Wire, sent: bytes) -> None:
    async def failed() -> Answer:
        return Answer(502, [(b"X-From", b"gate")], b"it gives no answer")

    async def badly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        if sent.startswith(b"HTTP/1.1 200") and not sent.endswith(b"Content-Le"):
            await reader.read()  # what is wrong is seen without the connection's end
        await writer.drain()
        writer.close()

    world.gate.failed = failed
    await world.serve(badly)
    async with world.talk() as talk:
        talk.send(GET % b"" + GET % b"")
        for _ in range(2):
            answer = await talk.answer()
            assert (answer.status, answer.body) == (502, b"it gives no answer")
    assert world.gate.seen.answers == []


async def test_an_address_that_nobody_can_have_is_told_too(world: Wire) -> None:
    """However the attempt fails: nobody is left waiting, and it counts no longer."""
    world.gate.upstream = Upstream("127.0.0.1", 70_000)
    assert await world.status(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n") == 502
    assert not world.server.pool._open


async def test_nobody_there_is_told_too(world: Wire) -> None:
    assert await world.status(GET % b"") == 502

    async def fails() -> Answer:
        raise RuntimeError("on purpose")

    world.gate.failed = fails
    assert await world.status(GET % b"") == 500


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshorter than that\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n0\r\n",
    ],
)
async def test_an_answer_that_breaks_off_is_not_made_to_look_whole(
    world: Wire, sent: bytes
) -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        await writer.drain()
        writer.close()

    await world.serve(breaks)
    raw = await world.say(GET % b"")
    assert not raw.endswith(b"0\r\n\r\n")
    assert len(raw.partition(b"\r\n\r\n")[2]) < 100


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_an_answer_until_the_end_that_breaks_is_not_made_to_look_whole(
    world: Wire, version: bytes
) -> None:
    """Its connection's end is its end; but a reset is no end."""
    heard = asyncio.Event()

    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nX: 1\r\n\r\nthe first half")
        await heard.wait()
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, linger)
        writer.transport.abort()

    await world.serve(breaks)
    async with world.talk() as talk:
        talk.send(b"GET / HTTP/%b\r\nHost: h\r\n\r\n" % version)
        await talk.reader.readuntil(b"the first half")
        heard.set()
        with pytest.raises(ConnectionResetError):
            await talk.reader.read()


async def test_an_answer_to_head_has_no_body(world: Wire) -> None:
    workspace = Workspace(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\n",
    )
    await world.serve(workspace)
    async with world.talk() as talk:
        for status, length in ((200, "1234"), (200, None), (404, "9")):
            talk.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
            answer = await talk.answer(bodiless=True)
            assert (answer.status, answer.value("content-length")) == (status, length)
    assert workspace.connections == 1


async def test_headers_keep_their_order_and_lose_what_is_not_theirs(world: Wire) -> None:
    world.gate.base = b"/w/api"
    world.gate.forbidden = frozenset({b"__Host-codehub", b"csrf"})
    await world.serve(
        Workspace(
            b"HTTP/1.1 302 Found\r\nSet-Cookie: a=1; Path=/\r\nLocation: /login\r\n"
            b"Set-Cookie: b=2\r\nset-cookie: __Host-codehub=stolen; Secure\r\n"
            b"Set-Cookie:  csrf = x\r\nSet-Cookie: =csrf=x\r\nSet-Cookie: csrf\r\n"
            b"SET-COOKIE: csrfy=1\r\nKeep-Alive: 5\r\nConnection: X-Inner, keep-alive\r\n"
            b"X-Inner: 1\r\nProxy-Authenticate: x\r\nTrailer: y\r\nContent-Length: 0\r\n"
            b"Content-Location: /there\r\n\r\n"
        )
    )
    async with world.talk() as talk:
        talk.send(GET % b"w/api/")
        answer = await talk.answer()
    assert answer.head.decode().split("\r\n") == [
        *("HTTP/1.1 302 Found", "Set-Cookie: a=1; Path=/", "Location: /w/api/login"),
        *("Set-Cookie: b=2", "SET-COOKIE: csrfy=1", "Content-Length: 0"),
        "Content-Location: /w/api/there",
    ]


@pytest.mark.parametrize("base", [b"", b"/w/api"])
async def test_a_workspace_has_no_say_over_a_web_server_in_front(world: Wire, base: bytes) -> None:
    """nginx would serve a file or a place of its own instead, also one for nobody's eyes."""
    world.gate.base = base
    orders = b"X-Accel-Redirect: /report\r\nx-sendfile: /etc/passwd\r\nX-LIGHTTPD-send-file: /a\r\n"
    usual = b"X-Accel-Buffering: no\r\nContent-Length: 2\r\n\r\nok"
    await world.serve(Workspace(b"HTTP/1.1 200 OK\r\n" + orders + usual))
    async with world.talk() as talk:
        talk.send(b"GET /w/api/ HTTP/1.1\r\nHost: h\r\n\r\n")
        got = await talk.answer()
    assert b"x-sendfile" not in got.head.lower()
    assert b"x-lighttpd" not in got.head.lower()
    assert got.values("X-Accel-Redirect") == []
    assert got.value("X-Accel-Buffering") == "no"
    assert got.body == b"ok"


async def test_a_workspace_on_the_hubs_host_keeps_to_its_own_paths(world: Wire) -> None:
    sent = b'Clear-Site-Data: "cookies"\r\nService-Worker-Allowed: %b\r\nContent-Length: 0\r\n\r\n'
    scopes = (b"/", b"/w/api/sub/", b"/w/api/../", b"/w/api/%2E./", b"/w/apis/")
    answers = (b"HTTP/1.1 200 OK\r\n" + sent % scope for scope in (*scopes, b"/"))
    await world.serve(Workspace(*answers))
    world.gate.base = b"/w/api"
    async with world.talk() as talk:
        for expected in ("/w/api/", "/w/api/sub/", "/w/api/", "/w/api/", "/w/api/"):
            talk.send(GET % b"w/api/")
            answer = await talk.answer()
            assert answer.value("service-worker-allowed") == expected
            assert answer.value("clear-site-data") is None
        world.gate.base = b""
        talk.send(GET % b"")
        answer = await talk.answer()
        assert answer.value("service-worker-allowed") == "/"
        assert answer.value("clear-site-data") is None, "cookies of the whole domain would go"


async def test_events_are_passed_on_as_they_come(world: Wire) -> None:
    step = asyncio.Queue[bytes]()

    async def events(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while event := await step.get():
            writer.write(event)

    await world.serve(events)
    async with world.talk() as talk:
        talk.send(GET % b"")
        await talk.reader.readuntil(b"\r\n\r\n")
        for number in range(5):
            event = b"data: %d\n\n" % number
            step.put_nowait(event)
            await talk.reader.readuntil(b"\r\n")
            assert await talk.reader.readexactly(len(event) + 2) == event + b"\r\n"
        step.put_nowait(b"")
        assert await talk.reader.readuntil(b"\r\n\r\n") == b"0\r\n\r\n"


# The hub's own


async def test_our_own_answers(world: Wire) -> None:
    headers = [(b"X-A", b"1"), (b"X-Split", b"a\r\nSet-Cookie: b=c"), (b"Content-Length", b"99")]
    world.gate.verdict = lambda _: Answer(201, headers, b"made")
    async with world.talk() as talk:
        talk.send(GET % b"")
        answer = await talk.answer()
        assert answer.head == b"HTTP/1.1 201 Created\r\nX-A: 1\r\nContent-Length: 4"
        assert answer.body == b"made"
        talk.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" + GET % b"")
        assert (await talk.answer(bodiless=True)).value("content-length") == "4"
        world.gate.verdict = lambda _: Answer(304, [])
        assert (await talk.answer()).status == 201
        talk.send(GET % b"")
        assert (await talk.answer()).head == b"HTTP/1.1 304 Not Modified"


async def test_our_own_answers_piece_by_piece(world: Wire) -> None:
    closed = asyncio.Event()
    more = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            yield b"one"
            yield b""
            await more.wait()
            yield b"two"
        finally:
            closed.set()

    world.gate.verdict = lambda _: Answer(200, [], pieces())
    async with world.talk() as talk:
        talk.send(GET % b"")
        await talk.reader.readuntil(b"\r\n\r\n3\r\none\r\n")
        assert not closed.is_set()
        more.set()
        assert await talk.reader.readuntil(b"0\r\n\r\n") == b"3\r\ntwo\r\n0\r\n\r\n"
    assert (await world.say(b"GET / HTTP/1.0\r\n\r\n")).endswith(b"\r\n\r\nonetwo")
    more.clear()
    closed.clear()
    async with world.talk() as talk:
        talk.send(GET % b"")
        await talk.reader.readuntil(b"one\r\n")
    await until(closed.is_set)


async def test_an_answer_of_ours_that_breaks_is_not_made_to_look_whole(world: Wire) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise RuntimeError("on purpose")

    world.gate.verdict = lambda _: Answer(200, [], pieces())
    raw = await world.say(GET % b"")
    assert not raw.endswith(b"0\r\n\r\n")


async def test_a_gate_that_fails_is_an_error_of_ours(world: Wire) -> None:
    async def fails(_: bytes) -> Answer | Forward:
        raise RuntimeError("on purpose")

    world.gate.verdict = lambda _: Ask(fails)
    assert await world.status(GET % b"") == 500
    world.gate.verdict = lambda _: 1 / 0  # type: ignore[assignment,return-value]
    assert await world.status(GET % b"") == 500


async def test_answers_may_take_only_so_long_where_that_is_set() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with wire(answer_seconds=0.1, linger_seconds=0.1) as world:
        await world.serve(silent)
        assert await world.status(GET % b"") == 502


# TLS


def certificate(directory: Path) -> ssl.SSLContext:
    key, cert = directory / "key.pem", directory / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-subj", "/CN=hub.test", "-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


async def test_tls(world: Wire, tmp_path: Path) -> None:
    await world.serve(Workspace(OK, b"HTTP/1.1 200 OK\r\n\r\nall of it"))
    server = Server(world.gate, WireLimits())
    port = await server.start(ssl=certificate(tmp_path))
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        writer.write(GET % b"" + b"GET / HTTP/1.0\r\n\r\n")
        assert await reader.readuntil(b"ok") == OK
        assert (await reader.read()).endswith(b"\r\n\r\nall of it")
        writer.close()
    await server.drain(1)
    assert [head.secure for head in world.gate.heads] == [True, True]
