"""Bodies taken apart: the same whatever the pieces are, and nothing that is not theirs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.proxy.bodies import LAST, ChunkReader, LengthReader, body_reader, chunk
from codehub.proxy.framing import CHUNKED, Bad

EXTENSIONS = st.sampled_from([b"", b";a", b";a=b", b';a="b c"'])
TRAILERS = st.sampled_from([b"", b"X: 1\r\n", b"X: 1\r\nY:\r\n"])


@st.composite
def chunked_bodies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A body, and one way to write it in chunks."""
    pieces = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
    wire = b""
    for piece in pieces:
        size = draw(st.sampled_from([b"%x", b"%X", b"0%x", b"000%x"])) % len(piece)
        wire += size + draw(EXTENSIONS) + b"\r\n" + piece + b"\r\n"
    return b"".join(pieces), wire + b"0" + draw(EXTENSIONS) + b"\r\n" + draw(TRAILERS) + b"\r\n"


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces, cut at these places."""
    at = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[begin:end] for begin, end in pairwise(at)]


@settings(max_examples=300)
@given(chunked_bodies(), st.lists(st.integers(0, 10_000), max_size=20), st.binary(max_size=20))
def test_chunks_are_the_same_however_they_are_cut(
    body: tuple[bytes, bytes], places: list[int], after: bytes
) -> None:
    expected, wire = body
    reader = ChunkReader()
    found = rest = b""
    for piece in cut(wire + after, places):
        if reader.rest is None:
            found += reader.feed(piece)
            rest = reader.rest or b""
        else:
            rest += piece
    assert (found, rest) == (expected, after)


@settings(max_examples=200)
@given(chunked_bodies(), st.lists(st.integers(0, 10_000), max_size=5))
def test_a_body_that_is_cut_short_has_no_end(body: tuple[bytes, bytes], places: list[int]) -> None:
    reader = ChunkReader()
    for piece in cut(body[1][:-1], places):
        reader.feed(piece)
    assert reader.rest is None


BROKEN = [
    *(b"\r\n", b"g\r\n", b"-1\r\n", b"+1\r\n", b"0x1\r\n", b"1 \r\n", b" 1\r\n", b"1\n"),
    *(b"1\r\nab\r\n", b"1\r\na\n0", b"1\r\na\r0", b"1\r\na0\r\n", b"0\r\n X: 1\r\n", b"0\r\nX\r\n"),
    *(b"0\r\nX : 1\r\n", b"0\r\n: 1\r\n", b"f" * 16 + b"\r\n", b"1" * 2000, b"0\r\nX: \0\r\n"),
    b"1;\n\r\n",
]


@pytest.mark.parametrize("wire", BROKEN)
@pytest.mark.parametrize("at_once", [True, False])
def test_broken_chunks_are_refused_however_they_are_cut(wire: bytes, at_once: bool) -> None:
    pieces = [wire] if at_once else [wire[at : at + 1] for at in range(len(wire))]
    reader = ChunkReader()
    with pytest.raises(Bad):
        list(map(reader.feed, pieces))


@given(st.lists(st.binary(max_size=100), max_size=10))
def test_what_is_put_in_chunks_can_be_taken_out(pieces: list[bytes]) -> None:
    reader = ChunkReader()
    assert reader.feed(b"".join(map(chunk, pieces)) + LAST) == b"".join(pieces)
    assert reader.rest == b""


@given(st.binary(max_size=50), st.binary(max_size=50), st.lists(st.integers(0, 1000), max_size=8))
def test_a_length_is_counted(body: bytes, after: bytes, places: list[int]) -> None:
    reader = LengthReader(len(body))
    found = rest = b""
    for piece in cut(body + after, places):
        if reader.rest is None:
            found += reader.feed(piece)
            rest = reader.rest or b""
        else:
            rest += piece
    assert (found, rest) == (body, after)


def test_the_reader_fits_the_framing() -> None:
    assert isinstance(body_reader(CHUNKED), ChunkReader)
    assert isinstance(body_reader(5), LengthReader)
