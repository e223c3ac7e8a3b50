"""TLS connections, counted from the moment they are there.

Event loops tell of a TLS connection only once both sides have agreed on a key, so whoever opens one
and says nothing would be nobody's, and in no count, for as long as a handshake may take. So these
connections are accepted here, and handed to the loop when there is room for them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codehub.proxy.client import Client

if TYPE_CHECKING:
    import ssl as tls
    from collections.abc import Iterable

    from codehub.proxy.server import Server

log: Final = logging.getLogger("codehub.proxy")

BACKLOG: Final = 1024
AT_ONCE: Final = 64
"""Connections accepted before others get their turn."""
PAUSE_SECONDS: Final = 1.0
"""How long to accept nothing when the system cannot give more."""


async def bind(host: str, port: int, *, reuse_port: bool) -> list[socket.socket]:
    """A socket for each address that the host has. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            bound.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
    except OSError:
        for sock in bound:
            sock.close()
        raise
    return bound


class Handshakes:
    """Listens, and makes clients of those who get through the handshake in time."""

    def __init__(
        self, server: Server, sockets: Iterable[socket.socket], context: tls.SSLContext
    ) -> None:
        self._server = server
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._shaking: set[asyncio.Task[None]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self.sockets: tuple[socket.socket, ...] = tuple(sockets)
        for sock in self.sockets:
            sock.setblocking(False)
            sock.listen(BACKLOG)
            self._loop.add_reader(sock, self._accept, sock)

    def close(self) -> None:
        """Accept nothing more, and let those go who are not through."""
        sockets, self.sockets = self.sockets, ()
        for sock in sockets:
            self._loop.remove_reader(sock)
            sock.close()
        for pause in self._pauses.values():
            pause.cancel()
        for task in list(self._shaking):
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("no connections can be accepted for a moment: %s", error)
                self._pause(listening)
                return
            client = Client(self._server)
            if self._server.expect(client, str(address[0])):
                self._begin(client, sock)
            else:
                sock.close()

    def _pause(self, listening: socket.socket) -> None:
        self._loop.remove_reader(listening)
        self._pauses[listening] = self._loop.call_later(
            PAUSE_SECONDS, self._loop.add_reader, listening, self._accept, listening
        )

    def _begin(self, client: Client, sock: socket.socket) -> None:
        def over(task: asyncio.Task[None]) -> None:
            self._shaking.discard(task)
            self._server.expect_no_more(client)
            if task.cancelled():
                sock.close()

        task = self._server.spawn(self._shake_hands(client, sock))
        self._shaking.add(task)
        task.add_done_callback(over)

    async def _shake_hands(self, client: Client, sock: socket.socket) -> None:
        sock.setblocking(False)
        # Whoever does not get through is nobody's concern: they are gone, and never were a client.
        with suppress(OSError):
            await self._loop.connect_accepted_socket(
                lambda: client,
                sock,
                ssl=self._context,
                ssl_handshake_timeout=self._server.limits.handshake_seconds,
            )
