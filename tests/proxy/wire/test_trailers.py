"""Trailers of bodies in chunks: on they go, where that is safe and somebody takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.proxy.bodies import ChunkReader
from codehub.proxy.framing import Bad
from codehub.proxy.trailers import announcement, last_chunk
from tests.proxy.wire.test_bodies import cut
from tests.proxy.wire.wire_world import OK, PATIENCE, Workspace, wire

if TYPE_CHECKING:
    import asyncio

    from tests.proxy.wire.wire_world import Wire

pytestmark = pytest.mark.anyio

CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n%b\r\n3\r\nabc\r\n0\r\n%b\r\n"
PUT = b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n%b\r\n3\r\nabc\r\n0\r\n%b\r\n"
SUM = b"X-Sum: 1\r\nServer-Timing: db;dur=2\r\n"
FORBIDDEN = [
    *("Content-Length: 3", "Transfer-Encoding: chunked", "Host: evil", "Connection: close"),
    *("Keep-Alive: 5", "TE: trailers", "Trailer: X-Sum", "Upgrade: websocket"),
    *("Authorization: Bearer x", "Proxy-Authorization: x", "WWW-Authenticate: Basic"),
    *("Proxy-Authenticate: Basic", "Cookie: codehub=x", "Set-Cookie: codehub=x"),
    *("X-Forwarded-For: 1.2.3.4", "X-Forwarded-Anything: x", "Forwarded: for=x"),
    *("X-Real-IP: 1.2.3.4", "X-CodeHub-Wake: 1", "x-codehub-user: admin", "Remote-User: admin"),
    *("X_Sum: 1", "X_Forwarded_For: 1.2.3.4", "X-CSRF-Token: x"),
    *("Content-Type: text/html", "Content-Encoding: gzip", "Content-Range: bytes 0-1/2"),
    *("Content-Security-Policy: x", "Cache-Control: no-store", "Expect: 100-continue"),
    *("If-Match: x", "If-None-Match: x", "Range: bytes=0-", "Max-Forwards: 1", "Pragma: x"),
    *("Location: //evil", "Date: x", "Expires: x", "Age: 1", "Vary: x", "Retry-After: 1"),
    *("Access-Control-Allow-Origin: *", "Origin: x", "Sec-Fetch-Site: x", "Clear-Site-Data: x"),
    *("Accept: x", "Accept-Encoding: x", "Referer: x", "User-Agent: x"),
]


async def hear(world: Wire, sent: bytes, end: bytes) -> bytes:
    """All that comes back, up to its end."""
    async with world.talk() as talk:
        talk.send(sent)
        return await talk.reader.readuntil(end)


async def put(world: Wire, sent: bytes) -> tuple[bytes, bytes]:
    """The head and the body that a workspace gets for it."""
    got: list[bytes] = []

    async def takes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"\r\n\r\n"))
        got.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        await writer.drain()

    await world.serve(takes)
    assert await world.status(sent) == 200
    return got[0], got[1]


# Answers


async def test_trailers_of_an_answer_reach_whoever_takes_them(world: Wire) -> None:
    await world.serve(Workspace(CHUNKS % (b"Trailer: X-Sum, Set-Cookie\r\n", SUM), OK))
    async with world.talk() as talk:
        talk.send(b"GET / HTTP/1.1\r\nHost: h\r\nTE: deflate, Trailers\r\n\r\n")
        head = await talk.reader.readuntil(b"\r\n\r\n")
        assert head.endswith(b"\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n")
        body = await talk.reader.readuntil(b"\r\n\r\n")
        assert body == b"3\r\nabc\r\n0\r\n" + SUM + b"\r\n"
        talk.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await talk.answer()).body == b"ok", "and both connections are good for the next"


async def test_the_workspace_hears_that_they_are_taken(world: Wire) -> None:
    workspace = Workspace()
    await world.serve(workspace)
    for asked, told in ((b"TE: trailers\r\n", True), (b"TE: gzip\r\n", False), (b"", False)):
        await world.status(b"GET / HTTP/1.1\r\nHost: h\r\n%b\r\n" % asked)
        assert (workspace.lines[-2:] == ["Connection: TE", "TE: trailers"]) is told


@pytest.mark.parametrize("asked", [b"", b"TE: gzip\r\n"])
async def test_others_get_the_body_alone(world: Wire, asked: bytes) -> None:
    await world.serve(Workspace(CHUNKS % (b"Trailer: X-Sum\r\n", SUM)))
    raw = await hear(world, b"GET / HTTP/1.1\r\nHost: h\r\n%b\r\n" % asked, b"\r\n0\r\n\r\n")
    assert raw.endswith(b"chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    assert b"railer" not in raw


async def test_an_old_client_gets_the_body_alone(world: Wire) -> None:
    await world.serve(Workspace(CHUNKS % (b"", SUM)))
    raw = await world.say(b"GET / HTTP/1.0\r\nTE: trailers\r\n\r\n")
    assert raw.endswith(b"\r\n\r\nabc")


async def test_a_document_that_was_added_to_has_none(world: Wire) -> None:
    """A checksum of what the workspace sent is not one of what the browser gets."""
    world.gate.script = b"<script></script>"
    page = b"<!doctype html><head>"
    await world.serve(
        Workspace(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTrailer: X-Sum\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n"
            % (len(page), page)
            + SUM
            + b"\r\n"
        )
    )
    ask = b"GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n"
    raw = await hear(world, ask, b"\r\n0\r\n\r\n")
    assert b"<script></script>" in raw
    assert b"railer" not in raw


@pytest.mark.parametrize("line", FORBIDDEN)
async def test_what_means_something_elsewhere_is_no_trailer(world: Wire, line: str) -> None:
    """Neither of an answer nor of a request; the others go on."""
    name, both = line.partition(":")[0].encode(), line.encode() + b"\r\n" + SUM
    await world.serve(Workspace(CHUNKS % (b"Trailer: %b, X-Sum\r\n" % name, both)))
    ask = b"GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n"
    raw = await hear(world, ask, SUM + b"\r\n")
    assert raw.endswith(b"Trailer: x-sum\r\n\r\n3\r\nabc\r\n0\r\n" + SUM + b"\r\n")
    head, body = await put(world, PUT % (b"Trailer: %b, X-Sum\r\n" % name, both))
    assert head.endswith(b"\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n")
    assert body == b"3\r\nabc\r\n0\r\n" + SUM + b"\r\n"


async def test_what_is_said_to_be_about_one_connection_is_no_trailer(world: Wire) -> None:
    named = b"Connection: X-Sum\r\nTrailer: X-Sum\r\n"
    await world.serve(Workspace(CHUNKS % (named, SUM)))
    ask = b"GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n"
    raw = await hear(world, ask, b"dur=2\r\n\r\n")
    assert b"sum" not in raw.lower()
    head, body = await put(world, PUT % (named, SUM))
    assert b"sum" not in (head + body).lower()
    assert body.endswith(b"\r\n0\r\nServer-Timing: db;dur=2\r\n\r\n")


# Requests


async def test_trailers_of_a_request_reach_the_workspace(world: Wire) -> None:
    head, body = await put(world, PUT % (b"Trailer: X-Sum\r\n", SUM))
    assert head.endswith(b"\r\nTrailer: x-sum\r\n\r\n")
    assert body == b"3\r\nabc\r\n0\r\n" + SUM + b"\r\n"


async def test_and_are_not_those_of_the_next_one(world: Wire) -> None:
    got = bytearray()

    async def takes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            got.extend(await reader.readuntil(b"\r\n\r\n"))
            got.extend(await reader.readuntil(b"\r\n\r\n"))
            writer.write(OK)

    async with wire(upstream_fresh_seconds=PATIENCE) as world, world.talk() as talk:
        await world.serve(takes)
        talk.send(PUT % (b"", SUM) + PUT % (b"", b""))
        for _ in range(2):
            assert (await talk.answer()).body == b"ok"
    assert got.count(SUM) == 1
    assert got.endswith(b"3\r\nabc\r\n0\r\n\r\n")


async def test_the_web_application_gets_none(world: Wire) -> None:
    world.gate.own = True
    head, body = await put(world, PUT % (b"Trailer: X-Sum\r\n", SUM))
    assert b"railer" not in head
    assert body == b"3\r\nabc\r\n0\r\n\r\n"


# Taken apart


NAMES = st.text("abcXYZ-", min_size=1, max_size=10).map(str.encode)
FIELDS = st.lists(st.tuples(NAMES, st.text("abc ;=\t", max_size=10).map(str.encode)), max_size=5)


@given(FIELDS, st.lists(st.integers(0, 1000), max_size=8))
def test_they_are_the_same_however_they_are_cut(
    fields: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    lines = b"".join(b"%b:%b\r\n" % field for field in fields)
    reader = ChunkReader()
    for piece in cut(b"1\r\na\r\n0\r\n" + lines + b"\r\n", places):
        reader.feed(piece)
    assert list(reader.trailers) == [(name, value.strip(b" \t")) for name, value in fields]
    assert reader.rest == b""


def test_there_may_be_as_many_as_headers() -> None:
    some = b"0\r\n" + b"X: 1\r\n" * 100
    reader = ChunkReader()
    reader.feed(some + b"\r\n")
    assert len(reader.trailers) == 100
    for too_many in (some + b"X: 1\r\n\r\n", b"0\r\nX: %b\r\n\r\n" % (b"a" * 17_000)):
        with pytest.raises(Bad):
            ChunkReader().feed(too_many)


def test_an_announcement_names_only_what_comes() -> None:
    declared = [b"X-Sum , set-cookie,", b"x y, Content-Digest, a_b"]
    assert announcement(declared, frozenset({b"x-gone"})) == b"Trailer: content-digest, x-sum\r\n"
    assert announcement([b"X-Gone"], frozenset({b"x-gone"})) == b""
    assert last_chunk([], frozenset()) == b"0\r\n\r\n"
