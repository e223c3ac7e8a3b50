"""How long the next login must wait after others failed.

Three counters watch each try, and each grows its own pause. The one for an account from one address
is strict. The one for an address, over all accounts, stops somebody who tries one password on
everybody. The one for an account, over all addresses, slows down many machines that guess together;
its longest pause is short, because the owner of the account pays for it, and addresses from which
the account was opened lately do not pay at all. A single stranger cannot even keep it up: only
tries that are let through count, and the strict counter lets fewer through than this one forgets.
So nobody can lock somebody else out.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from math import ceil
from typing import Final


@dataclass(frozen=True, slots=True)
class Pace:
    """So many failures are free; then pauses double from `first` to `most` seconds.

    One failure is forgotten every `forget` seconds.
    """

    free: int
    first: float
    most: float
    forget: float


@dataclass(frozen=True, slots=True)
class Paces:
    """The three counters' rules."""

    pair: Pace = Pace(free=4, first=1, most=300, forget=600)
    address: Pace = Pace(free=20, first=1, most=300, forget=60)
    account: Pace = Pace(free=10, first=1, most=15, forget=60)


PACES: Final = Paces()


@dataclass(frozen=True, slots=True)
class Tally:
    """A counter as stored: how many failures, and how many seconds ago the last one was."""

    failures: float = 0
    ago: float = 0


def wait(tally: Tally, pace: Pace) -> float:
    """Seconds until the next try is let through; zero or less for now."""
    return _pause(tally.failures, pace) - max(tally.ago, 0)


def count(tally: Tally, pace: Pace) -> float:
    """The counter after one more try. It counts as a failure until it turns out to be none."""
    return max(tally.failures - max(tally.ago, 0) / pace.forget, 0.0) + 1.0


def keys(name: str, address: str, paces: Paces, *, known: bool) -> dict[str, Pace]:
    """The counters for a try, each with its rule. `known`: the account was opened from there."""
    account, network = _account(name), _network(address)
    watched = {
        f"pair {account} {network}": paces.pair,
        f"address {network}": paces.address,
    }
    return watched if known else watched | {f"account {account}": paces.account}


def _pause(failures: float, pace: Pace) -> float:
    above = ceil(failures) - pace.free
    if above <= 0:
        return 0
    # The exponent is bounded: 2.0 ** 2000 does not fit a float.
    return float(min(pace.first * 2.0 ** min(above - 1, 60), pace.most))


def _account(name: str) -> str:
    """A few bits of the name's hash: people type passwords where names belong.

    Enough to tell accounts apart, too little to find out what was typed.
    """
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:4]


def _network(address: str) -> str:
    """Whoever has one IPv6 address has the other 2⁶⁴ of its network too."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"
