"""What a workspace gets to see of a request: its own path, nothing of the hub's, and who asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.model.workspace import PathPrefix
from codehub.proxy.credentials import outgoing
from codehub.proxy.heads import HOP_BY_HOP

if TYPE_CHECKING:
    from codehub.proxy.credentials import Trust
    from codehub.proxy.seam import Header, RequestHead

OURS: Final = frozenset(
    {
        *(b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto"),
        *(b"x-forwarded-prefix", b"x-forwarded-port", b"x-real-ip"),
    }
)
"""Said anew: what a client says of itself here is not believed."""
_DROPPED: Final = OURS | HOP_BY_HOP
_PLAIN_DROPPED: Final = _DROPPED | {b"accept-encoding"}
_USUAL: Final = ([b"keep-alive"], [b"Keep-Alive"], [b"close"], [b"Upgrade"])
"""What connections usually say: nothing that names another header."""


def onward_target(target: bytes, base: bytes, prefix: PathPrefix) -> bytes:
    """The target as the workspace gets it, byte for byte but for the base that is stripped."""
    return target if prefix is PathPrefix.KEEP else target[len(base) :] or b"/"


def onward_headers(
    head: RequestHead, base: bytes, trust: Trust, *, address: str, secure: bool, plain: bool
) -> list[Header]:
    """The headers as they go on; `plain` asks for a body that is not compressed."""
    dropped = _PLAIN_DROPPED if plain else _DROPPED
    connection = head.all(b"connection")
    if connection and connection not in _USUAL:
        dropped |= head.tokens(b"connection") - {b"host"}
    headers = outgoing(head.headers, trust, dropped=dropped)
    headers += [
        (b"X-Forwarded-For", address.encode("latin-1", "replace")),
        (b"X-Forwarded-Host", head.get(b"host") or b""),
        (b"X-Forwarded-Proto", b"https" if secure else b"http"),
    ]
    if base:
        headers.append((b"X-Forwarded-Prefix", base))
    if plain:
        headers.append((b"Accept-Encoding", b"identity"))
    return headers
