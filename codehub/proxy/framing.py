"""What both kinds of heads share: the headers that mean something, and how long a body is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codehub.proxy.seam import Header

CHUNKED: Final = -1
UNTIL_CLOSE: Final = -2

NOTED: Final = frozenset(
    {
        *(b"connection", b"content-length", b"keep-alive", b"proxy-authenticate"),
        *(b"proxy-authorization", b"proxy-connection", b"te", b"trailer", b"transfer-encoding"),
        *(b"upgrade", b"clear-site-data", b"content-location", b"location"),
        *(b"service-worker-allowed", b"set-cookie"),
        *(b"x-accel-redirect", b"x-lighttpd-send-file", b"x-sendfile"),
    }
)
"""Names in an answer that mean something to the wire; all others just pass."""

LOWER: Final[dict[bytes, bytes]] = {}
"""Names of headers as they were sent before, and in small letters: the same ones come always."""
_MOST_NAMES: Final = 512

_LENGTH: Final = re.compile(rb"[0-9]{1,18}")


class Bad(Exception):
    """A message that must not be understood; a client is told so with `status`."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def lowered(name: bytes) -> bytes:
    """A name that is not in LOWER yet."""
    key = name.lower()
    if len(LOWER) < _MOST_NAMES and len(name) < 64:
        LOWER[name] = key
    return key


class HeardRequest:
    """What llhttp tells of a request's head."""

    __slots__ = ("headers", "named", "target")

    def __init__(self) -> None:
        self.headers: list[Header] = []
        self.named: dict[bytes, list[bytes]] = {}
        self.target = b""

    def on_message_begin(self) -> None:
        self.headers = []
        self.named = {}

    def on_url(self, url: bytes) -> None:
        self.target = url

    def on_header(self, name: bytes, value: bytes) -> None:
        value = value.strip()
        self.headers.append((name, value))
        key = LOWER.get(name) or lowered(name)
        if key in self.named:
            self.named[key].append(value)
        else:
            self.named[key] = [value]


class HeardResponse:
    """What llhttp tells of an answer's head; `noted` has the names in small letters."""

    __slots__ = ("headers", "noted")

    def __init__(self) -> None:
        self.headers: list[Header] = []
        self.noted: list[Header] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        value = value.strip()
        self.headers.append((name, value))
        key = LOWER.get(name) or lowered(name)
        if key in NOTED:
            self.noted.append((key, value))


def framing(
    lengths: list[bytes] | None, encodings: list[bytes] | None, *, otherwise: int, old: bool
) -> int:
    """How long a body is. Raises Bad for what could be read in two ways."""
    if encodings:
        if lengths or old:
            raise Bad(400, "the length of the body cannot be told")
        if [each.lower() for each in encodings] != [b"chunked"]:
            raise Bad(501, "the only transfer encoding is chunked")
        return CHUNKED
    if not lengths:
        return otherwise
    if len(lengths) > 1:
        raise Bad(400, "the Content-Length is not one number")
    return read_length(lengths[0])


def read_length(value: bytes) -> int:
    """The number that a Content-Length says, if it is nothing but one."""
    if not _LENGTH.fullmatch(value):
        raise Bad(400, "the Content-Length is not one number")
    return int(value)


def tokens(values: Iterable[bytes]) -> frozenset[bytes]:
    """The words of a comma-separated header, in small letters."""
    parts = (part for value in values for part in value.split(b","))
    return frozenset(part.strip().lower() for part in parts) - {b""}


def keeps_alive(connection: list[bytes] | None, *, old: bool) -> bool:
    """What the Connection header says of the time after this message."""
    if connection is None:
        return not old
    if connection == [b"keep-alive"]:  # most browsers
        return True
    said = tokens(connection)
    return b"keep-alive" in said and b"close" not in said if old else b"close" not in said


def looks_wrong(begin: bytes, first: bytes) -> bool:
    """Whether the beginning of a head, which must start like `first`, can only become a bad one."""
    if begin[: len(first)] != first[: len(begin)]:
        return True
    # A line feed without its carriage return. Counted, as it is looked for again in all that is
    # here whenever a byte more comes, and an expression would take several times as long.
    return begin.count(b"\n") != begin.count(b"\r\n")
