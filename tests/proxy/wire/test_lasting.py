"""Answers and bodies that last are held, so that they can be broken off; others cost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.proxy.exchange import MOVING_SECONDS
from tests.proxy.wire.test_moving import EVENTS, HEAD, PUT, Moving
from tests.proxy.wire.wire_world import GET, OK, Workspace, until

if TYPE_CHECKING:
    import asyncio

    from tests.proxy.wire.test_cuts import InMemory
    from tests.proxy.wire.wire_world import Wire

CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "chunks": CHUNKS,
    "events": CHUNKS.replace(b"\r\n\r\n", b"\r\nContent-Type: %b\r\n\r\n" % EVENTS),
    "until the end": b"HTTP/1.1 200 OK\r\n\r\n",
    "an error without length": CHUNKS.replace(b"200 OK", b"404 No"),
}


def closed(moving: Moving) -> bool:
    """Whether both ends are gone."""
    ends: list[InMemory] = [moving.client.transport, moving.link.transport]  # type: ignore[list-item]
    return all(each.closed for each in ends)


@pytest.mark.parametrize("name", ENDLESS)
def test_what_has_no_length_is_held_from_its_head_on(name: str) -> None:
    """However little of it comes."""
    moving = Moving(GET % b"")
    moving.link.data_received(ENDLESS[name])
    (hang_up,) = moving.gate.held
    hang_up()
    assert closed(moving)
    assert moving.gate.held == {}


def test_what_has_a_length_is_held_once_it_lasts() -> None:
    moving = Moving(GET % b"")
    moving.link.data_received(HEAD % (b"200 OK", b"application/zip"))
    moving.download(int(MOVING_SECONDS) - 1)
    assert moving.gate.held == {}
    moving.download(100)
    (hang_up,) = moving.gate.held
    hang_up()
    assert closed(moving)
    assert moving.gate.held == {}


def test_so_is_a_request_whose_body_lasts() -> None:
    moving = Moving(PUT)
    moving.upload(int(MOVING_SECONDS) - 1)
    assert moving.gate.held == {}
    moving.upload(100)
    (hang_up,) = moving.gate.held
    moving.link.data_received(HEAD % (b"200 OK", b"text/plain"))
    moving.download(100)
    assert list(moving.gate.held) == [hang_up], "once, for both directions"
    hang_up()
    assert closed(moving)


@pytest.mark.parametrize("answer", [OK, b"HTTP/1.1 204 No\r\n\r\n", b"HTTP/1.1 304 No\r\n\r\n"])
def test_what_is_whole_at_once_is_not(answer: bytes) -> None:
    moving = Moving(GET % b"")
    held = list[object]()
    moving.gate.hold = lambda hang_up: held.append(hang_up) or (lambda: None)  # type: ignore[method-assign, func-returns-value]
    for _ in range(3):
        moving.link.data_received(answer)
        moving.client.data_received(GET % b"")
    assert moving.gate.seen.answers == [int(answer[9:12])] * 3
    assert held == []


@pytest.mark.parametrize("how", ["whole", "broken", "left"])
def test_at_its_end_it_is_let_go(how: str) -> None:
    moving = Moving(GET % b"")
    moving.link.data_received(CHUNKS + b"3\r\nabc\r\n")
    (hang_up,) = moving.gate.held
    if how == "whole":
        moving.link.data_received(b"0\r\n\r\n")
    elif how == "broken":
        moving.link.connection_lost(None)
    else:
        moving.client.connection_lost(None)
    assert moving.gate.held == {}
    was_open = not closed(moving)
    hang_up()
    assert closed(moving) is not was_open, "what comes next on the connection is another request"


def test_the_web_applications_streams_are_its_own_to_end() -> None:
    moving = Moving(b"")
    forward = moving.gate.forward

    def own(head: object) -> object:
        made = forward(head)  # type: ignore[arg-type]
        made.own, made.hold = True, None
        return made

    moving.gate.verdict = own  # type: ignore[assignment]
    moving.client.data_received(GET % b"")
    moving.link.data_received(CHUNKS)
    moving.link.data_received(b"1\r\nx\r\n")
    assert moving.gate.held == {}
    assert len(moving.server.shares) == 1
    moving.link.data_received(b"0\r\n\r\n")
    assert not len(moving.server.shares)


@pytest.mark.anyio
async def test_one_that_is_broken_off_does_not_look_whole(world: Wire) -> None:
    """On the network: the client sees a reset, and the workspace that nobody listens."""
    gone = list[bool]()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKS + b"3\r\nabc\r\n")
        gone.append(await reader.read() == b"")

    await world.serve(endless)
    async with world.talk() as talk:
        talk.send(GET % b"")
        await talk.reader.readuntil(b"abc\r\n")
        (hang_up,) = world.gate.held
        hang_up()
        with pytest.raises(ConnectionResetError):
            await talk.reader.read()
    await until(lambda: gone == [True])
    await world.serve(Workspace())
    assert await world.status(GET % b"") == 200
