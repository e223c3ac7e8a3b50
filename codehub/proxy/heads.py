"""Heads written anew: what goes on to a workspace, and what comes back from one.

Headers that are about one connection stay behind. On the way back, cookies that only the hub may
set are dropped, and redirects to the workspace's own paths lead there through the hub. A workspace
cannot clear what browsers keep, the hub's login among it, nor give orders to a web server in front;
where it shares the hub's host, it cannot put a service worker over others' paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.proxy.framing import CHUNKED, LOWER, lowered
from codehub.proxy.trailers import TAKES_TRAILERS, announcement

if TYPE_CHECKING:
    from codehub.proxy.parsing import Request, Response
    from codehub.proxy.seam import Forward, Header

HOP_BY_HOP: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te"),
        *(b"proxy-connection", b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
"""Headers that are about one connection only."""

UPGRADE: Final = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
_FRAMING: Final = HOP_BY_HOP | {b"content-length", b"expect"}
_ORDERS: Final = frozenset({b"x-accel-redirect", b"x-lighttpd-send-file", b"x-sendfile"})
"""What makes a web server in front of us serve files of its own, the hub's report among them."""
_HELD_BACK: Final = HOP_BY_HOP | _ORDERS | {b"clear-site-data"}
"""On a host of its own a workspace cannot clear data either: cookies go for the whole domain."""
_WITH_BODY: Final = frozenset({b"POST", b"PUT", b"PATCH"})
_PLACES: Final = (b"location", b"content-location")
_SCOPE: Final = b"service-worker-allowed"
_CLIMBING: Final = (b"..", b"%", b"\\", b"\t")
_AUTHORITY_ENDS: Final = b"/\\?#"


def request_head(request: Request, forward: Forward, length: int, *, upgrade: bool) -> bytes:
    """What the workspace gets to read; `length` is the body's, or CHUNKED."""
    method, lines = request.head.method, forward.lines
    if lines is None:
        lines = header_lines(forward.headers)
    if upgrade:
        lines += UPGRADE
    elif request.trailers:
        lines += TAKES_TRAILERS
    if length == CHUNKED:
        lines += b"Transfer-Encoding: chunked\r\n" + _announced(request, forward)
    elif length or method in _WITH_BODY:
        lines += b"Content-Length: %d\r\n" % length
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (method, forward.target, lines)


def header_lines(headers: list[Header]) -> bytes:
    """A request's headers, but for those about its body."""
    kept = [each for each in headers if (LOWER.get(each[0]) or lowered(each[0])) not in _FRAMING]
    return b"".join([b"%b: %b\r\n" % header for header in kept])


def _announced(request: Request, forward: Forward) -> bytes:
    declared = request.head.all(b"trailer")
    if forward.own or not declared:
        return b""
    return announcement(declared, request.head.tokens(b"connection"))


def response_head(response: Response, headers: list[Header], last: bytes) -> bytes:
    """What the client gets to read; `last` are whole lines about this connection."""
    lines = b"".join([b"%b: %b\r\n" % header for header in headers])
    return b"HTTP/1.1 %b\r\n%b%b\r\n" % (response.line, lines, last)


def kept_headers(response: Response, forward: Forward, host: bytes | None) -> list[Header]:
    """The answer's headers as the client gets them."""
    if not response.noted:
        return response.headers
    dropped = (_HELD_BACK | response.tokens(b"connection")) - {b"content-length"}
    kept: list[Header] = []
    for name, value in response.headers:
        key = LOWER.get(name) or lowered(name)
        if key in dropped or (key == b"set-cookie" and _forbidden(value, forward)):
            continue
        if key in _PLACES:
            value = relocate(value, forward, host)
        elif key == _SCOPE and forward.base:
            value = _scope(value, forward.base)
        kept.append((name, value))
    return kept


def _scope(scope: bytes, base: bytes) -> bytes:
    """How far up a service worker may reach: as far as the workspace itself."""
    climbs = any(each in scope for each in _CLIMBING)
    return scope if _below(scope, base) and not climbs else base + b"/"


def _forbidden(cookie: bytes, forward: Forward) -> bool:
    """Whether a cookie would be sent back under a name that is not the workspace's to use.

    One without a name is sent back as its bare value, which can look like another one's name.
    """
    name = cookie.partition(b";")[0].lstrip(b" \t=").partition(b"=")[0].strip(b" \t")
    return name in forward.forbidden_cookies


def relocate(place: bytes, forward: Forward, host: bytes | None) -> bytes:
    """A redirect as the browser must see it: paths of the workspace lie below its base.

    Where it names the workspace's own address, or the one it was asked under, only its path
    counts. Leading `//` and `/\\` would name another host, which a path cannot have meant;
    browsers take backslashes for slashes and skip tabs.
    """
    path = _own_path(place, forward, host)
    if path[:1] not in (b"/", b"\\"):
        return place
    path = b"/" + path.lstrip(b"/\\\t ")
    base = forward.base
    if not base or _below(path, base) or _below(forward.target, base):
        return path
    return base + path


def _own_path(place: bytes, forward: Forward, host: bytes | None) -> bytes:
    """The path of an absolute address that is the workspace's own; any other place as it is."""
    scheme, colon, rest = place.partition(b"://")
    if not colon or scheme.lower() not in (b"http", b"https"):
        return place
    end = next((at for at, byte in enumerate(rest) if byte in _AUTHORITY_ENDS), len(rest))
    authority = rest[:end].lower()
    own = f"{forward.upstream.host}:{forward.upstream.port}".encode("latin-1", "replace")
    if authority == own or (forward.base and host is not None and authority == host.lower()):
        return rest[end:] if rest[end : end + 1] in (b"/", b"\\") else b"/" + rest[end:]
    return place


def _below(path: bytes, base: bytes) -> bool:
    return path == base or path.startswith((base + b"/", base + b"?", base + b"#"))
