"""Bodies on their way in: how much of what comes belongs to them, and where they end.

Chunks are taken apart strictly: sizes are plain hexadecimal numbers, and lines end with CR LF.
Extensions are dropped; trailers are kept, for whoever passes the body on to choose from.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codehub.proxy.framing import CHUNKED, Bad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.proxy.seam import Header

LAST: Final = b"0\r\n\r\n"
"""The chunk at a body's end."""

_LINE_LIMIT: Final = 1024
_TRAILER_LIMIT: Final = 16 * 1024
_MOST_TRAILERS: Final = 100
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")


def chunk(piece: bytes) -> bytes:
    """One chunk; of nothing, nothing, as an empty chunk would be the last."""
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


def body_reader(length: int) -> LengthReader | ChunkReader:
    """For a body of this length, or a CHUNKED one."""
    return ChunkReader() if length == CHUNKED else LengthReader(length)


class LengthReader:
    """Follows a body whose length is known."""

    __slots__ = ("_left", "rest")

    trailers: Sequence[Header] = ()

    def __init__(self, length: int) -> None:
        self._left = length
        self.rest: bytes | None = None
        """What came after the body, once it is at its end."""

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body in this piece."""
        if len(data) < self._left:
            self._left -= len(data)
            return data
        self.rest = data[self._left :]
        return data[: self._left]


class ChunkReader:
    """Follows a chunked body in pieces of any size."""

    __slots__ = ("_held", "_left", "_room", "rest", "trailers")

    def __init__(self) -> None:
        self._left = 0
        """Bytes still to come of this chunk and of the line end after it."""
        self._held = b""
        self._room: int | None = None
        """How long the trailers may still be, once the last chunk has been seen."""
        self.trailers: Sequence[Header] = ()
        self.rest: bytes | None = None
        """What came after the body, once it is at its end."""

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body in this piece. Raises Bad."""
        if self._left > 2 + len(data):
            self._left -= len(data)
            return data
        if self._held:
            data, self._held = self._held + data, b""
        found: list[bytes] = []
        at = 0
        while at < len(data) and self.rest is None:
            at = self._payload(data, at, found) if self._left else self._line(data, at)
        return found[0] if len(found) == 1 else b"".join(found)

    def _payload(self, data: bytes, at: int, found: list[bytes]) -> int:
        """Step over what is here of this chunk and its line end."""
        end = min(at + self._left, len(data))
        body = min(end, at + self._left - 2)
        if body > at:
            found.append(data[at:body])
        ending = b"\r\n"[2 - self._left :] if self._left < 2 else b"\r\n"
        body = max(body, at)
        if not ending.startswith(data[body:end]):
            raise Bad(400, "a chunk is longer than it says")
        self._left -= end - at
        return end

    def _line(self, data: bytes, at: int) -> int:
        """Read one line: a chunk's size or a trailer; the beginning of one is kept."""
        end = data.find(b"\r\n", at)
        limit = _LINE_LIMIT if self._room is None else self._room
        if (len(data) if end < 0 else end) - at > limit:
            raise Bad(400, "a line between the chunks is too long")
        if end < 0:
            self._held = data[at:]
            if b"\n" in self._held:
                raise Bad(400, "a chunk's line does not end well")
            return len(data)
        if self._room is None:
            self._size(data[at:end])
        else:
            self._trailer(data[at:end], data, end + 2)
        return end + 2

    def _size(self, line: bytes) -> None:
        match = _SIZE.fullmatch(line)
        if match is None:
            raise Bad(400, "a chunk's size cannot be read")
        size = int(match[1], 16)
        if size:
            self._left = size + 2
        else:
            self._room = _TRAILER_LIMIT

    def _trailer(self, line: bytes, data: bytes, end: int) -> None:
        assert self._room is not None
        if not line:
            self.rest = data[end:]
            return
        if not _TRAILER.fullmatch(line):
            raise Bad(400, "a trailer cannot be read")
        if len(self.trailers) >= _MOST_TRAILERS:
            raise Bad(400, "there are too many trailers")
        self._room -= len(line) + 2
        name, _, value = line.partition(b":")
        self.trailers = (*self.trailers, (name, value.strip(b" \t")))
