"""Showing the metrics: as text, and on an address of their own for Prometheus.

    async with listen("127.0.0.1:9464"):
        ...

It answers on the event loop of the process it tells of: one whose loop hangs does not say that it
is well. There is no login, so the address is for the operator's own network; what is shown has no
names of people or workspaces.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from codehub.errors import CodeHubError, UsageError
from codehub.telemetry.instruments import REGISTRY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log: Final = logging.getLogger("codehub.telemetry")

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
PATIENCE: Final = 10.0
"""Seconds that somebody gets to ask, and to take the answer."""
AT_ONCE: Final = 16
"""Connections; further ones are closed."""
HIGHEST_PORT: Final = 65535
_HEAD_LIMIT: Final = 8192
_TEXT: Final = "text/plain; charset=utf-8"
_HINT: Final = "set METRICS_LISTEN to an address such as 127.0.0.1:9464, or leave it out"


def render() -> bytes:
    """All metrics of this process in Prometheus' text format; its type is `CONTENT_TYPE`."""
    return generate_latest(REGISTRY)


@asynccontextmanager
async def listen(address: str | None, *, worker: int = 0) -> AsyncIterator[int | None]:
    """Serve `/metrics` and `/healthz` at `host:port` as long as the block lasts; None is off.

    Of several workers each has an address of its own: number `worker` listens on port + worker.
    Gives the port.
    """
    if address is None:
        yield None
        return
    host, port = _split(address)
    # A port of 0 is a free one, whoever asks.
    server = await _start(host, port + worker if port else 0)
    served = int(server.sockets[0].getsockname()[1])
    log.info("metrics are served at %s:%d", host, served)
    try:
        yield served
    finally:
        server.close()


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > HIGHEST_PORT:
        raise UsageError(f"metrics cannot be served at {address!r}", hint=_HINT)
    return host.removeprefix("[").removesuffix("]"), int(port)


async def _start(host: str, port: int) -> asyncio.Server:
    visitors = _Visitors()
    try:
        return await asyncio.start_server(visitors.serve, host, port, limit=_HEAD_LIMIT)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CodeHubError(
            f"metrics cannot be served at {host}:{port}: {why}", hint=_HINT
        ) from None


class _Visitors:
    """Answers one request on each connection, to a few at a time."""

    def __init__(self) -> None:
        self._present = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._present += 1
        try:
            if self._present <= AT_ONCE:
                with suppress(OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
                    async with asyncio.timeout(PATIENCE):
                        head = await reader.readuntil(b"\r\n\r\n")
                        writer.write(_answer(head))
                        await writer.drain()
        finally:
            self._present -= 1
            writer.close()


def _answer(head: bytes) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _reply("405 Method Not Allowed", _TEXT, b"this can only be read\n", head=False)
    only_head = method == b"HEAD"
    if path == b"/metrics":
        return _reply("200 OK", CONTENT_TYPE, render(), head=only_head)
    if path == b"/healthz":
        return _reply("200 OK", _TEXT, b"ok\n", head=only_head)
    return _reply("404 Not Found", _TEXT, b"there are /metrics and /healthz\n", head=only_head)


def _reply(status: str, kind: str, body: bytes, *, head: bool) -> bytes:
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + (b"" if head else body)
