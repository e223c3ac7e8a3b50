"""Under which names the hub is reached, and which names are a workspace's own.

A request for any other name gets nothing: a page from elsewhere that makes its own name point here
(DNS rebinding) must not reach a hub that trusts its address.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from codehub.errors import UsageError

NAME: Final = r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?"
LOCAL_DOMAIN: Final = "localhost"
MOST_KNOWN: Final = 1000

_HOST: Final = re.compile(
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::(?P<port>[0-9]{1,5}))?"
)
_LOOPBACK: Final = frozenset({LOCAL_DOMAIN, "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Place:
    """A host that is ours: the hub's, or with `workspace` that workspace's own.

    `host` is the name without port, and empty on the hub's own, as sessions have it.
    """

    host: str = ""
    workspace: str | None = None


HUB: Final = Place()


class Hosts:
    """`public_url` is where browsers find the hub; without it, on this machine's names only.

    Workspaces have hosts of their own below `domain`, where there is one.
    """

    def __init__(self, public_url: str | None = None, domain: str | None = None) -> None:
        self._hub = _LOOPBACK if public_url is None else frozenset({_host_of(public_url)})
        self._own = None
        if domain is not None:
            self._own = re.compile(rf"({NAME})\.{re.escape(domain.lower().strip('.'))}")
        self._known: dict[bytes, Place | None] = {}

    def place(self, host: bytes | None) -> Place | None:
        """What the Host header names; None for what is not ours."""
        if host is None:
            return None
        if host not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[host] = self._place(host)
        return self._known[host]

    def _place(self, host: bytes) -> Place | None:
        match = _HOST.fullmatch(host.decode("latin-1").lower())
        if match is None:
            return None
        name = match["host"]
        if name in self._hub:
            return HUB
        own = self._own.fullmatch(name) if self._own is not None else None
        return Place(name, own[1]) if own is not None else None


def _host_of(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"the hub's public address {url} is not one that a browser could open",
            hint="set PROXY_PUBLIC_URL to something like https://codehub.example.com",
        )
    name = parts.hostname.lower()
    return f"[{name}]" if ":" in name else name
