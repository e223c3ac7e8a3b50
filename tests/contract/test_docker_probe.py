"""When a published port counts as answered: the engine takes connections for nobody, too."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.docker import probe
from tests.contract.docker_proxy import engine_proxy
from tests.contract.docker_world import provide_bench, provide_docker_world  # noqa: F401
from tests.contract.runtime_world import answers, eventually, leads, new_volume, request_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.contract.docker_world import DockerWorld

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, probe.HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def test_an_answer_counts_even_one_that_refuses() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 501 Not Implemented\r\n\r\n")

    async with listening(serve) as port:
        assert await probe.answers(port)


async def test_a_greeting_of_another_protocol_counts() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-test\r\n")

    async with listening(serve) as port:
        assert await probe.answers(port)


async def test_a_connection_that_stays_open_counts() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(serve) as port:
        assert await probe.answers(port)


async def test_a_connection_that_is_closed_at_once_does_not() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Says nothing, as the engine for a port on which nobody listens."""
        await reader.readuntil(b"\r\n\r\n")

    async with listening(serve) as port:
        assert not await probe.answers(port)


async def test_a_connection_that_is_reset_does_not() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with listening(serve) as port:
        assert not await probe.answers(port)


async def test_nobody_does_not() -> None:
    with socket.socket() as nobody:
        nobody.bind((probe.HOST, 0))

        assert not await probe.answers(nobody.getsockname()[1])


async def test_a_start_waits_for_the_workspace_and_not_for_the_engine(
    docker_world: DockerWorld,
) -> None:
    with engine_proxy() as proxy:
        runtime = docker_world.open(base_url=proxy.base_url)
        script = f"until [ -e $HOME/go ]; do sleep 0.05; done; exec {docker_world.serve}"
        request = request_for(docker_world, await new_volume(runtime), script)
        starting = asyncio.create_task(runtime.start(request, leads))

        async def has_looked_often() -> bool:
            paths = [each.path.rpartition("/")[2] for each in proxy.asked]
            return "start" in paths and paths[paths.index("start") :].count("json") > 4

        await eventually(has_looked_often, "it was asked for several times")
        assert not starting.done()
        upstream = await runtime.upstream(request.workspace_id)
        assert upstream is not None
        assert not await probe.answers(upstream.port)
        await docker_world.write(request.volume, "go", "")
        await starting

        assert await answers(upstream)
