"""The address for Prometheus: what it answers, and what it says when it cannot be had."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress

import pytest

from codehub.errors import CodeHubError, UsageError
from codehub.telemetry import exposition
from codehub.telemetry.exposition import CONTENT_TYPE, listen
from tests.telemetry.shown import PATIENCE, parse

pytestmark = pytest.mark.anyio

HERE = "127.0.0.1:0"


async def ask(port: int | None, request: str) -> tuple[str, dict[str, str], str]:
    """The status line, the headers and the body of one answer."""
    assert port is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{request} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE):
            answer = (await reader.read()).decode()
    finally:
        writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body


async def test_metrics_can_be_read() -> None:
    async with listen(HERE) as port:
        status, headers, body = await ask(port, "GET /metrics")
    assert status == "HTTP/1.1 200 OK"
    assert headers["Content-Type"] == CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"
    assert int(headers["Content-Length"]) == len(body.encode())
    assert ("codehub_leader", frozenset()) in parse(body)


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /healthz", "200 OK", "ok\n"),
        ("GET /healthz?from=prometheus", "200 OK", "ok\n"),
        ("HEAD /healthz", "200 OK", ""),
        ("GET /", "404 Not Found", "there are /metrics and /healthz\n"),
        ("POST /metrics", "405 Method Not Allowed", "this can only be read\n"),
        ("nonsense", "405 Method Not Allowed", "this can only be read\n"),
    ],
)
async def test_what_else_is_asked(request_line: str, status: str, body: str) -> None:
    async with listen(HERE) as port:
        first, headers, got = await ask(port, request_line)
    assert (first, got) == (f"HTTP/1.1 {status}", body)
    assert headers["Connection"] == "close"


async def test_it_is_off_unless_it_is_asked_for() -> None:
    async with listen(None) as port:
        assert port is None


async def test_nobody_listens_after_the_block() -> None:
    async with listen(HERE) as port:
        pass
    with pytest.raises(ConnectionRefusedError):
        await ask(port, "GET /healthz")


async def test_a_port_that_is_taken_is_told_with_what_to_do() -> None:
    async with listen(HERE) as port:
        with pytest.raises(CodeHubError) as told:
            async with listen(f"127.0.0.1:{port}"):
                raise AssertionError("it cannot listen there")
    assert told.value.message.startswith(f"metrics cannot be served at 127.0.0.1:{port}: ")
    assert "in use" in told.value.message
    assert "METRICS_LISTEN" in (told.value.hint or "")


@pytest.mark.parametrize("address", ["9464", ":9464", "127.0.0.1:", "127.0.0.1:http", "h:65536"])
async def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(UsageError, match="metrics cannot be served at"):
        async with listen(address):
            raise AssertionError("it cannot listen there")


async def test_each_worker_has_a_port_of_its_own() -> None:
    first = free_ports(2)
    async with (
        listen(f"127.0.0.1:{first}") as one,
        listen(f"127.0.0.1:{first}", worker=1) as two,
    ):
        assert (one, two) == (first, first + 1)
        assert (await ask(two, "GET /healthz"))[2] == "ok\n"


def free_ports(count: int) -> int:
    """The first of so many ports in a row that are free, and that no test beside this one takes."""
    start = 21000 + os.getpid() % 1000 * 10
    for first in range(start, start + 10 - count):
        with suppress(OSError):
            for port in range(first, first + count):
                with socket.socket() as sock:
                    sock.bind(("127.0.0.1", port))
            return first
    raise AssertionError("no ports are free")


async def test_a_head_without_end_is_cut_off() -> None:
    async with listen(HERE) as port:
        assert port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /" + b"a" * 100_000)
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()
        assert (await ask(port, "GET /healthz"))[2] == "ok\n"


async def test_those_who_come_and_say_nothing_do_not_gather(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exposition, "AT_ONCE", 2)
    async with listen(HERE) as port:
        assert port is not None
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        for _, each in [*silent, (reader, writer)]:
            each.close()


async def test_whoever_says_nothing_for_long_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "PATIENCE", 0.05)
    async with listen(HERE) as port:
        assert port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        writer.close()
