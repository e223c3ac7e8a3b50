"""Addresses and networks that the settings name: who in front is believed, or not capped.

The same few peers ask all the time, so what was found out about one is remembered.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_KNOWN: Final = 1000


class Networks:
    """`address in networks`, for addresses as the wire writes them."""

    def __init__(self, listed: Iterable[str] = ()) -> None:
        self._networks = tuple(ip_network(each, strict=False) for each in listed)
        self._known: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: str) -> bool:
        if not self._networks:
            return False
        known = self._known.get(address)
        if known is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            known = self._known[address] = self._holds(address)
        return known

    def _holds(self, text: str) -> bool:
        """What is no address is in none of them."""
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)
