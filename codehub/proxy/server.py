"""The listening side of the proxy: accepts connections, keeps their number and time within limits.

    server = Server(gate, WireLimits())
    port = await server.start("127.0.0.1", 8080)
    ...
    await server.drain(10)

It runs on plain asyncio and on uvloop; `new_event_loop` makes the fastest loop there is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from codehub.errors import CodeHubError
from codehub.proxy.client import Client
from codehub.proxy.counting import count_down
from codehub.proxy.handshakes import BACKLOG, Handshakes, bind
from codehub.proxy.networks import Networks
from codehub.proxy.pool import Pool
from codehub.proxy.shares import Shares
from codehub.telemetry.instruments import TRAFFIC

if TYPE_CHECKING:
    import socket
    import ssl as tls
    from collections.abc import Coroutine

    from codehub.proxy.seam import Gate
    from codehub.proxy.tunnel import Tunnel
    from codehub.proxy.wire_limits import WireLimits

log: Final = logging.getLogger("codehub.proxy")

MOST_TOLD: Final = 64
"""Connections over a limit that are still told so."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A uvloop where that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Server:
    """One listening address in front of a gate."""

    def __init__(self, gate: Gate, limits: WireLimits) -> None:
        self.gate = gate
        self.limits = limits
        self.pool = Pool(self)
        self.tunnels: set[Tunnel] = set()
        self.draining = False
        self.now = 0.0
        """The loop's time at the last sweep: near enough for limits of seconds."""
        self._clients: set[Client] = set()
        self._expected: dict[Client, str] = {}
        """Those who are still agreeing on TLS, and where they are."""
        self._from: Counter[str] = Counter()
        self._uncapped = Networks(limits.uncapped)
        self.shares = Shares(limits.own_requests, self._uncapped)
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | Handshakes | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._next_look = 0.0
        self._all_gone = asyncio.Event()

    async def start(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        ssl: tls.SSLContext | None = None,
        reuse_port: bool = False,
        sock: socket.socket | None = None,
    ) -> int:
        """Listen; the port, which the system chooses where 0 was asked for."""
        loop = asyncio.get_running_loop()
        where: dict[str, Any] = {"sock": sock}
        if sock is None:
            where = {"host": host, "port": port, "reuse_port": reuse_port or None}
        try:
            if ssl is None:
                self._listening = await loop.create_server(
                    lambda: Client(self), backlog=BACKLOG, **where
                )
            else:
                given = [sock] if sock else await bind(host, port, reuse_port=reuse_port)
                self._listening = Handshakes(self, given, ssl)
        except OSError as error:
            raise CodeHubError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                hint="choose another port with --port",
            ) from error
        self._sweep()
        return int(self._listening.sockets[0].getsockname()[1])

    async def drain(self, seconds: float) -> None:
        """Accept nothing more, let requests finish, say goodbye on WebSockets; end the rest."""
        self.draining = True
        if self._listening is not None:
            self._listening.close()
        for client in list(self._clients):
            client.drain()
        for tunnel in list(self.tunnels):
            tunnel.go_away()
        await self._quiet(seconds)
        for tunnel in list(self.tunnels):
            tunnel.abort()
        for client in list(self._clients):
            client.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.pool.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.sleep(0)

    async def _quiet(self, seconds: float) -> None:
        self._check_quiet()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._all_gone.wait()

    def _check_quiet(self) -> None:
        if self.draining and not self._clients and not self._tasks:
            self._all_gone.set()

    # For connections

    def expect(self, client: Client, peer: str) -> bool:
        """Count a connection that is still to agree on TLS; False, uncounted, without room for it.

        Nobody can be told so before a handshake, which costs more than all that is said after it.
        """
        self._expected[client] = peer
        if self._count(peer) > 0:
            self.expect_no_more(client)
            return False
        return True

    def expect_no_more(self, client: Client) -> None:
        """It is through its handshake, or never will be."""
        peer = self._expected.pop(client, None)
        if peer is not None:
            self._uncount(peer)

    def admit(self, client: Client) -> None:
        """Count a connection, and refuse it where there is no room.

        Some more than there is room for are told so; beyond that there is no time to talk.
        """
        self.expect_no_more(client)
        self._clients.add(client)
        over = self._count(client.peer)
        if over > MOST_TOLD:
            client.abort()
        elif over > 0 or self.draining:
            client.refuse(HTTPStatus.SERVICE_UNAVAILABLE, "there are too many connections")

    def release(self, client: Client) -> None:
        """A connection is gone."""
        if client in self._clients:
            self._clients.remove(client)
            self._uncount(client.peer)
            self._check_quiet()

    def _count(self, peer: str) -> int:
        """One more from there; by how many that is too many."""
        TRAFFIC.connections += 1
        self._from[peer] += 1
        limits = self.limits
        over = len(self._clients) + len(self._expected) - limits.connections
        if peer not in self._uncapped:
            over = max(over, self._from[peer] - limits.connections_per_address)
        if over > 0:
            TRAFFIC.connections_refused += 1
        return over

    def _uncount(self, peer: str) -> None:
        TRAFFIC.connections -= 1
        count_down(self._from, peer)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside the connections, to its end."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._check_quiet()

    # Time

    def _sweep(self) -> None:
        """Look whose time is over. One look for all costs less than a timer for each request."""
        loop = asyncio.get_running_loop()
        self.now = now = loop.time()
        self._sweeping = loop.call_later(self.limits.sweep_seconds, self._sweep)
        late = [each for each in self._clients if each.deadline < now or each.body_by < now]
        for client in late:
            client.overdue()
        self.pool.sweep()
        if now >= self._next_look:
            self._next_look = now + self.limits.ping_seconds / 2
            for tunnel in list(self.tunnels):
                tunnel.look()
