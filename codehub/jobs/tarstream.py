"""Following a tar stream block by block, in whatever pieces it comes."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from codehub.jobs.tarheader import (
    BLOCK,
    END,
    PAX,
    Member,
    padded,
    pax_size,
    read_member,
    read_records,
    refusal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ZEROS: Final = bytes(BLOCK)

M = TypeVar("M", bound=Member)


class Part(Enum):
    """What else there is between two headers."""

    BODY = auto()
    """With what fills it up to whole blocks."""
    END = auto()


class Track(Generic[M]):
    """Knows what comes next in a stream; `read` makes a member of a header and its records."""

    def __init__(self, read: Callable[[bytes, Mapping[bytes, bytes]], M]) -> None:
        self._read = read
        self._body = 0
        self._zeros = 0

    @property
    def at_end(self) -> bool:
        return not self._body and self._zeros >= len(END)

    def step(self, data: bytes, position: int) -> tuple[int, M | Part] | None:
        """How long the next thing is and what it is; None when more is needed to tell."""
        left = len(data) - position
        if not left:
            return None
        if self._body:
            length = min(self._body, left)
            self._body -= length
            return length, Part.BODY
        if self._zeros or data[position : position + BLOCK] == _ZEROS:
            return self._end(data, position), Part.END
        return self._member(data, position)

    def _end(self, data: bytes, position: int) -> int:
        length = len(data) - position
        if data.count(0, position) != length:
            raise refusal("something follows its end")
        self._zeros += length
        return length

    def _member(self, data: bytes, position: int) -> tuple[int, M] | None:
        """One header with the pax records before it, as a whole or not at all."""
        records: Mapping[bytes, bytes] = {}
        at = position
        block = data[at : at + BLOCK]
        if len(block) == BLOCK and block[156:157] == PAX:
            size = pax_size(block)
            at += BLOCK + padded(size)
            if len(data) < at:
                return None
            records = read_records(data[position + BLOCK : position + BLOCK + size])
            block = data[at : at + BLOCK]
        if len(block) < BLOCK:
            return None
        member = self._read(block, records)
        self._body = padded(member.size)
        return at + BLOCK - position, member


class TarStream:
    """Takes a stream of our own kind in pieces and gives back what may pass on.

    `admit` is asked about every member before its first byte passes: False leaves it out, an
    error ends everything. `seen` and `passed` count bytes.
    """

    def __init__(self, admit: Callable[[Member], bool], *, most_bytes: int | None = None) -> None:
        self._admit = admit
        self._most_bytes = most_bytes
        self._held = b""
        self._track = Track(read_member)
        self.seen = 0
        self.passed = 0

    def feed(self, piece: bytes) -> list[memoryview]:
        self.seen += len(piece)
        if self._most_bytes is not None and self.seen > self._most_bytes:
            raise refusal("it holds more than its commit marker says")
        data = self._held + piece if self._held else piece
        view = memoryview(data)
        passing: list[memoryview] = []
        begin = position = 0
        while (step := self._track.step(data, position)) is not None:
            length, thing = step
            if not (isinstance(thing, Part) or self._admit(thing)):
                passing.append(view[begin:position])
                begin = position + length
            position += length
        passing.append(view[begin:position])
        self._held = data[position:]
        self.passed += sum(map(len, passing))
        return [part for part in passing if part]

    def finish(self) -> None:
        """The stream has ended: it must have been at an end."""
        if self._held or not self._track.at_end:
            raise refusal("it ends in the middle")
