"""Headers of tar archives: what a member is, read before anybody acts on it.

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
    from collections.abc import Mapping

BLOCK: Final = 512
FILE, HARD_LINK, SYMLINK, CHARACTER, BLOCK_DEVICE, DIRECTORY, FIFO = (
    b"0", b"1", b"2", b"3", b"4", b"5", b"6",
)  # fmt: skip
DEVICES: Final = frozenset({CHARACTER, BLOCK_DEVICE})
PAX: Final = b"x"
END: Final = bytes(2 * BLOCK)
"""What ends an archive; alone, it is an empty one."""
XATTR: Final = b"SCHILY.xattr."
"""What the pax records of extended attributes begin with."""

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
_DAMAGED: Final = "the archive is damaged or was not made by CodeHub: "


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an archive; `size` is what it takes in the stream."""

    kind: bytes
    name: bytes
    link: bytes
    size: int


def padded(size: int) -> int:
    """What a size takes in whole blocks."""
    return -(-size // BLOCK) * BLOCK


def refusal(why: str) -> ArchiveCorrupted:
    return ArchiveCorrupted(f"{_DAMAGED}{why}")


def reason(error: ArchiveCorrupted) -> str:
    """Why something was refused, where it is no archive of ours that was read."""
    return error.message.removeprefix(_DAMAGED)


def readable(name: bytes) -> str:
    """A name for people: short, on one line, whatever bytes it has."""
    text = name[:200].decode("utf-8", "backslashreplace")
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def pax_size(block: bytes) -> int:
    """How long the records are that this header announces."""
    check_header(block)
    _require_no_prefix(block)
    size = _number(block)
    if size > _LARGEST_PAX:
        raise refusal("a member has too many attributes")
    return size


def read_records(data: bytes) -> dict[bytes, bytes]:
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
        if keyword not in _KEYWORDS and not keyword.startswith(XATTR):
            raise refusal(f"it has an attribute {readable(keyword)}")
        records[keyword] = value
        at = end
    return records


def read_member(block: bytes, records: Mapping[bytes, bytes]) -> Member:
    """The header of a member of our own archives, with the records before it."""
    check_header(block)
    _require_no_prefix(block)
    return describe(block, records, text(block[0:100]))


def describe(block: bytes, records: Mapping[bytes, bytes], name: bytes) -> Member:
    """What a checked header says; `name` is the one in it, which records may replace."""
    kind = block[156:157]
    if kind not in _KINDS:
        raise refusal(f"it has a member of type {readable(kind)}")
    name = records.get(b"path", name)
    if is_sparse(records):
        name = _sparse_name(kind, records)
    link = records.get(b"linkpath", text(block[157:257]))
    return Member(kind, name, link, _size(kind, block, records))


def check_header(block: bytes) -> None:
    stored = _CHECKSUM.fullmatch(block[148:156])
    actual = sum(block) - sum(block[148:156]) + 8 * 32
    if stored is None or int(stored[1], 8) != actual:
        raise refusal("a header is damaged")
    if block[257:265] != b"ustar\x0000":
        raise refusal("a header has another format")


def text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def is_sparse(records: Mapping[bytes, bytes]) -> bool:
    return any(keyword.startswith(b"GNU.sparse.") for keyword in records)


def sparse_length(records: Mapping[bytes, bytes]) -> int | None:
    """How long a file is together with its holes; None where it has none."""
    return int(records[_SPARSE_SIZE]) if is_sparse(records) else None


def _require_no_prefix(block: bytes) -> None:
    if block[345:] != _ZEROS[345:]:
        raise refusal("a header has a prefix")


def _number(block: bytes) -> int:
    field = block[124:136]
    if _OCTAL.fullmatch(field) is None:
        raise refusal("a header has no size")
    return int(field[:11], 8)


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
