"""One process of the web application: `codehub serve web` runs some, `codehub up` one."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

import uvicorn

from codehub.errors import CodeHubError
from codehub.proxy.beside import Beside
from codehub.proxy.credentials import Trust, trust_of
from codehub.proxy.identity import identities_of
from codehub.proxy.process import front_of
from codehub.proxy.whereabouts import whereabouts_of
from codehub.service.fronting import front_key
from codehub.service.rules import limits_of
from codehub.store.pool import Pool
from codehub.telemetry.instruments import WEB_RESTARTS
from codehub.web.app import create_app
from codehub.web.hub import Hub
from codehub.web.stream import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from codehub.config import Settings
    from codehub.ports import Signals
    from codehub.proxy.process import Listening
    from codehub.web.hub import ReadLogs

CONNECTIONS: Final = 8
"""To the database; they do not grow with the number of clients."""
BACKLOG: Final = 2048
DRAIN_SECONDS: Final = 5
STALLED_SECONDS: Final = 60
"""After so long without taking a byte of what it is sent, a client is gone."""
_EVERYWHERE: Final = ("0.0.0.0/0", "::/0")


@asynccontextmanager
async def serve_web(
    settings: Settings,
    database_url: str,
    signals: Signals,
    listening: Listening,
    leaving: asyncio.Event | None = None,
    logs: ReadLogs | None = None,
) -> AsyncIterator[int]:
    """Serve as long as the block lasts; the port is what it is given.

    Once `leaving` is set, streams end: whoever is in front and ends first need not wait for them.
    """
    with _listen(listening) as listener:
        async with open_hub(settings, database_url, signals, logs) as hub:
            server = _Server(_config(hub))
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            seeing_off = asyncio.create_task(_see_off(hub, leaving))
            beside = Beside("web application", WEB_RESTARTS)
            beside.start(logins=hub.identities, streams=hub.streams)
            try:
                yield listener.getsockname()[1]
            finally:
                hub.send_away()
                server.should_exit = True
                await asyncio.wait({serving}, timeout=2 * DRAIN_SECONDS)
                await beside.close()
                for task in (serving, seeing_off):
                    task.cancel()
                await asyncio.gather(serving, seeing_off, return_exceptions=True)


async def _see_off(hub: Hub, leaving: asyncio.Event | None) -> None:
    if leaving is not None:
        await leaving.wait()
        hub.send_away()


@asynccontextmanager
async def open_hub(
    settings: Settings, database_url: str, signals: Signals, logs: ReadLogs | None = None
) -> AsyncIterator[Hub]:
    """What the application works with; its identities are fresh while somebody runs them."""
    async with Pool(database_url, size=CONNECTIONS, checked=True) as pool:
        async with pool.connection() as conn:
            key = await front_key(conn)
        # The proxy has seen to whom the header is believed, and `who` to those who come past it.
        trusted = trust_of(settings).header
        trust = Trust(trusted.decode() if trusted else None, _EVERYWHERE)
        identities = identities_of(pool, database_url, settings, trust)
        yield Hub(
            pool=pool,
            database_url=database_url,
            settings=settings,
            signals=signals,
            identities=identities,
            hosts=front_of(settings).hosts,
            where=whereabouts_of(settings),
            limits=limits_of(settings),
            front_key=key.encode(),
            streams=Streams(pool, signals, identities, settings),
            logs=logs,
        )


class _Server(uvicorn.Server):
    """Signals are for the process that runs it, which may run more than this."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(hub: Hub) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(hub),
        loop="none",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


@contextmanager
def _listen(listening: Listening) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listening.shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listener.bind((listening.host, listening.port))
        except OSError as error:
            raise CodeHubError(
                f"cannot listen on {listening.host}:{listening.port}: {error.strerror}",
                hint="choose another one with --host and --port",
            ) from error
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)
        listener.listen(BACKLOG)
        listener.setblocking(False)
        yield listener
