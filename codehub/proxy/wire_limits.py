"""How much, how many and how long: what the wire lets a connection have.

All times are in seconds. They are looked at by one sweep for all connections, so they are kept to
within the sweep's period, not to the millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WireLimits:
    """The limits of one server."""

    head_bytes: int = 32 * 1024
    """The longest head of a request; longer ones get 431."""
    headers: int = 100
    """The most headers of a request."""
    head_seconds: float = 10
    """From a head's first byte to its last: whoever is slower gets 408."""
    handshake_seconds: float = 5
    """How long a client may take to agree on TLS."""
    idle_seconds: float = 75
    """How long a connection may be without a request."""
    stall_seconds: float = 120
    """How long a body may stand still, on its way in or out."""
    linger_seconds: float = 2
    """How long a refused client is heard out, so that it gets to read the refusal."""
    body_bytes: int | None = None
    """The longest body of a forwarded request (413); None for any length."""
    connections: int = 10_000
    connections_per_address: int = 1_000
    uncapped: frozenset[str] = frozenset()
    """Addresses and networks without a cap of their own: proxies in front, which speak for many."""
    connect_seconds: float = 5
    answer_seconds: float | None = None
    """How long a workspace may think before its answer begins; None for as long as it likes."""
    upstream_connections: int = 1_000
    """Connections to one workspace, WebSockets among them; 503 beyond."""
    upstream_idle: int = 64
    """Of these, how many are kept for later requests,"""
    upstream_idle_seconds: float = 30
    """and how long."""
    upstream_fresh_seconds: float = 1
    """A request that must not be sent twice takes a kept connection only if it is this fresh."""
    form_seconds: float = 30
    """How long a body may take that the proxy itself reads, a form's, however steadily it comes."""
    own_requests: int = 64
    """What one visitor may have under way to the web application at once; 429 beyond."""
    own_body_seconds: float = 60
    """How long a body may take to get there, however steadily it comes."""
    ping_seconds: float = 30
    """A WebSocket on which nothing passes is pinged so often: it is silent for no longer."""
    goodbye_seconds: float = 5
    """How long the other side of a closing WebSocket may take to end."""

    @property
    def sweep_seconds(self) -> float:
        """How often to look: often enough for the shortest of the limits."""
        shortest = min(self.head_seconds, self.idle_seconds, self.stall_seconds, self.ping_seconds)
        shortest = min(shortest, self.linger_seconds, self.goodbye_seconds)
        shortest = min(shortest, self.form_seconds, self.own_body_seconds)
        return min(1.0, max(0.01, shortest / 4))
