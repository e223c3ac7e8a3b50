"""WebSocket frames, seen from outside: where they begin, what they are, and a few of our own.

The scanner follows one direction of a WebSocket without taking part in it. It keeps at most one
header and a few bytes, whatever the size of the pieces and of the frames.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from hashlib import sha1
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from codehub.proxy.seam import RequestHead, Watcher

CLOSE: Final = 8
PING: Final = 9
GOING_AWAY: Final = 1001
POLICY: Final = 1008
TRY_AGAIN_LATER: Final = 1013

SHORT: Final = 125
"""Frames up to this length are short, and the watcher gets to see how they begin."""
FIRST: Final = 16
"""How much of it."""

_LONGEST_REASON: Final = 123
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Told(Protocol):
    def __call__(self, opcode: int, length: int, first: bytes, *, from_client: bool) -> None: ...


class FrameScanner:
    """Tells a watcher of every frame that begins in one direction."""

    __slots__ = ("_from_client", "_held", "_left", "_tell")

    def __init__(self, watcher: Watcher, *, from_client: bool) -> None:
        self._tell: Told = watcher.frame
        self._from_client = from_client
        self._left = 0
        """Bytes of the current frame still to come."""
        self._held = b""
        """The beginning of a frame that cannot be told yet; the bytes themselves have passed."""

    @property
    def between(self) -> bool:
        """Whether a frame has just ended, so that another may be put in."""
        return not (self._left or self._held)

    def feed(self, data: bytes) -> None:
        """Follow the next piece."""
        size = len(data)
        if self._left >= size:
            self._left -= size
            return
        at = self._left
        if self._held:
            # Held bytes are counted as seen, so they stand before this piece.
            data, self._held = self._held + data, b""
            size = len(data)
        while at < size:
            end = self._frame(data, at, size)
            if end < 0:
                self._held = data[at:]
                self._left = 0
                return
            at = end
        self._left = at - size

    def upto(self, data: bytes) -> int:
        """How many bytes of this piece belong to frames that have begun before it.

        With the beginning of a header held, it is the frame of that header that is ended.
        """
        if not self._held:
            return min(self._left, len(data))
        whole = self._held + data
        bounds = _bounds(whole, 0, len(whole))
        if bounds is None:
            return len(data)
        return min(bounds[1] + bounds[2] - len(self._held), len(data))

    def _frame(self, data: bytes, at: int, size: int) -> int:
        """Tell of the frame at this place and say where it ends; -1 while too little is here."""
        bounds = _bounds(data, at, size)
        if bounds is None:
            return -1
        masked, start, length = bounds
        first = b""
        if length <= SHORT:
            stop = start + (length if length < FIRST else FIRST)
            if stop > size:
                return -1
            first = data[start:stop]
            if masked:
                first = _unmasked(first, data[start - 4 : start])
        self._tell(data[at] & 0x0F, length, first, from_client=self._from_client)
        return start + length


def _bounds(data: bytes, at: int, size: int) -> tuple[bool, int, int] | None:
    """Whether the frame is masked, where its payload starts and how long it is."""
    if at + 2 > size:
        return None
    second = data[at + 1]
    masked = second > 127
    length = second & 0x7F
    start = at + 6 if masked else at + 2
    if length > SHORT:
        wide = 2 if length == 126 else 8
        start += wide
        length = int.from_bytes(data[at + 2 : at + 2 + wide], "big")
    return (masked, start, length) if start <= size else None


def _unmasked(data: bytes, mask: bytes) -> bytes:
    key = mask * (len(data) // 4 + 1)
    number = int.from_bytes(data, "big") ^ int.from_bytes(key[: len(data)], "big")
    return number.to_bytes(len(data), "big")


def frame(opcode: int, payload: bytes = b"", *, masked: bool = False) -> bytes:
    """A short frame of our own; those to a server are masked."""
    if not masked:
        return bytes((0x80 | opcode, len(payload))) + payload
    mask = os.urandom(4)
    return bytes((0x80 | opcode, 0x80 | len(payload))) + mask + _unmasked(payload, mask)


def close_frame(code: int, reason: str = "", *, masked: bool = False) -> bytes:
    """A close frame; a reason that is too long loses its end."""
    words = reason.encode()[:_LONGEST_REASON].decode(errors="ignore").encode()
    return frame(CLOSE, code.to_bytes(2, "big") + words, masked=masked)


def accept_key(key: bytes) -> bytes:
    """What a server answers to a client's key."""
    return b64encode(sha1(key + _GUID, usedforsecurity=False).digest())


def shakes_hands(head: RequestHead) -> bool:
    """Whether a request for a WebSocket has all that it needs."""
    keys = head.all(b"sec-websocket-key")
    return head.all(b"sec-websocket-version") == [b"13"] and len(keys) == 1 and valid_key(keys[0])


def valid_key(key: bytes) -> bool:
    """Whether this is sixteen bytes, as every client chooses anew."""
    try:
        return len(key) == 24 and len(b64decode(key, validate=True)) == 16
    except NotBase64:
        return False
