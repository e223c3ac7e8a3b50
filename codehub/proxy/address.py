"""Where a request comes from, as far as the proxies in front are believed."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from codehub.proxy.networks import Networks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codehub.proxy.seam import RequestHead


class Addresses:
    """Believes `X-Forwarded-For` from these networks, and up to the first who is in none."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._networks = Networks(trusted)

    def of(self, head: RequestHead) -> str:
        if head.peer not in self._networks:
            return head.peer
        hops = [hop.strip() for value in head.all(b"x-forwarded-for") for hop in value.split(b",")]
        address = head.peer
        for hop in reversed(hops):
            said = hop.decode("latin-1")
            if not _is_address(said):
                break
            address = said
            if said not in self._networks:
                break
        return address


def _is_address(text: str) -> bool:
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
