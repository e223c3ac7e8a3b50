"""A client's bytes mean the same however the network cuts them, also when they are wrong.

The client's connection runs in memory here, so that thousands of streams can be tried: requests
of every framing, one behind the other, with bytes changed, added and taken away.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.proxy.client import Client
from codehub.proxy.seam import Answer, Ask
from codehub.proxy.server import Server
from codehub.proxy.wire_limits import WireLimits
from tests.proxy.wire.test_bodies import chunked_bodies, cut

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from codehub.proxy.seam import Forward, RequestHead, Verdict


class Echo:
    """Says what was asked, with its body."""

    def judge(self, head: RequestHead) -> Verdict:
        async def said(body: bytes) -> Answer | Forward:
            return Answer(200, [], b"%b %b %b" % (head.method, head.target, body))

        return Ask(said, 1000)

    def refuse(self, head: RequestHead | None, status: int, reason: str) -> Answer:
        return Answer(status, [])


class NoSocket:
    """Takes every option."""

    def setsockopt(self, *_: object) -> None:
        pass


class InMemory(asyncio.Transport):
    """Keeps what is written; whoever closes it gets no more."""

    def __init__(self) -> None:
        super().__init__({"socket": NoSocket()})
        self.written = b""
        self.closed = False
        self.reading = True

    def write(self, data: Any) -> None:
        self.written += data

    def write_eof(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class AtOnce(Server):
    """Its questions are answered before anything else happens."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        try:
            work.send(None)
        except StopIteration:
            return None  # type: ignore[return-value]
        raise AssertionError("nothing here waits")


def answers(pieces: list[bytes]) -> list[tuple[bytes, bytes]]:
    """The status and the body of every answer to these bytes, and whether the talk is over."""
    transport = InMemory()
    client = Client(AtOnce(Echo(), WireLimits()))
    client.connection_made(transport)
    for piece in pieces:
        if not transport.closed:
            client.data_received(piece)
    found = [(b"closed" if transport.closed else b"open", b"")]
    rest = transport.written
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0] or b"0")
        found.append((head.split(b" ")[1], rest[:length]))
        rest = rest[length:]
    return found


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A request as it is on the wire, and the body it has."""
    target = draw(st.sampled_from([b"/", b"/a?b", b"/%zz", b"/\xc3\xa4"]))
    more = draw(st.sampled_from([b"", b"X: 1\r\n", b"Connection: keep-alive\r\n", b"X:\r\n"]))
    head = b"%b %b HTTP/1.1\r\nHost: h\r\n%b"
    kind = draw(st.sampled_from(["none", "length", "chunks"]))
    if kind == "none":
        return head % (b"GET", target, more) + b"\r\n", b""
    if kind == "length":
        body = draw(st.binary(max_size=30))
        length = b"Content-Length: %d\r\n" % len(body)
        return head % (b"POST", target, more + length) + b"\r\n" + body, body
    body, wire = draw(chunked_bodies())
    return head % (b"PUT", target, more) + b"Transfer-Encoding: chunked\r\n\r\n" + wire, body


PLACES = st.lists(st.integers(0, 10_000), max_size=12)


@settings(max_examples=200)
@given(st.lists(requests(), max_size=4), PLACES)
def test_requests_of_every_framing_one_behind_the_other(
    sent: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    found = answers(cut(b"".join(wire for wire, _ in sent), places))
    said = [b"%b %b %b" % (*wire.split(b" ", 2)[:2], body) for wire, body in sent]
    assert found == [(b"open", b""), *((b"200", each) for each in said)]


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.sampled_from(["change", "add", "remove", "repeat"]),
        st.sampled_from([bytes((byte,)) for byte in b"\r\n\t \0:;,0a9fZ/%#\x7f\xff"]),
    ),
    min_size=1,
    max_size=3,
)


def changed(data: bytes, changes: list[tuple[int, str, bytes]]) -> bytes:
    for place, how, byte in changes:
        at = place % (len(data) + 1)
        end = at if how == "add" else at + 1
        new = {"change": byte, "add": byte, "remove": b"", "repeat": data[at : at + 1] * 2}[how]
        data = data[:at] + new + data[end:]
    return data


@settings(max_examples=600)
@given(st.lists(requests(), min_size=1, max_size=3), CHANGES, PLACES)
def test_wrong_bytes_mean_the_same_however_they_are_cut(
    sent: list[tuple[bytes, bytes]], changes: list[tuple[int, str, bytes]], places: list[int]
) -> None:
    data = changed(b"".join(wire for wire, _ in sent), changes)
    at_once = answers([data])
    assert answers(cut(data, places)) == at_once
    assert answers([data[at : at + 1] for at in range(len(data))]) == at_once
