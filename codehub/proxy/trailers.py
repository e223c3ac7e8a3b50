"""Trailers: fields that come after a body in chunks. Few go on, as few belong there.

Some programs take them for headers (RFC 9110, 6.5.1). So what says how long a message is, where it
goes, who asks, how its body is to be read or what a browser makes of it stays behind; and so does
whatever only the hub may say. What is left is a checksum, a status, a time that something took.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codehub.proxy.framing import tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codehub.proxy.seam import Header

TAKES_TRAILERS: Final = b"Connection: TE\r\nTE: trailers\r\n"
"""What a request says whose answer may have some."""

_NAME: Final = re.compile(rb"[!#$%&'*+.^`|~0-9a-z-]+")
"""In small letters, and without underscores: many applications take those for hyphens."""
_FORBIDDEN: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
        *(b"host", b"forwarded", b"via", b"x-real-ip", b"x-original-url", b"x-rewrite-url"),
        *(b"x-http-method", b"x-http-method-override", b"x-method-override"),
        *(b"cache-control", b"expect", b"max-forwards", b"pragma", b"prefer", b"range"),
        *(b"authorization", b"authentication-info", b"www-authenticate", b"remote-user"),
        *(b"cookie", b"cookie2", b"set-cookie", b"set-cookie2", b"x-csrf-token"),
        *(b"from", b"origin", b"referer", b"user-agent"),
        *(b"age", b"date", b"expires", b"location", b"refresh", b"retry-after", b"vary"),
        *(b"allow", b"alt-svc", b"clear-site-data", b"link", b"service-worker-allowed"),
        *(b"strict-transport-security", b"warning", b"x-accel-redirect", b"x-sendfile"),
    }
)
_FORBIDDEN_BEGINNINGS: Final = (
    *(b"accept", b"access-control-", b"content-", b"cross-origin-", b"if-", b"proxy-", b"sec-"),
    *(b"x-auth-", b"x-codehub-", b"x-content-", b"x-forwarded-", b"x-frame-", b"x-remote-"),
)
_CHECKSUMS: Final = frozenset({b"content-digest", b"content-md5"})
"""About the content, and known only after it."""


def last_chunk(trailers: Iterable[Header], named: frozenset[bytes]) -> bytes:
    """The end of a body in chunks, with those trailers that may go on.

    `named` are the words of the message's Connection header: such fields are about one connection.
    """
    kept = [each for each in trailers if _may_go_on(each[0].lower(), named)]
    return b"0\r\n%b\r\n" % b"".join([b"%b: %b\r\n" % each for each in kept])


def announcement(declared: Iterable[bytes], named: frozenset[bytes]) -> bytes:
    """The line that tells which trailers come, of what the message's Trailer headers say."""
    names = [each for each in sorted(tokens(declared)) if _may_go_on(each, named)]
    return b"Trailer: %b\r\n" % b", ".join(names) if names else b""


def _may_go_on(name: bytes, named: frozenset[bytes]) -> bool:
    if name in named or name in _FORBIDDEN or not _NAME.fullmatch(name):
        return False
    return name in _CHECKSUMS or not name.startswith(_FORBIDDEN_BEGINNINGS)
