"""Files with holes, made whole: for an engine that knows no holes.

In GNU's sparse format 1.0 a body begins with the list of its pieces, as lines of decimal numbers
(how many, then the offset and the length of each) filled up to whole blocks; then come the pieces.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from codehub.jobs.pipeline import CHUNK
from codehub.jobs.tarheader import padded, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NOTHING: Final = memoryview(bytes(CHUNK))
_LARGEST_LIST: Final = 16 * 1024 * 1024
_LONGEST_LINE: Final = 20


class Filling:
    """Takes the body of a file of this length, and gives back its bytes with its holes filled."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._pieces: deque[tuple[int, int]] | None = None
        self._held = b""
        self._at = 0

    def feed(self, piece: memoryview) -> Iterator[memoryview]:
        if self._pieces is None:
            self._held += piece
            size = self._read_list()
            if size is None:
                return
            piece = memoryview(self._held)[size:]
        assert self._pieces is not None
        while piece:
            if not self._pieces:
                raise refusal("a file has more data than pieces")
            offset, length = self._pieces.popleft()
            yield from self._nothing_to(offset)
            part = piece[:length]
            if len(part) < length:
                self._pieces.appendleft((offset + len(part), length - len(part)))
            self._at += len(part)
            yield part
            piece = piece[len(part) :]

    def finish(self) -> Iterator[memoryview]:
        """The body has ended; what is left of the file is a hole."""
        if self._pieces is None or any(length for _, length in self._pieces):
            raise refusal("a file has fewer pieces than it says")
        yield from self._nothing_to(self._length)

    def _nothing_to(self, offset: int) -> Iterator[memoryview]:
        while self._at < offset:
            part = _NOTHING[: offset - self._at]
            self._at += len(part)
            yield part

    def _read_list(self) -> int | None:
        """How long the list is in whole blocks; None while its end has not come."""
        first, newline, _ = self._held.partition(b"\n")
        lines = 1 + 2 * _number(first) if newline else 0
        if not newline or self._held.count(b"\n") < lines:
            if len(self._held) > _LARGEST_LIST:
                raise refusal("a file has too many pieces")
            return None
        listed = self._held.split(b"\n", lines)[:lines]
        written = sum(map(len, listed)) + lines
        if len(self._held) < padded(written):
            return None
        numbers = [_number(line) for line in listed[1:]]
        self._pieces = deque(zip(numbers[::2], numbers[1::2], strict=True))
        self._require_order(self._pieces)
        return padded(written)

    def _require_order(self, pieces: Iterable[tuple[int, int]]) -> None:
        end = 0
        for offset, length in pieces:
            if offset < end or offset + length > self._length:
                raise refusal("a file's pieces are not in order")
            end = offset + length


def _number(line: bytes) -> int:
    if not line.isdigit() or len(line) > _LONGEST_LINE:
        raise refusal("a file's holes are described in another format")
    return int(line)
