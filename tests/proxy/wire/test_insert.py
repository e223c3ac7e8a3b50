"""The one script tag: where it goes, and which answers are left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.proxy.insert import FAR_ENOUGH, MOST_PIECES, Inserter, changed_headers, takes_script
from codehub.proxy.parsing import Response, parse_response
from tests.proxy.wire.test_bodies import cut
from tests.proxy.wire.wire_world import GET, Workspace

if TYPE_CHECKING:
    from tests.proxy.wire.wire_world import Wire

TAG = b"<script src=/s.js></script>"

PLACES = {
    "a head": b"<!doctype html>\n<html>\n<head>|<title>x</title></head>",
    "capitals": b"<!DOCTYPE HTML PUBLIC 'a'><HTML LANG=en><HEAD>|<TITLE>x</TITLE>",
    "attributes": b"<html lang=\"a>b\" class='>'><head data-x=\"<head>\" prefix='>'>|<meta>",
    "attributes on lines": b"<html\n  lang=en\n><head\n\tid=x\n>|<meta>",
    "no html": b"<!doctype html><head>|<title>",
    "only a head": b"<head>|x</head>",
    "no head": b"<!doctype html><html lang=en>\n|<title>x</title>",
    "no head but a body": b"<html>|<body>text</body></html>",
    "no html and no head": b"<!doctype html>\n|<title>x</title><p>text",
    "a header is no head": b"<!doctype html><html>|<header>x</header>",
    "comments": b"<!-- <head> --><!doctype html><!--x--><html><!-- <head> --><head>|",
    "a comment with arrows": b"<html><!-- a > b -> c --><head>|<p>",
    "an XML declaration": b"<?xml version='1.0'?><html><head>|<title/>",
    "a byte order mark": b"\xef\xbb\xbf<!doctype html><html><head>|",
    "space before": b" \r\n\t<html><head>|",
    "an empty document": b"<!doctype html>|",
    "a text after html": b"<html>|text <head>",
    "text only": b"hello <head> there",
    "JSON": b'{"a": "<html><head>"}',
    "a fragment": b"<p>text</p><html><head>",
    "nothing": b"",
    "space": b"  \n",
    "a comment without end": b"<!-- <html><head>",
    "a tag without end": b"<html lang='x",
    "a tag without end after a doctype": b"<!doctype html>|<html lang='x",
}


@pytest.mark.parametrize("name", PLACES)
def test_where_it_goes(name: str) -> None:
    page = PLACES[name].replace(b"|", b"")
    inserter = Inserter(TAG)
    found = inserter.feed(page) + inserter.feed(b"", last=True)
    assert found == PLACES[name].replace(b"|", TAG)


@settings(max_examples=400)
@given(st.sampled_from(sorted(PLACES)), st.lists(st.integers(0, 200), max_size=12))
def test_it_goes_to_the_same_place_however_the_page_is_cut(name: str, places: list[int]) -> None:
    page = PLACES[name].replace(b"|", b"")
    inserter = Inserter(TAG)
    found = b"".join(inserter.feed(piece) for piece in cut(page, places))
    assert found + inserter.feed(b"", last=True) == PLACES[name].replace(b"|", TAG)


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_nothing_else_changes(pieces: list[bytes]) -> None:
    inserter = Inserter(TAG)
    found = b"".join(map(inserter.feed, pieces)) + inserter.feed(b"", last=True)
    assert found.replace(TAG, b"", 1) == b"".join(pieces)


@pytest.mark.parametrize("begin", [b"<!doctype html><!--", b"<!doctype html><html "])
def test_a_beginning_in_very_many_pieces_is_not_waited_for(begin: bytes) -> None:
    """Each piece is looked at with all that is held: somebody could make that take very long."""
    inserter, pieces = Inserter(b"<tag>"), [begin, *[b"a"] * MOST_PIECES]
    passed = b"".join([inserter.feed(piece) for piece in pieces])
    assert passed.replace(b"<tag>", b"") == b"".join(pieces)


def test_only_the_beginning_is_looked_at_and_little_is_held_back() -> None:
    inserter = Inserter(TAG)
    assert inserter.feed(b"<!doctype html><html>  <he") == b"<!doctype html><html>  "
    assert inserter.feed(b"ad><p>") == b"<head>" + TAG + b"<p>"
    inserter = Inserter(TAG)
    held = inserter.feed(b"<!doctype html><!--" + b"x" * FAR_ENOUGH)
    assert held == b"<!doctype html>" + TAG + b"<!--" + b"x" * FAR_ENOUGH
    assert inserter.feed(b"--><head>") == b"--><head>"


def response(*lines: str, status: str = "200 OK") -> Response:
    kind = () if any(line.lower().startswith("content-type") for line in lines) else (HTML,)
    head = "\r\n".join([f"HTTP/1.1 {status}", *kind, *lines, "", ""])
    return parse_response(head.encode())


HTML = "Content-Type: text/html; charset=utf-8"
CSP = "Content-Security-Policy: "
TAKES = [
    response(),
    response("Content-Type: TEXT/HTML"),
    response("Content-Encoding: identity"),
    response(CSP + "frame-ancestors 'self'; report-uri /x"),
    response(CSP + "default-src 'self'"),
    response(CSP + "default-src 'none'; script-src 'self' 'nonce-x'; connect-src 'self'"),
    response(CSP + "script-src hub.test; connect-src http://hub.test"),
    response(CSP + "script-src 'none'; script-src-elem *; default-src 'self'"),
    response("Content-Security-Policy-Report-Only: script-src 'none'"),
]
LEAVES = [
    response(status="404 Not Found"),
    response(status="206 Partial Content"),
    response(status="304 Not Modified"),
    response("Content-Type: application/json"),
    response("Content-Type: text/html-not"),
    response("Content-Type: text/html; charset=UTF-16"),
    response("Content-Type: text/html", "Content-Type: text/plain"),
    response("Content-Encoding: gzip"),
    response("Content-Range: bytes 0-1/2"),
    response("Content-Disposition: Attachment; filename=x.html"),
    response("Cache-Control: public, no-transform"),
    response(CSP + "default-src 'none'"),
    response(CSP + "script-src 'nonce-x'"),
    response(CSP + "script-src 'self' 'strict-dynamic' 'nonce-x'"),
    response(CSP + "script-src other.test"),
    response(CSP + "script-src"),
    response(CSP + "script-src-elem 'none'; script-src 'self'"),
    response(CSP + "script-src 'self'; connect-src other.test"),
    response(CSP + "sandbox allow-scripts; script-src 'self'"),
    response(CSP + "script-src 'self', script-src 'none'"),
    response(CSP + "script-src 'self'", CSP + "default-src 'none'"),
]


@pytest.mark.parametrize("answer", TAKES, ids=lambda each: str(each.headers))
def test_documents_take_it(answer: Response) -> None:
    assert takes_script(answer, b"Hub.test")


@pytest.mark.parametrize("answer", LEAVES, ids=lambda each: f"{each.status} {each.headers}")
def test_everything_else_is_left_alone(answer: Response) -> None:
    assert not takes_script(answer, b"hub.test")


def test_what_is_no_longer_true_is_not_said() -> None:
    headers = [(b"ETag", b'"x"'), (b"Content-Length", b"5"), (b"Accept-Ranges", b"bytes")]
    kept = [(b"X-A", b"1"), (b"Last-Modified", b"today")]
    assert changed_headers([*headers, *kept]) == [(b"ETag", b'W/"x"'), *kept]
    assert changed_headers([(b"etag", b'W/"x"')]) == [(b"etag", b'W/"x"')]


PAGE = b"<!doctype html><html><head><title>x</title></head></html>"
CHANGED = PAGE.replace(b"<head>", b"<head>" + TAG)


@pytest.mark.anyio
async def test_on_the_wire(world: Wire) -> None:
    world.gate.script = TAG
    html = b'Content-Type: text/html\r\nETag: "1"\r\n'
    length = b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (html, len(PAGE), PAGE)
    close = b"HTTP/1.1 200 OK\r\n%b\r\n%b" % (html, PAGE)
    plain = length.replace(b"text/html", b"text/plain")
    await world.serve(Workspace(length, plain, close, length))
    async with world.talk() as talk:
        for body, tag in ((CHANGED, 'W/"1"'), (PAGE, '"1"'), (CHANGED, 'W/"1"')):
            talk.send(GET % b"")
            answer = await talk.answer()
            assert (answer.body, answer.value("etag")) == (body, tag)
    assert (await world.say(b"GET / HTTP/1.0\r\n\r\n")).endswith(b"\r\n\r\n" + CHANGED)


@pytest.mark.anyio
async def test_other_methods_are_left_alone(world: Wire) -> None:
    world.gate.script = TAG
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(PAGE)
    await world.serve(Workspace(head, head + PAGE))
    async with world.talk() as talk:
        talk.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\nPOST / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await talk.answer(bodiless=True)).value("content-length") == str(len(PAGE))
        assert (await talk.answer()).body == PAGE
