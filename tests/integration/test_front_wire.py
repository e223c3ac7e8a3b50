"""The front on the wire: streams both ways, nothing smuggled, nothing kept, nobody left hanging."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from codehub.proxy import front as front_module
from tests.integration.front_world import (
    PATIENCE,
    FrontWorld,
    demo_workspace,
    front_world,
    parsed,
    until,
)
from tests.unit.demo_client import KEY, UPGRADE, Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from codehub.model.runtime import Upstream
    from tests.integration.front_world import Handler

pytestmark = pytest.mark.anyio

MIB = 2**20
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
async def world(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[FrontWorld]:
    async with front_world(database_url, redis_url, tmp_path / "pages") as found:
        yield found


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with demo_workspace(tmp_path_factory.mktemp("home"), "/w/api") as upstream:
        yield upstream


class Heard:
    """A workspace that keeps the heads it got and answers all with the same bytes."""

    def __init__(self, answer: bytes = OK, *, answers: bool = True) -> None:
        self.answer = answer
        self.answers = answers
        self.heads: list[bytes] = []
        self.ended = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        if self.answers:
            writer.write(self.answer)
            await writer.drain()
        else:
            await reader.read()
            self.ended.set()
        writer.close()

    @property
    def lines(self) -> list[str]:
        return self.heads[-1].decode("latin-1").strip().split("\r\n")


async def sources(world: FrontWorld) -> set[tuple[int, str]]:
    """What was told of activity."""
    await world.front._activity.flush()
    read = await world.signals.read_activity()
    return {(each.workspace_id.int, each.source) for each in read.sightings}


# What the workspace gets


async def test_a_request_is_written_anew(world: FrontWorld) -> None:
    heard = Heard()
    await world.serve(heard)
    await world.say(
        b'GET /w/api/a/..%2F%zz/../x"?q=1&q=2? HTTP/1.1\r\n'
        b"host: LocalHost:1\r\nCookie: a=1\r\nX-Two: 1\r\nx-two: 2\r\n"
        b"Connection: keep-alive, X-Mine, host\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n"
        b"X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Prefix: /evil\r\nForwarded: for=6.6.6.6\r\n"
        b"Proxy-Authorization: x\r\nUpgrade: h2c\r\n\r\n"
    )
    assert heard.lines == [
        'GET /a/..%2F%zz/../x"?q=1&q=2? HTTP/1.1',
        "Host: LocalHost:1",
        *("Cookie: a=1", "X-Two: 1", "x-two: 2"),
        *("X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: LocalHost:1"),
        *("X-Forwarded-Proto: http", "X-Forwarded-Prefix: /w/api", "Connection: close"),
    ]


SMUGGLING = {
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    "a list of lengths": b"Content-Length: 4, 4\r\n\r\nabcd",
    "an odd encoding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a hidden encoding": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "an encoding on a bare line": b"X: 1\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded encoding": b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a nul": b"Content-Length: 4\0\r\n\r\nabcd",
    "a second host": b"Host: localhost\r\n\r\n",
}


async def test_what_could_be_read_in_two_ways_reaches_nobody(world: FrontWorld) -> None:
    heard = Heard()
    await world.serve(heard)
    for name, rest in SMUGGLING.items():
        answer = await world.say(b"POST /w/api/ HTTP/1.1\r\nHost: localhost\r\n" + rest)
        assert answer.status in (400, 501), name
        assert answer.headers["connection"] == "close"
    assert heard.heads == []


async def test_broken_chunks_end_the_request(world: FrontWorld) -> None:
    heard = Heard(answers=False)
    await world.serve(heard)
    answer = await world.say(
        b"POST /w/api/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\nabc\r\n0\r\n\r\n"
    )
    assert answer.status == 400
    async with asyncio.timeout(PATIENCE):
        await heard.ended.wait()


async def test_a_second_request_behind_the_first_is_not_heard(world: FrontWorld) -> None:
    heard = Heard()
    await world.serve(heard)
    one = b"GET /w/api/one HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = await world.say(one + one.replace(b"one", b"two"))
    assert answer.raw.count(b"HTTP/1.1") == 1
    assert len(heard.heads) == 1


async def test_large_heads_and_slow_heads_are_refused(
    world: FrontWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 40_000 + b"\r\n\r\n"
    assert (await world.say(large)).status == 431
    monkeypatch.setattr(front_module, "HEAD_SECONDS", 0.05)
    assert (await world.say(b"GET / HTTP/1.1\r\n")).status == 408


async def test_connections_have_a_limit_and_room_comes_back(
    world: FrontWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_module, "MOST_CONNECTIONS", 2)
    held = [await world.open() for _ in range(2)]
    await until(lambda: len(world.front._clients) == 2)
    assert (await world.get("/healthz")).status == 503
    for _, writer in held:
        writer.close()
    async with asyncio.timeout(PATIENCE):
        while (await world.get("/healthz")).status != 200:
            pass


# Bodies


async def test_a_chunked_request_arrives_whole(world: FrontWorld) -> None:
    got: list[bytes] = []

    async def store(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        assert b"Content-Length" not in head
        got.append(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(OK)
        await writer.drain()
        writer.close()

    await world.serve(store)
    pieces = [b"a" * 10, b"b" * 5000, b"c"]
    answer = await world.ask("POST", "/w/api/", iter(pieces))
    assert answer.body == b"ok"
    whole = parsed(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n" + got[0])
    assert whole.body == b"".join(pieces)


def sink(total: int) -> Handler:
    """Takes so many bytes and answers with their hash."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        digest, left = hashlib.sha256(), total
        while left:
            piece = await reader.read(65536)
            digest.update(piece)
            left -= len(piece)
        text = digest.hexdigest().encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
        await writer.drain()
        writer.close()

    return take


async def test_a_large_upload_is_streamed_with_flat_memory(world: FrontWorld) -> None:
    total, piece = 48 * MIB, bytes(range(256)) * 256
    await world.serve(sink(total))
    reader, writer = await world.open()
    tracemalloc.start()
    try:
        writer.write(
            b"PUT /w/api/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % total
        )
        async with asyncio.timeout(PATIENCE):
            for _ in range(total // len(piece)):
                writer.write(piece)
                await writer.drain()
            answer = parsed(await reader.read())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        writer.close()
    expected = hashlib.sha256(piece * (total // len(piece))).hexdigest()
    assert answer.body.decode() == expected
    assert peak < 8 * MIB


class Source:
    """Sends so many bytes as fast as they are taken, and counts them."""

    def __init__(self, total: int, piece: bytes = b"x" * 65536) -> None:
        self.total = total
        self.piece = piece
        self.sent = 0
        self.broken = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % self.total)
        try:
            while self.sent < self.total:
                writer.write(self.piece)
                await writer.drain()
                self.sent += len(self.piece)
        except ConnectionError:
            self.broken.set()
        finally:
            writer.close()

    async def stalled(self) -> int:
        """How much was sent once nothing more goes out."""
        before = -1
        while before != self.sent:
            before = self.sent
            await asyncio.sleep(0.3)
        return before


async def test_a_slow_reader_slows_the_workspace_and_gets_everything(world: FrontWorld) -> None:
    source = Source(64 * MIB)
    await world.serve(source)
    reader, writer = await world.open()
    tracemalloc.start()
    try:
        writer.write(b"GET /w/api/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            assert await source.stalled() < source.total
            assert tracemalloc.get_traced_memory()[1] < 8 * MIB
            await reader.readuntil(b"\r\n\r\n")
            left = source.total
            while left:
                left -= len(await reader.read(65536))
            assert await reader.read() == b""
    finally:
        tracemalloc.stop()
        writer.close()


async def test_a_client_that_leaves_in_the_middle_ends_the_workspaces_work(
    world: FrontWorld,
) -> None:
    source = Source(1024 * MIB)
    await world.serve(source)
    reader, writer = await world.open()
    writer.write(b"GET /w/api/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readexactly(100_000)
    writer.transport.abort()
    async with asyncio.timeout(PATIENCE):
        await source.broken.wait()
    assert source.sent < source.total


async def test_a_client_that_leaves_before_the_answer_is_not_worked_for(world: FrontWorld) -> None:
    heard = Heard(answers=False)
    await world.serve(heard)
    _, writer = await world.open()
    writer.write(b"GET /w/api/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: heard.heads)
    writer.close()
    async with asyncio.timeout(PATIENCE):
        await heard.ended.wait()


async def test_an_answer_before_the_end_of_the_body_comes_through(world: FrontWorld) -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n"
    await world.serve(Heard(refusal))
    answer = await world.say(
        b"PUT /w/api/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc"
    )
    assert (answer.status, answer.body) == (413, b"no\n")


async def test_a_refusal_is_heard_by_whoever_is_still_sending(
    world: FrontWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_module, "HEAR_SECONDS", PATIENCE)
    body = b"x" * (8 * MIB)
    answer = await world.ask("PUT", "/w/api/", body, Origin="http://evil.test")
    assert (answer.status, answer.body) == (403, b"another site may not do this\n")


async def test_100_continue_is_said_once_and_only_when_the_body_is_wanted(
    world: FrontWorld, demo: Upstream
) -> None:
    await world.run("api", demo)
    ask = (
        b"PUT %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nhi"
    )
    answer = await world.say(ask % b"/w/api/api/notes")
    assert answer.raw.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204")
    assert answer.raw.count(b"100 Continue") == 1
    assert b"100 Continue" not in (await world.say(ask % b"/w/none/")).raw
    odd = ask.replace(b"100-continue", b"a-pony") % b"/w/api/"
    assert (await world.say(odd)).status == 417


# Answers of workspaces

ANSWERS = {
    "until the end": (b"HTTP/1.0 200 OK\r\nX: 1\r\n\r\nall of it", 200, b"all of it"),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        *(200, b"abcde"),
    ),
    "after hints": (
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK,
        *(200, b"ok"),
    ),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
    "both framings": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        *(502, None),
    ),
    "not HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", 502, None),
    "nothing": (b"", 502, None),
    "a switch nobody asked for": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", 502, None),
    "a split header": (b"HTTP/1.1 200 OK\r\nX: 1\nY: 2\r\nContent-Length: 0\r\n\r\n", 502, None),
}


async def test_answers_of_every_shape(world: FrontWorld) -> None:
    heard = Heard()
    await world.serve(heard)
    for name, (sent, status, body) in ANSWERS.items():
        heard.answer = sent
        answer = await world.get("/w/api/")
        assert answer.status == status, name
        assert body is None or answer.body == body, name
        assert answer.raw.count(b"HTTP/1.1") == 1, name


async def test_headers_of_an_answer_keep_their_order_and_lose_what_is_not_theirs(
    world: FrontWorld,
) -> None:
    heard = Heard(
        b"HTTP/1.1 302 Found\r\nSet-Cookie: a=1\r\nLocation: /login\r\nSet-Cookie: b=2\r\n"
        b"Keep-Alive: 5\r\nConnection: X-Inner\r\nX-Inner: 1\r\nContent-Length: 0\r\n\r\n"
    )
    await world.serve(heard)
    raw = (await world.get("/w/api/")).raw.decode()
    assert raw.split("\r\n")[:6] == [
        *("HTTP/1.1 302 Found", "Set-Cookie: a=1", "Location: /w/api/login", "Set-Cookie: b=2"),
        *("Content-Length: 0", "Connection: close"),
    ]


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
    ],
)
async def test_an_answer_that_breaks_off_is_not_made_to_look_whole(
    world: FrontWorld, sent: bytes
) -> None:
    await world.serve(Heard(sent))
    reader, writer = await world.open()
    writer.write(b"GET /w/api/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
    got = b""
    try:
        async with asyncio.timeout(PATIENCE):
            while piece := await reader.read(65536):
                got += piece
    except ConnectionError:
        pass
    writer.close()
    assert not got.endswith(b"0\r\n\r\n")
    assert len(got.partition(b"\r\n\r\n")[2]) < 100


# Activity


async def test_successes_count_and_nothing_else_does(world: FrontWorld) -> None:
    heard = Heard(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    await world.serve(heard)
    for status in (b"404 Not Found", b"302 Found", b"500 Oops"):
        heard.answer = b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % status
        await world.get("/w/api/")
    heard.answer = OK
    await world.get("/w/api/", X_CodeHub_No_Activity="1")
    assert not any("codehub" in line.lower() for line in heard.lines)
    assert await sources(world) == set()
    heard.answer = b"HTTP/1.1 304 Not Modified\r\n\r\n"
    await world.get("/w/api/")
    assert await sources(world) == {(1, "traffic")}


# WebSockets


class Socket(Client):
    """The demo's test client, through the front."""

    async def send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost:1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()


async def test_a_websocket_carries_messages_both_ways_and_its_goodbye(
    world: FrontWorld, demo: Upstream
) -> None:
    await world.run("api", demo)
    socket = Socket(*await world.open())
    answer = await socket.upgrade("/w/api/echo", Origin="http://localhost:1")
    proof = hashlib.sha1(f"{KEY}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
    assert answer.status == 101
    assert answer.headers["sec-websocket-accept"] == base64.b64encode(proof).decode()
    socket.frame(1, "grüße".encode())
    assert await socket.heard() == (1, "grüße".encode())
    large = bytes(range(256)) * 800
    socket.frame(2, large)
    assert await socket.heard() == (2, large)
    socket.frame(8, (1000).to_bytes(2, "big") + b"bye")
    opcode, payload = await socket.heard()
    assert (opcode, payload[:2]) == (8, (1000).to_bytes(2, "big"))
    assert await socket.ended()
    socket.writer.close()


async def test_data_frames_are_activity_and_pings_are_not(
    world: FrontWorld, demo: Upstream
) -> None:
    await world.run("api", demo)
    socket = Socket(*await world.open())
    await socket.upgrade("/w/api/echo")
    socket.frame(9, b"still there?")
    assert await socket.heard() == (10, b"still there?")
    assert await sources(world) == set()
    socket.frame(1, b"work")
    assert await socket.heard() == (1, b"work")
    assert await sources(world) == {(1, "traffic")}
    socket.writer.close()


async def test_a_websocket_of_another_site_reaches_nobody(world: FrontWorld) -> None:
    heard = Heard()
    await world.serve(heard)
    for headers in ({"Origin": "http://evil.test"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = await world.get("/w/api/echo", **UPGRADE, **headers)
        assert answer.status == 403
    assert heard.heads == []


async def test_a_workspace_that_wants_no_websocket_says_so_itself(
    world: FrontWorld, demo: Upstream
) -> None:
    await world.run("api", demo)
    answer = await world.get("/w/api/echo", **{**UPGRADE, "Sec-WebSocket-Version": "7"})
    assert answer.status == 426
    assert b"version 13" in answer.body


async def test_stopping_does_not_wait_for_websockets(world: FrontWorld, demo: Upstream) -> None:
    await world.run("api", demo)
    socket = Socket(*await world.open())
    await socket.upgrade("/w/api/echo")
    socket.frame(1, b"hello")
    await socket.heard()
    async with asyncio.timeout(PATIENCE):
        await world.front.stop()
        assert await socket.ended()
    socket.writer.close()


async def test_a_workspace_that_dies_ends_the_websocket(world: FrontWorld, tmp_path: Path) -> None:
    with demo_workspace(tmp_path, "/w/api") as upstream:
        await world.run("api", upstream)
        socket = Socket(*await world.open())
        await socket.upgrade("/w/api/echo")
        socket.frame(1, b"hello")
        await socket.heard()
    assert await socket.ended()
    socket.writer.close()
