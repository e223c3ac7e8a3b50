"""TLS connections are counted before they say anything, and none stays silent for long."""

from __future__ import annotations

import asyncio
import socket as sockets
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from codehub.errors import CodeHubError
from codehub.proxy import handshakes
from codehub.proxy.server import Server
from codehub.proxy.wire_limits import WireLimits
from codehub.telemetry.instruments import TRAFFIC
from tests.proxy.wire.test_answers import certificate
from tests.proxy.wire.wire_world import GET, OK, PATIENCE, OpenGate, Talk, Wire, Workspace, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

SILENT = 50


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    directory: Path = tmp_path_factory.mktemp("certificate")
    return certificate(directory)


@asynccontextmanager
async def secured(context: ssl.SSLContext, **limits: Any) -> AsyncIterator[Wire]:
    """A server that speaks TLS, with a workspace behind it."""
    gate = OpenGate()
    server = Server(gate, WireLimits(**limits))
    world = Wire(server, gate, await server.start(ssl=context))
    await world.serve(Workspace())
    try:
        async with asyncio.timeout(PATIENCE):
            yield world
    finally:
        await server.drain(0)
        for each in world.servers:
            each.close()


async def shake_hands(world: Wire, address: str = "127.0.0.1") -> Talk:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return Talk(
        *await asyncio.open_connection(
            "127.0.0.1", world.port, ssl=trusting, local_addr=(address, 0)
        )
    )


async def is_served(world: Wire, address: str = "127.0.0.1") -> bool:
    talk = await shake_hands(world, address)
    talk.send(GET % b"")
    served = await talk.reader.readexactly(len(OK)) == OK
    await talk.close()
    return served


@asynccontextmanager
async def crowd(world: Wire) -> AsyncIterator[list[asyncio.Task[bytes]]]:
    """Many who say nothing; each waits for the server to let it go."""
    silent = [await world.open() for _ in range(SILENT)]
    waiting = [asyncio.create_task(talk.rest()) for talk in silent]
    try:
        yield waiting
    finally:
        for talk in silent:
            await talk.close()
        await asyncio.gather(*waiting)


def let_go(waiting: list[asyncio.Task[bytes]]) -> int:
    return sum(each.done() for each in waiting)


@pytest.mark.parametrize("limit", ["connections", "connections_per_address"])
async def test_silent_connections_are_within_the_limits(
    context: ssl.SSLContext, limit: str
) -> None:
    before, refused = TRAFFIC.connections, TRAFFIC.connections_refused
    async with secured(context, handshake_seconds=PATIENCE, **{limit: 3}) as world:
        async with crowd(world) as waiting:
            await until(lambda: let_go(waiting) == SILENT - 3)
            assert TRAFFIC.connections == before + 3
            assert TRAFFIC.connections_refused == refused + SILENT - 3
            if limit == "connections_per_address":
                assert await is_served(world, "127.0.0.2"), "others are not their concern"
        await until(lambda: TRAFFIC.connections == before)
        assert await is_served(world)
    assert TRAFFIC.connections == before


async def test_silent_connections_are_let_go_soon(context: ssl.SSLContext) -> None:
    async with secured(context, handshake_seconds=0.2) as world:
        async with crowd(world) as waiting:
            await until(lambda: let_go(waiting) == SILENT)
        await until(lambda: not world.server._from)
        assert await is_served(world)


async def test_whoever_is_through_counts_once(context: ssl.SSLContext) -> None:
    async with secured(context, connections=1) as world:
        for _ in range(3):
            assert await is_served(world)
            await until(lambda: not world.server._from)
        talk = await shake_hands(world)
        assert dict(world.server._from) == {"127.0.0.1": 1}
        await talk.close()


async def test_whoever_speaks_no_tls_is_let_go(context: ssl.SSLContext) -> None:
    async with secured(context) as world:
        raw = await world.say(GET % b"")
        assert b"HTTP" not in raw
        await until(lambda: not world.server._from)
        assert await is_served(world)


async def test_stopping_waits_for_no_handshake(context: ssl.SSLContext) -> None:
    async with secured(context, handshake_seconds=PATIENCE) as world:
        talk = await world.open()
        await until(lambda: world.server._from)
        await world.server.drain(PATIENCE)
        assert await talk.rest() == b""
        await talk.close()
        assert not world.server._from
        with pytest.raises(OSError):
            await world.open()


async def test_when_the_system_can_give_no_more_it_is_asked_again(
    context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "PAUSE_SECONDS", 0.01)
    failures = iter([OSError(24, "Too many open files")])
    real = sockets.socket.accept

    def accept(listening: sockets.socket) -> Any:
        for failure in failures:
            raise failure
        return real(listening)

    async with secured(context) as world:
        monkeypatch.setattr(sockets.socket, "accept", accept)
        assert await is_served(world)


async def test_sockets_as_without_tls(context: ssl.SSLContext) -> None:
    """Several servers on one port, a socket that is given, and a port that is taken."""
    one, two = (Server(OpenGate(), WireLimits()) for _ in range(2))
    port = await one.start(ssl=context, reuse_port=True)
    assert await two.start("127.0.0.1", port, ssl=context, reuse_port=True) == port
    with pytest.raises(CodeHubError, match=f"cannot listen on 127.0.0.1:{port}"):
        await Server(OpenGate(), WireLimits()).start("127.0.0.1", port, ssl=context)
    with sockets.socket() as given:
        given.bind(("127.0.0.1", 0))
        three = Server(OpenGate(), WireLimits())
        assert await three.start(sock=given, ssl=context) == given.getsockname()[1]
        await three.drain(0)
    await one.drain(0)
    await two.drain(0)
