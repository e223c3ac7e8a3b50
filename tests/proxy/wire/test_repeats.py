"""Heads that come again are not read again: what is made of them is the same all the same."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.proxy.framing import Bad
from codehub.proxy.parsing import Request, RequestParser, ResponseParser, parse_response
from tests.proxy.wire.wire_world import Workspace

if TYPE_CHECKING:
    from tests.proxy.wire.wire_world import Wire

BLOCKS = [
    b"Host: localhost\r\n\r\n",
    b"Host: localhost\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n",
    b"Host: localhost\r\nTE: trailers\r\nConnection: TE\r\n\r\n",
    b"Host: localhost\r\nConnection: close\r\n\r\n",
    b"Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"Host: localhost\r\nContent-Length: 0\r\n\r\n",
    b"Host: localhost\r\nContent-Length: 3\r\n\r\n",
    b"Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"Host: a\r\nHost: b\r\n\r\n",
    b"Host: localhost\r\nX : y\r\n\r\n",
    b"\r\n",
]
LINES = [
    *(b"GET / HTTP/1.1\r\n", b"GET /w/api/x?y=%20 HTTP/1.1\r\n", b"GET /w/api/a~b@c HTTP/1.1\r\n"),
    *(b"HEAD / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\n", b"GET / HTTP/1.0\r\n", b"GET / HTTP/2\r\n"),
    *(b"GET /# HTTP/1.1\r\n", b"GET /\xc3\xa4 HTTP/1.1\r\n", b"GET x HTTP/1.1\r\n"),
    *(b"GET  / HTTP/1.1\r\n", b"GET / HTTP/1.1 \r\n", b"GET http://a/ HTTP/1.1\r\n"),
    *(b"CONNECT a:1 HTTP/1.1\r\n", b"GET /a b HTTP/1.1\r\n", b"GET /\x00 HTTP/1.1\r\n"),
]
ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
]


def facts(request: Request) -> dict[str, Any]:
    """All that a request says, and what is found in it by name."""
    said = {each.name: getattr(request, each.name) for each in fields(request)}
    head = said.pop("head")
    named = {name.lower(): head.all(name.lower()) for name, _ in head.headers}
    return said | {
        "named": named,
        "line": (head.method, head.target),
        "headers": head.headers,
        "where": (head.peer, head.secure, head.again),
    }


def read(parser: RequestParser, raw: bytes) -> dict[str, Any] | tuple[int, str]:
    try:
        return facts(parser.parse(raw))
    except Bad as bad:
        return bad.status, bad.reason


def a_parser() -> RequestParser:
    return RequestParser("192.0.2.1", secure=False, most=100)


@given(st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(BLOCKS)), max_size=12))
def test_requests_are_read_as_if_each_were_the_first(said: list[tuple[bytes, bytes]]) -> None:
    parser = a_parser()
    for line, block in said:
        found = read(parser, line + block)
        assert found == read(a_parser(), line + block), (line, block)
        if isinstance(found, tuple) or found["length"] or not found["keep_alive"]:
            return  # something else follows, or nothing


@given(st.lists(st.sampled_from(ANSWERS), max_size=12))
def test_so_are_answers(said: list[bytes]) -> None:
    parser = ResponseParser()
    for head in said:
        try:
            fresh = parse_response(head)
        except Bad:
            with pytest.raises(Bad):
                parser.parse(head)
            return
        assert parser.parse(head) == fresh


def test_they_share_what_the_gate_keeps() -> None:
    """As long as nothing but the address is another."""
    parser, other = a_parser(), b"Host: localhost\r\nX: y\r\n\r\n"
    first = parser.parse(b"GET /a HTTP/1.1\r\n" + BLOCKS[0]).head
    second = parser.parse(b"GET /b HTTP/1.1\r\n" + BLOCKS[0]).head
    assert first.same is not None
    assert second.same is first.same
    assert (first.target, second.target) == (b"/a", b"/b")
    third = parser.parse(b"GET /b HTTP/1.1\r\n" + other).head
    assert third.same not in (None, first.same)
    for raw in (b"POST /b HTTP/1.1\r\n" + other, b"GET /b HTTP/1.1\r\n" + BLOCKS[6]):
        assert a_parser().parse(raw).head.same is None


@pytest.mark.anyio
async def test_a_connection_whose_heads_repeat_gets_each_answer(world: Wire) -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
    answers = [page + b"a", page + b"b", page, page + b"c", page + b"d"]
    workspace = Workspace(*answers)
    await world.serve(workspace)
    async with world.talk() as talk:
        got = []
        for line in (b"GET /1", b"GET /2", b"HEAD /3", b"POST /4", b"GET /5"):
            talk.send(line + b" HTTP/1.1\r\n" + BLOCKS[1])
            answer = await talk.answer(bodiless=line.startswith(b"HEAD"))
            got.append((answer.status, answer.body))
    assert got == [(200, b"a"), (200, b"b"), (200, b""), (200, b"c"), (200, b"d")]
    lines = [each.partition(b"\r\n")[0].split(b" ")[1] for each in workspace.heads]
    assert lines == [b"/1", b"/2", b"/3", b"/4", b"/5"]
    assert all(b"Cookie: a=1\r\n" in each for each in workspace.heads)
