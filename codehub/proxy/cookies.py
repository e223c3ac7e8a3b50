"""The hub's cookies among all others: found, taken out, and made.

A workspace must never see the hub's cookie, and must get its own exactly as they were sent. So
nothing is parsed and written anew: the pairs that are not ours are cut out of the header as bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SECURE_NAME: Final = b"__Host-codehub"
PLAIN_NAME: Final = b"codehub"
NAMES: Final = frozenset({SECURE_NAME, PLAIN_NAME})
"""Both are always the hub's, whichever is in use: no workspace gets or sets one."""
MOST_BROWSERS: Final = 1000


def cookie_name(*, secure: bool) -> bytes:
    """With TLS a name that browsers let no other host and no plain page set."""
    return SECURE_NAME if secure else PLAIN_NAME


def parse_cookies(values: Iterable[bytes], name: bytes) -> list[bytes]:
    """What is sent under a name, in order and without repetitions."""
    found: dict[bytes, None] = {}
    for value in values:
        if name not in value:
            continue
        for pair in value.split(b";"):
            key, sep, content = pair.partition(b"=")
            if sep and key.strip() == name:
                found[_plain(content)] = None
    return list(found)


def strip_cookies(values: Sequence[bytes], names: frozenset[bytes] = NAMES) -> bytes | None:
    """One Cookie header without these cookies, all others untouched; None when none is left."""
    return _stripped(values[0] if len(values) == 1 else b"; ".join(values), names)


@lru_cache(MOST_BROWSERS)
def _stripped(joined: bytes, names: frozenset[bytes]) -> bytes | None:
    """A browser says the same at every request."""
    if not any(name in joined for name in names):
        return joined or None
    pairs = joined.split(b";")
    kept = [pair for pair in pairs if pair.partition(b"=")[0].strip() not in names]
    if len(kept) == len(pairs):
        return joined
    return b";".join(kept).strip() or None


def set_cookie(secret: str, *, secure: bool, seconds: int) -> bytes:
    """The value of the Set-Cookie header that logs a browser in."""
    return _made(secret.encode("ascii"), secure=secure, seconds=max(seconds, 0))


def clear_cookie(*, secure: bool) -> bytes:
    """The value of the Set-Cookie header that makes a browser forget it."""
    return _made(b"", secure=secure, seconds=0)


def _made(value: bytes, *, secure: bool, seconds: int) -> bytes:
    """Without a Domain, so that it belongs to this host alone."""
    name = cookie_name(secure=secure)
    rest = b"; Path=/; Max-Age=%d; HttpOnly; SameSite=Lax" % seconds
    return name + b"=" + value + rest + (b"; Secure" if secure else b"")


def _plain(content: bytes) -> bytes:
    content = content.strip()
    quoted = len(content) > 1 and content[:1] == content[-1:] == b'"'
    return content[1:-1] if quoted else content
