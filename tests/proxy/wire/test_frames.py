"""WebSocket frames seen from outside: the same whatever the pieces are."""

from __future__ import annotations

import struct
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.proxy.frames import (
    FIRST,
    SHORT,
    FrameScanner,
    accept_key,
    close_frame,
    frame,
    valid_key,
)
from tests.proxy.wire.test_bodies import cut
from tests.proxy.wire.wire_world import Seen

SIZES = st.one_of(st.integers(0, 20), st.sampled_from([124, 125, 126, 127, 300, 65535, 65536]))


@st.composite
def frames(draw: st.DrawFn) -> tuple[bytes, tuple[int, int, bytes]]:
    """A frame as it is on the wire, and what is to be told of it."""
    opcode, size = draw(st.integers(0, 15)), draw(SIZES)
    payload = (draw(st.binary(min_size=1, max_size=8)) * size)[:size]
    mask = draw(st.one_of(st.none(), st.binary(min_size=4, max_size=4)))
    bit = 0 if mask is None else 0x80
    wide = draw(st.booleans()) if size < 126 else True
    first = bytes((draw(st.sampled_from([0, 0x40, 0x80])) | opcode,))
    if not wide:
        header = first + bytes((bit | size,))
    elif size < 65536 and draw(st.booleans()):
        header = first + struct.pack("!BH", bit | 126, size)
    else:
        header = first + struct.pack("!BQ", bit | 127, size)
    shown = payload[:FIRST] if size <= SHORT else b""
    if mask is not None:
        key = (mask * (size // 4 + 1))[:size]
        number = int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")
        header, payload = header + mask, number.to_bytes(size, "big")
    return header + payload, (opcode, size, shown)


@settings(max_examples=300)
@given(st.lists(frames(), max_size=6), st.lists(st.integers(0, 10**6), max_size=20), st.booleans())
def test_frames_are_told_the_same_however_they_are_cut(
    sent: list[tuple[bytes, tuple[int, int, bytes]]], places: list[int], from_client: bool
) -> None:
    seen = Seen()
    scanner = FrameScanner(seen, from_client=from_client)
    for piece in cut(b"".join(wire for wire, _ in sent), places):
        scanner.feed(piece)
    assert seen.frames == [(*told, from_client) for _, told in sent]
    assert scanner.between


@settings(max_examples=200)
@given(st.lists(frames(), min_size=1, max_size=3), st.integers(0, 10**6), st.integers(0, 10**6))
def test_where_the_frame_on_its_way_ends(
    sent: list[tuple[bytes, tuple[int, int, bytes]]], begun: int, more: int
) -> None:
    """Cut anywhere, and then fed only what `upto` allows: the end is always between two frames."""
    wire = b"".join(each for each, _ in sent)
    ends = [0]
    for each, _ in sent:
        ends.append(ends[-1] + len(each))
    at = begun % (len(wire) + 1)
    scanner = FrameScanner(Seen(), from_client=False)
    scanner.feed(wire[:at])
    assert scanner.between == (at in ends)
    if scanner.between:
        return
    stop = next(end for end in ends if end > at)
    step = 1 + more % 7
    for begin in range(at, len(wire), step):
        piece = wire[begin : begin + step]
        allowed = scanner.upto(piece)
        scanner.feed(piece[:allowed])
        if scanner.between:
            assert begin + allowed == stop
            return
    pytest.fail("the frame has no end")


def test_frames_of_our_own() -> None:
    assert frame(9) == b"\x89\x00"
    assert close_frame(1001) == b"\x88\x02\x03\xe9"
    assert close_frame(4000, "ab") == b"\x88\x04\x0f\xa0ab"
    assert len(close_frame(4000, "ä" * 200)) <= 2 + 125
    seen = Seen()
    FrameScanner(seen, from_client=True).feed(close_frame(1008, "out", masked=True))
    assert seen.frames == [(8, 5, b"\x03\xf0out", True)]


def test_keys() -> None:
    # The example of RFC 6455, section 1.3.
    assert accept_key(b"dGhlIHNhbXBsZSBub25jZQ==") == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert valid_key(b"dGhlIHNhbXBsZSBub25jZQ==")
    assert not valid_key(b64encode(b"too short"))
    assert not valid_key(b"dGhlIHNhbXBsZSBub25jZQ=!")
    assert not valid_key(b"")
