"""The hub's own answers as bytes."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from codehub.proxy.frames import accept_key
from codehub.proxy.heads import UPGRADE

if TYPE_CHECKING:
    from codehub.proxy.parsing import Request
    from codehub.proxy.seam import Answer

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE: Final = b"Connection: close\r\n"
KEEP_ALIVE: Final = b"Connection: keep-alive\r\n"

_OURS: Final = frozenset({b"connection", b"content-length", b"transfer-encoding", b"upgrade"})
_BODILESS: Final = frozenset({101, 204, 304})
_LINE_ENDS: Final = (b"\r", b"\n", b"\0")


def whole(answer: Answer, body: bytes, last: bytes, *, head_only: bool) -> bytes:
    """An answer whose body is here; `last` are whole lines about the connection."""
    bodiless = answer.status in _BODILESS
    if not bodiless:
        last = b"Content-Length: %d\r\n%b" % (len(body), last)
    head = _head(answer, last)
    return head if bodiless or head_only else head + body


def beginning(answer: Answer, last: bytes) -> bytes:
    """The head of an answer whose body comes piece by piece."""
    return _head(answer, last)


def switching(answer: Answer, request: Request) -> bytes:
    """A WebSocket that the hub itself opens, to say something in frames: the answer's body."""
    proof = b"Sec-WebSocket-Accept: %b\r\n" % accept_key(
        request.head.get(b"sec-websocket-key") or b""
    )
    frames = answer.body if isinstance(answer.body, bytes) else b""
    return _head(answer, proof + UPGRADE) + frames


def _head(answer: Answer, last: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d %b\r\n" % (answer.status, _phrase(answer.status))]
    for name, value in answer.headers:
        # A line end in a value would begin a header that nobody meant.
        if name.lower() not in _OURS and not any(each in value for each in _LINE_ENDS):
            lines.append(b"%b: %b\r\n" % (name, value))
    lines.append(last)
    lines.append(b"\r\n")
    return b"".join(lines)


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode("ascii")
    except ValueError:
        return b""
