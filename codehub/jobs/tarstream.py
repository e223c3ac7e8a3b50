"""Following a tar stream block by block: what each member is, before anybody acts on it.

Only what GNU tar writes with `--format=posix` is understood, and everything else is refused: two
readers that differ about one header is how archives escape, so there is nothing to differ about.
Long names come as pax records, holes as GNU's sparse format 1.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.errors import ArchiveCorrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BLOCK: Final = 512
FILE, HARD_LINK, SYMLINK, CHARACTER, BLOCK_DEVICE, DIRECTORY, FIFO = (
    b"0", b"1", b"2", b"3", b"4", b"5", b"6",
)  # fmt: skip
DEVICES: Final = frozenset({CHARACTER, BLOCK_DEVICE})
END: Final = bytes(2 * BLOCK)
"""What ends an archive; alone, it is an empty one."""

_PAX: Final = b"x"
_KINDS: Final = frozenset({FILE, HARD_LINK, SYMLINK, DIRECTORY, FIFO}) | DEVICES
_LARGEST_PAX: Final = 4 * 1024 * 1024
_ZEROS: Final = bytes(BLOCK)
_OCTAL: Final = re.compile(rb"[0-7]{11}[\0 ]")
_CHECKSUM: Final = re.compile(rb"([0-7]{6,7})[\0 ]{1,2}")
_DECIMAL: Final = re.compile(rb"[0-9]{1,19}")
_SPARSE: Final = {b"GNU.sparse.major": b"1", b"GNU.sparse.minor": b"0"}
_SPARSE_NAME: Final = b"GNU.sparse.name"
_SPARSE_SIZE: Final = b"GNU.sparse.realsize"
_KEYWORDS: Final = frozenset(
    {b"path", b"linkpath", b"size", b"mtime", b"atime", b"ctime", b"uid", b"gid", b"uname"}
    | {b"gname", _SPARSE_NAME, _SPARSE_SIZE, *_SPARSE}
)
_FAMILY: Final = b"SCHILY.xattr."


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an archive; `size` is what it takes in the stream."""

    kind: bytes
    name: bytes
    link: bytes
    size: int


class TarStream:
    """Takes a stream in pieces and gives back what may pass on.

    `admit` is asked about every member before its first byte passes: False leaves it out, an
    error ends everything. `seen` and `passed` count bytes.
    """

    def __init__(self, admit: Callable[[Member], bool], *, most_bytes: int | None = None) -> None:
        self._admit = admit
        self._most_bytes = most_bytes
        self._held = b""
        self._body = 0
        self._zeros = 0
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
        while (step := self._next(data, position)) is not None:
            length, kept = step
            if not kept:
                passing.append(view[begin:position])
                begin = position + length
            position += length
        passing.append(view[begin:position])
        self._held = data[position:]
        self.passed += sum(map(len, passing))
        return [part for part in passing if part]

    def finish(self) -> None:
        """The stream has ended: it must have been at an end."""
        if self._held or self._body or self._zeros < len(END):
            raise refusal("it ends in the middle")

    def _next(self, data: bytes, position: int) -> tuple[int, bool] | None:
        """How long the next thing is and whether it passes; None when more is needed to tell."""
        left = len(data) - position
        if not left:
            return None
        if self._body:
            length = min(self._body, left)
            self._body -= length
            return length, True
        if self._zeros or data[position : position + BLOCK] == _ZEROS:
            return self._end(data, position)
        return self._member(data, position)

    def _end(self, data: bytes, position: int) -> tuple[int, bool]:
        length = len(data) - position
        if data.count(0, position) != length:
            raise refusal("something follows its end")
        self._zeros += length
        return length, True

    def _member(self, data: bytes, position: int) -> tuple[int, bool] | None:
        """One header with the pax records before it, as a whole or not at all."""
        records: Mapping[bytes, bytes] = {}
        at = position
        block = data[at : at + BLOCK]
        if len(block) == BLOCK and block[156:157] == _PAX:
            size = _pax_size(block)
            at += BLOCK + padded(size)
            if len(data) < at:
                return None
            records = _records(data[position + BLOCK : position + BLOCK + size])
            block = data[at : at + BLOCK]
        if len(block) < BLOCK:
            return None
        member = _read_header(block, records)
        kept = self._admit(member)
        self._body = padded(member.size)
        return at + BLOCK - position, kept


def padded(size: int) -> int:
    """What a size takes in whole blocks."""
    return -(-size // BLOCK) * BLOCK


def refusal(why: str) -> ArchiveCorrupted:
    return ArchiveCorrupted(f"the archive is damaged or was not made by CodeHub: {why}")


def readable(name: bytes) -> str:
    """A name for people: short, on one line, whatever bytes it has."""
    text = name[:200].decode("utf-8", "backslashreplace")
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _pax_size(block: bytes) -> int:
    _check_header(block)
    size = _number(block)
    if size > _LARGEST_PAX:
        raise refusal("a member has too many attributes")
    return size


def _check_header(block: bytes) -> None:
    stored = _CHECKSUM.fullmatch(block[148:156])
    actual = sum(block) - sum(block[148:156]) + 8 * 32
    if stored is None or int(stored[1], 8) != actual:
        raise refusal("a header is damaged")
    if block[257:265] != b"ustar\x0000":
        raise refusal("a header has another format")
    if block[345:] != _ZEROS[345:]:
        raise refusal("a header has a prefix")


def _number(block: bytes) -> int:
    field = block[124:136]
    if _OCTAL.fullmatch(field) is None:
        raise refusal("a header has no size")
    return int(field[:11], 8)


def _records(data: bytes) -> dict[bytes, bytes]:
    """The pax records `LENGTH KEYWORD=VALUE\\n`, each keyword at most once."""
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        space = data.find(b" ", at, at + 12)
        length = data[at:space]
        if space < 0 or _DECIMAL.fullmatch(length) is None:
            raise refusal("an attribute is damaged")
        end = at + int(length)
        keyword, equals, value = data[space + 1 : end - 1].partition(b"=")
        if not equals or end > len(data) or data[end - 1 : end] != b"\n" or keyword in records:
            raise refusal("an attribute is damaged")
        if keyword not in _KEYWORDS and not keyword.startswith(_FAMILY):
            raise refusal(f"it has an attribute {readable(keyword)}")
        records[keyword] = value
        at = end
    return records


def _read_header(block: bytes, records: Mapping[bytes, bytes]) -> Member:
    _check_header(block)
    kind = block[156:157]
    if kind not in _KINDS:
        raise refusal(f"it has a member of type {readable(kind)}")
    name = records.get(b"path", _text(block[0:100]))
    if any(keyword.startswith(b"GNU.sparse.") for keyword in records):
        name = _sparse_name(kind, records)
    link = records.get(b"linkpath", _text(block[157:257]))
    return Member(kind, name, link, _size(kind, block, records))


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _size(kind: bytes, block: bytes, records: Mapping[bytes, bytes]) -> int:
    size = _number(block)
    if b"size" in records:
        if _DECIMAL.fullmatch(records[b"size"]) is None:
            raise refusal("an attribute is damaged")
        size = int(records[b"size"])
    if size and kind != FILE:
        raise refusal("a member that is no file has a body")
    return size


def _sparse_name(kind: bytes, records: Mapping[bytes, bytes]) -> bytes:
    """The name of a file with holes; its header has a made-up one."""
    whole = all(records.get(keyword) == value for keyword, value in _SPARSE.items())
    size = records.get(_SPARSE_SIZE, b"")
    if kind != FILE or not whole or _SPARSE_NAME not in records or not _DECIMAL.fullmatch(size):
        raise refusal("a file's holes are described in another format")
    return records[_SPARSE_NAME]
