"""One process of the proxy, put together: the wire, the gate, and what keeps them informed.

`codehub serve proxy` runs some; `codehub up` runs one beside everything else.
"""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from codehub.errors import UsageError
from codehub.proxy.activity import ActivityBuffer
from codehub.proxy.address import Addresses
from codehub.proxy.behind import Behind
from codehub.proxy.beside import Beside
from codehub.proxy.credentials import trust_of
from codehub.proxy.gate import Front, ProxyGate, Ways
from codehub.proxy.home import Home
from codehub.proxy.hosts import LOCAL_DOMAIN, Hosts
from codehub.proxy.identity import identities_of
from codehub.proxy.own import Own
from codehub.proxy.queueing import finder
from codehub.proxy.reports import Reports
from codehub.proxy.server import Server
from codehub.proxy.table import RouteTable
from codehub.proxy.wake import waker
from codehub.proxy.watch import Watch
from codehub.proxy.wire_limits import WireLimits
from codehub.service.reporting import own_page
from codehub.service.rules import limits_of
from codehub.store.pool import Pool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from codehub.config import Settings
    from codehub.model.runtime import Upstream
    from codehub.ports import Signals
    from codehub.proxy.gate import OwnAddresses

CONNECTIONS = 8
"""To the database, for everything but the way to running workspaces, which needs none."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where the proxy listens."""

    host: str = "127.0.0.1"
    port: int = 8080
    shared: bool = False
    """Whether other processes listen on the same port."""


@asynccontextmanager
async def serve_proxy(
    settings: Settings,
    database_url: str,
    signals: Signals,
    pages: Path,
    listening: Listening,
    web: Upstream | None = None,
) -> AsyncIterator[int]:
    """Serve as long as the block lasts; the port is what it is given. Drains at the end.

    `web` is where the web application is; without it there is a front page and no more.
    """
    async with Pool(database_url, size=CONNECTIONS, checked=True) as pool:
        table = RouteTable(pool, database_url, interval=settings.proxy_route_interval)
        buffer = ActivityBuffer(signals, pool, settings)
        identities = identities_of(pool, database_url, settings)
        watch = Watch(
            buffer,
            signals,
            identities,
            table,
            standby=settings.ttl_standby_seconds,
            most=settings.proxy_connections_per_user,
        )
        front = front_of(settings)
        own = Own(
            pool,
            settings,
            front,
            hold=identities.hold,
            routed=lambda name: table.find(name) is not None,
            ready=table.loaded.is_set,
        )
        home: OwnAddresses = Home(pages, partial(_page_of, pool, settings))
        if web is not None:
            home = Behind(web, pool, front, home)
        ways = Ways(finder(pool, limits_of(settings)), waker(pool, limits_of(settings)))
        places = (Reports(table, watch), own, home)
        gate = ProxyGate(front, identities, table, ways, places, watch)
        server = Server(gate, _limits(settings))
        port = await server.start(
            listening.host, listening.port, ssl=_tls(settings), reuse_port=listening.shared
        )
        beside = Beside()
        beside.start(routes=table, logins=identities, watch=watch, activity=buffer)
        try:
            yield port
        finally:
            own.drain()
            await server.drain(settings.proxy_drain_seconds)
            own.close()
            await beside.close()
            await buffer.try_flush()


async def _page_of(pool: Pool, settings: Settings, owner: str) -> str:
    async with pool.connection() as conn:
        return await own_page(conn, settings, owner)


def front_of(settings: Settings) -> Front:
    """What the settings say of names, of those in front, and of TLS."""
    url = settings.proxy_public_url
    local = LOCAL_DOMAIN if url is None else None
    return Front(
        Hosts(url, settings.proxy_workspace_domain or local),
        trust_of(settings),
        secure=url is not None and url.startswith("https:"),
        address=Addresses(settings.proxy_trusted_addresses).of,
    )


def _limits(settings: Settings) -> WireLimits:
    return WireLimits(
        body_bytes=settings.proxy_body_bytes,
        connections=settings.proxy_connections,
        connections_per_address=settings.proxy_connections_per_address,
        upstream_connections=settings.proxy_connections_per_workspace,
        uncapped=settings.proxy_trusted_addresses,
    )


def _tls(settings: Settings) -> ssl.SSLContext | None:
    certificate, key = settings.proxy_tls_certificate, settings.proxy_tls_key
    if certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the certificate {certificate} cannot be used: {error}",
            hint="set PROXY_TLS_CERTIFICATE and PROXY_TLS_KEY to a pair that belongs together",
        ) from error
    context.set_alpn_protocols(["http/1.1"])
    return context
