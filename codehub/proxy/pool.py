"""Connections to workspaces that wait for the next request.

A kept connection may be at its end without our knowing yet. So the freshest one is taken first,
and a request that must not be sent twice takes only one that was in use a moment ago.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from codehub.proxy.counting import count_down
from codehub.proxy.upstream import Link

if TYPE_CHECKING:
    from codehub.proxy.server import Server

Address = tuple[str, int]


class Pool:
    """All connections to workspaces; those that wait are at most so many for each of them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._idle: dict[Address, list[Link]] = {}
        self._open: Counter[Address] = Counter()

    def take(self, address: Address, *, fresh: bool) -> Link | None:
        """A connection that waits, if there is one that will do."""
        idle = self._idle.get(address)
        while idle:
            link = idle[-1]
            if fresh and self._server.now - link.since > self._server.limits.upstream_fresh_seconds:
                return None
            idle.pop()
            if not link.transport.is_closing():
                link.used = True
                return link
        return None

    def is_full(self, address: Address) -> bool:
        """Whether there are as many connections to a workspace as there may be."""
        return self._open[address] >= self._server.limits.upstream_connections

    async def connect(self, address: Address) -> Link:
        """A new connection. Raises OSError, and others for an address that cannot be one."""
        self._open[address] += 1
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._server.limits.connect_seconds):
                _, link = await loop.create_connection(lambda: Link(self, address), *address)
        except BaseException:
            count_down(self._open, address)
            raise
        return link

    def give(self, link: Link) -> None:
        """A connection that is good for another request."""
        idle = self._idle.setdefault(link.address, [])
        if len(idle) >= self._server.limits.upstream_idle or self._server.draining:
            link.transport.close()
            return
        link.since = self._server.now
        idle.append(link)

    def lost(self, link: Link) -> None:
        """A connection is no more."""
        count_down(self._open, link.address)
        idle = self._idle.get(link.address)
        if idle is not None and link in idle:
            idle.remove(link)

    def sweep(self) -> None:
        """End those that nobody needed for long."""
        oldest = self._server.now - self._server.limits.upstream_idle_seconds
        for address, idle in list(self._idle.items()):
            while idle and idle[0].since < oldest:
                idle.pop(0).transport.close()
            if not idle:
                del self._idle[address]

    def close(self) -> None:
        """End all that wait."""
        for idle in self._idle.values():
            while idle:
                idle.pop().transport.close()
        self._idle.clear()
