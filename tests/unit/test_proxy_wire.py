"""Heads and bodies on the wire: what is read, and everything that two programs could read apart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model.runtime import Upstream
from codehub.model.workspace import PathPrefix
from codehub.proxy.body import Cut, Framing, pieces, request_framing, response_framing
from codehub.proxy.forward import Errand, relocate
from codehub.proxy.splice import FrameScanner
from codehub.proxy.wire import (
    HEAD_LIMIT,
    Bad,
    Head,
    Request,
    kept_headers,
    parse_request,
    parse_status,
    read_head,
)

pytestmark = pytest.mark.anyio

HOST = b"Host: localhost\r\n"


def stream(data: bytes, *, ended: bool = True) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=HEAD_LIMIT)
    reader.feed_data(data)
    if ended:
        reader.feed_eof()
    return reader


async def request(data: bytes) -> Request:
    head = await read_head(stream(data, ended=False))
    assert head is not None
    return parse_request(head)


async def test_a_request_is_read_byte_for_byte() -> None:
    found = await request(
        b'GET /w/api/..%2F%zz"\xc3\xa9?a=b? HTTP/1.1\r\n' + HOST + b"X-A: 1 \r\nx-a:\t2\r\n\r\n"
    )
    assert (found.method, found.path) == ("GET", '/w/api/..%2F%zz"Ã©')
    assert found.target.endswith("?a=b?")
    assert found.head.all("x-a") == ["1", "2"]


BROKEN = {
    "bare line feeds": b"GET / HTTP/1.1\nHost: localhost\n\n",
    "one bare line feed": b"GET / HTTP/1.1\r\nHost: localhost\nX: 1\r\n\r\n",
    "a carriage return inside": b"GET / HTTP/1.1\r\nHost: local\rhost\r\n\r\n",
    "a nul": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: \0\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "no name": b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\nX: 1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "an absolute target": b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "two spaces": b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
    "no target": b"GET HTTP/1.1\r\nHost: a\r\n\r\n",
    "an empty first line": b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "an odd method": b"G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
    "no version": b"GET /\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_not_plain_http_is_refused(name: str) -> None:
    with pytest.raises(Bad) as caught:
        await request(BROKEN[name])
    assert caught.value.status == 400


@pytest.mark.parametrize("version", [b"1.0", b"2.0", b"0.9"])
async def test_other_versions_are_told_apart(version: bytes) -> None:
    with pytest.raises(Bad) as caught:
        await request(b"GET / HTTP/" + version + b"\r\n" + HOST + b"\r\n")
    assert caught.value.status == 505


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * HEAD_LIMIT + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"X: 1\r\n" * 6000 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * (2 * HEAD_LIMIT),
    ],
)
async def test_a_large_head_is_refused_while_it_comes(head: bytes) -> None:
    with pytest.raises(Bad) as caught:
        await request(head)
    assert caught.value.status == 431


async def test_a_head_just_below_the_limit_is_read() -> None:
    rest = b"GET / HTTP/1.1\r\n" + HOST + b"X: \r\n\r\n"
    full = b"a" * (HEAD_LIMIT - len(rest))
    found = await request(b"GET / HTTP/1.1\r\n" + HOST + b"X: " + full + b"\r\n\r\n")
    assert found.head.get("x") == full.decode()


async def test_a_stream_that_ends_in_a_head_is_no_message() -> None:
    assert await read_head(stream(b"")) is None
    assert await read_head(stream(b"GET / HTTP/1.1\r\nHost: a\r\n")) is None


def head(*headers: tuple[str, str], first: str = "POST / HTTP/1.1") -> Head:
    return Head(first, headers)


@pytest.mark.parametrize(
    ("headers", "framing"),
    [
        ((), Framing(0)),
        ((("Content-Length", "12"),), Framing(12)),
        ((("transfer-encoding", "Chunked"),), Framing(chunked=True)),
    ],
)
def test_the_framing_of_requests(headers: Any, framing: Framing) -> None:
    assert request_framing(head(*headers)) == framing


TWO_WAYS = [
    ((("Content-Length", "1"), ("Transfer-Encoding", "chunked")), 400),
    ((("Content-Length", "1"), ("Content-Length", "1")), 400),
    ((("Content-Length", "1, 1"),), 400),
    ((("Content-Length", "+1"),), 400),
    ((("Content-Length", "0x10"),), 400),
    ((("Content-Length", "-1"),), 400),
    ((("Content-Length", "\u0661"),), 400),
    ((("Content-Length", ""),), 400),
    ((("Content-Length", "9" * 19),), 400),
    ((("Transfer-Encoding", "gzip, chunked"),), 501),
    ((("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")), 501),
    ((("Transfer-Encoding", "identity"),), 501),
    ((("Transfer-Encoding", "xchunked"),), 501),
]


@pytest.mark.parametrize(("headers", "status"), TWO_WAYS)
def test_a_body_that_could_end_in_two_places_is_refused(headers: Any, status: int) -> None:
    with pytest.raises(Bad) as caught:
        request_framing(head(*headers))
    assert caught.value.status == status
    with pytest.raises(Bad) as caught:
        response_framing(head(*headers), method="GET", status=200)
    assert caught.value.status == 502


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_some_responses_have_no_body_whatever_they_say(method: str, status: int) -> None:
    said = head(("Content-Length", "12"))
    assert response_framing(said, method=method, status=status).empty


def test_a_response_without_a_length_lasts_until_the_end() -> None:
    assert response_framing(head(), method="GET", status=200) == Framing()


async def body(data: bytes, framing: Framing) -> bytes:
    return b"".join([piece async for piece in pieces(stream(data), framing)])


CHUNKED = Framing(chunked=True)


async def test_chunks_come_out_as_they_went_in() -> None:
    assert (
        await body(b"3\r\nabc\r\n0A;ext=1\r\n0123456789\r\n0\r\n\r\n", CHUNKED) == b"abc0123456789"
    )
    assert await body(b"0\r\nTrailer: 1\r\n\r\n", CHUNKED) == b""


@pytest.mark.parametrize(
    "data",
    [
        b"3\nabc\r\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"-3\r\nabc\r\n0\r\n\r\n",
        b"+3\r\nabc\r\n0\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"\r\nabc\r\n0\r\n\r\n",
        b" 3\r\nabc\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        b"3;" + b"a" * 2000 + b"\r\nabc\r\n0\r\n\r\n",
        b"0\r\n" + b"X: 1\r\n" * 8000 + b"\r\n",
    ],
)
async def test_bad_chunks_are_refused(data: bytes) -> None:
    with pytest.raises(Bad):
        await body(data, CHUNKED)


@pytest.mark.parametrize(
    ("data", "framing"),
    [(b"abc", Framing(4)), (b"3\r\nab", CHUNKED), (b"3\r\nabc\r\n", CHUNKED), (b"", CHUNKED)],
)
async def test_a_body_that_ends_too_early_is_cut_not_short(data: bytes, framing: Framing) -> None:
    with pytest.raises(Cut):
        await body(data, framing)


async def test_a_body_stops_where_its_length_says() -> None:
    assert await body(b"abcdef", Framing(3)) == b"abc"
    assert await body(b"abcdef", Framing()) == b"abcdef"


def test_headers_about_one_connection_end_there() -> None:
    sent = head(
        *(("Connection", "close, X-Secret"), ("X-Secret", "1"), ("Keep-Alive", "5"), ("TE", "x")),
        *(("Set-Cookie", "a"), ("Upgrade", "h2c"), ("set-cookie", "b"), ("Trailer", "x")),
    )
    assert kept_headers(sent) == (("Set-Cookie", "a"), ("set-cookie", "b"))


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ("HTTP/1.1 200 OK", (200, "OK")),
        ("HTTP/1.0 404 Not Found", (404, "Not Found")),
        ("HTTP/1.1 200", (200, "")),
        ("HTTP/1.1 200 ", (200, "")),
    ],
)
def test_status_lines(first: str, found: tuple[int, str]) -> None:
    assert parse_status(head(first=first)) == found


@pytest.mark.parametrize("first", ["HTTP/2 200 OK", "HTTP/1.1 20 OK", "HTTP/1.1 099 X", "200 OK"])
def test_odd_status_lines_are_refused(first: str) -> None:
    with pytest.raises(Bad):
        parse_status(head(first=first))


@pytest.mark.parametrize(
    ("location", "strip", "keep"),
    [
        ("/login?next=/", "/w/api/login?next=/", "/login?next=/"),
        ("/w/api/x", "/w/api/x", "/w/api/x"),
        ("/w/api", "/w/api", "/w/api"),
        ("/w/apix", "/w/api/w/apix", "/w/apix"),
        ("//evil.test/x", "/w/api/evil.test/x", "/evil.test/x"),
        ("/\\evil.test/x", "/w/api/evil.test/x", "/evil.test/x"),
        ("relative", "relative", "relative"),
        ("?page=2", "?page=2", "?page=2"),
        ("https://sso.test/login", "https://sso.test/login", "https://sso.test/login"),
        ("http://localhost:8080/x", "/w/api/x", "/x"),
        ("http://LOCALHOST:8080//x", "/w/api/x", "/x"),
        ("http://localhost:8080.evil.test/", *["http://localhost:8080.evil.test/"] * 2),
    ],
)
def test_redirects_stay_below_the_prefix(location: str, strip: str, keep: str) -> None:
    asked = Request("GET", "/w/api/", head(("Host", "localhost:8080")))
    for prefix, wanted in ((PathPrefix.STRIP, strip), (PathPrefix.KEEP, keep)):
        errand = Errand(asked, "api", prefix, Upstream("127.0.0.1", 1), lambda: None)
        assert relocate(location, errand, "localhost:8080") == wanted


def frame(opcode: int, size: int, *, masked: bool) -> bytes:
    flag = 0x80 if masked else 0
    length = (
        bytes([flag | size])
        if size < 126
        else bytes([flag | 126]) + size.to_bytes(2, "big")
        if size < 2**16
        else bytes([flag | 127]) + size.to_bytes(8, "big")
    )
    # The payload looks like a header of a data frame: only counting right gets past it.
    return bytes([0x80 | opcode]) + length + (b"mask" if masked else b"") + b"\x81" * size


frames = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 8, 9, 10]),
        st.sampled_from([0, 1, 125, 126, 300, 70_000]),
        st.booleans(),
    ),
    max_size=6,
)


@settings(max_examples=60)
@given(sent=frames, step=st.sampled_from([1, 2, 3, 7, 4096, 10**6]))
def test_data_frames_are_seen_however_the_stream_is_cut(
    sent: list[tuple[int, int, bool]], step: int
) -> None:
    data = b"".join(frame(opcode, size, masked=masked) for opcode, size, masked in sent)
    scanner = FrameScanner()
    found = [scanner.has_data(data[at : at + step]) for at in range(0, len(data), step)]
    expected = sum(opcode < 8 for opcode, _, _ in sent)
    assert any(found) == bool(expected)
    if step == 1:
        assert sum(found) == expected
