"""Long bodies are told of while they move, both ways; time stands where the test puts it."""

from __future__ import annotations

import pytest

from codehub.proxy.client import Client
from codehub.proxy.exchange import MOVING_SECONDS
from codehub.proxy.server import Server
from codehub.proxy.upstream import Link
from codehub.proxy.wire_limits import WireLimits
from tests.proxy.wire.test_cuts import InMemory
from tests.proxy.wire.wire_world import GET, OpenGate

HEAD = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: 1000\r\n\r\n"
PUT = b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n"
EVENTS = b"Text/Event-Stream; charset=utf-8"


class Moving:
    """A client and a workspace, and a clock."""

    def __init__(self, request: bytes) -> None:
        self.gate = OpenGate()
        self.server = Server(self.gate, WireLimits())
        self.link = Link(self.server.pool, (self.gate.upstream.host, self.gate.upstream.port))
        self.client = Client(self.server)
        self.link.connection_made(InMemory())
        self.client.connection_made(InMemory())
        self.server.pool.give(self.link)
        self.client.data_received(request)

    def download(self, seconds: int) -> int:
        """How often the watcher is told in that time, with two pieces in each second."""
        before = self.gate.seen.moves
        for _ in range(seconds):
            self.server.now += 1
            self.link.data_received(b"x")
            self.link.data_received(b"x")
        return self.gate.seen.moves - before

    def upload(self, seconds: int) -> int:
        before = self.gate.seen.moves
        for _ in range(seconds):
            self.server.now += 1
            self.client.data_received(b"x")
            self.client.data_received(b"x")
        return self.gate.seen.moves - before


def test_an_answer_that_takes_long_is_told_of_now_and_then() -> None:
    moving = Moving(GET % b"")
    moving.link.data_received(HEAD % (b"200 OK", b"application/zip"))
    assert moving.download(1) == 0, "that it began is told already"
    assert moving.download(100) == 100 // MOVING_SECONDS
    moving.server.now += 1000
    assert moving.gate.seen.moves == 100 // MOVING_SECONDS, "what stands still does not move"
    assert moving.gate.seen.answers == [200]


@pytest.mark.parametrize("status", [b"404 No", b"302 Found", b"500 Oh"])
def test_errors_and_redirects_are_nobodys_work(status: bytes) -> None:
    moving = Moving(GET % b"")
    moving.link.data_received(HEAD % (status, b"text/plain"))
    assert moving.download(100) == 0


def test_a_pages_stream_of_events_lasts_as_long_as_the_page() -> None:
    """It would keep a workspace awake for a forgotten tab. What a program asks for would not."""
    moving = Moving(GET % b"")
    moving.link.data_received(HEAD % (b"200 OK", EVENTS))
    assert moving.download(100) == 0
    moving = Moving(b"POST / HTTP/1.1\r\nHost: h\r\n\r\n")
    moving.link.data_received(HEAD % (b"200 OK", EVENTS))
    assert moving.download(100) > 0
    assert moving.gate.seen.ends[0], "it says where it ends"


def test_a_request_that_takes_long_is_told_of_too() -> None:
    moving = Moving(PUT)
    assert moving.upload(1) == 0
    assert moving.upload(100) == 100 // MOVING_SECONDS
    moving.link.data_received(HEAD % (b"413 Too Much", b"text/plain"))
    assert moving.upload(100) == 0, "it was not wanted"


def test_chunks_and_answers_until_the_end_move_as_well() -> None:
    for framing in (b"Transfer-Encoding: chunked\r\n\r\n1000\r\n", b"X: 1\r\n\r\n"):
        moving = Moving(GET % b"")
        moving.link.data_received(b"HTTP/1.1 200 OK\r\n" + framing)
        assert moving.download(100) == 100 // MOVING_SECONDS


ENDS = {
    b"Content-Length: 1000": True,
    b"Transfer-Encoding: chunked": False,
    b"Transfer-Encoding: chunked\r\nContent-Disposition: Attachment; filename=big.zip": True,
    b"Transfer-Encoding: chunked\r\nContent-Disposition: inline": False,
    b"X: 1": False,
}


@pytest.mark.parametrize("said", list(ENDS), ids=str)
def test_what_says_where_it_ends_and_what_becomes_a_file_is_waited_for(said: bytes) -> None:
    moving = Moving(GET % b"")
    moving.link.data_received(b"HTTP/1.1 200 OK\r\n" + said + b"\r\n\r\n")
    if b"chunked" in said:
        moving.link.data_received(b"1000\r\n")
    moving.download(10)
    assert set(moving.gate.seen.ends) == {ENDS[said]}


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 1000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n1000\r\n"]
)
def test_so_is_all_that_is_sent(framing: bytes) -> None:
    moving = Moving(b"PUT / HTTP/1.1\r\nHost: h\r\n" + framing)
    moving.upload(10)
    assert set(moving.gate.seen.ends) == {True}
