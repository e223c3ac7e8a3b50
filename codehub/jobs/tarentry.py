"""Entries of a tar stream as values: read from an engine's stream or ours, and written as ours.

An engine writes its streams in Go: the same headers as GNU tar's, but names may be split in two,
modes carry the type of the file, and everything lies below the directory that was asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from codehub.jobs.tarheader import (
    BLOCK,
    END,
    HARD_LINK,
    PAX,
    XATTR,
    Member,
    check_header,
    describe,
    padded,
    readable,
    refusal,
    sparse_length,
    text,
)
from codehub.jobs.tarstream import Part, Track

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MODE: Final = 0o7777
_SMALL: Final = 8**7
"""The first number that the fields of owners cannot hold."""
_LARGE: Final = 8**11
"""The first number that the fields of sizes and times cannot hold."""
_FIELD: Final = re.compile(rb"[0-7]+[\0 ]")
_NUMBER: Final = re.compile(rb"[0-9]{1,19}")
_TIME: Final = re.compile(rb"-?[0-9]{1,19}(\.[0-9]+)?")
HERE: Final = b"./"
"""The name of the home itself, and what all other names begin with."""


@dataclass(frozen=True, slots=True)
class Entry(Member):
    """A member with all that is to be kept of it.

    `mtime` is in seconds, perhaps with a fraction. `length` is that of a file with holes: then the
    body is the list of its pieces, and the pieces.
    """

    mode: int
    uid: int
    gid: int
    mtime: bytes
    xattrs: tuple[tuple[bytes, bytes], ...] = ()
    length: int | None = None


class Entries:
    """Takes a stream in pieces and gives back its entries, each followed by pieces of its body."""

    def __init__(self) -> None:
        self._held = b""
        self._track = Track(_read_entry)
        self._left = 0

    def feed(self, piece: bytes) -> Iterator[Entry | memoryview]:
        data = self._held + piece if self._held else piece
        view = memoryview(data)
        position = 0
        while (step := self._track.step(data, position)) is not None:
            length, thing = step
            if isinstance(thing, Entry):
                self._left = thing.size
                yield thing
            elif thing is Part.BODY and self._left:
                body = view[position : position + min(length, self._left)]
                self._left -= len(body)
                yield body
            position += length
        self._held = data[position:]

    def finish(self) -> None:
        """The stream has ended: it must have been at an end."""
        if self._held or not self._track.at_end:
            raise refusal("it ends in the middle")


class EntryWriter:
    """Gives the bytes between bodies, as GNU tar writes them with `--format=posix`."""

    def __init__(self) -> None:
        self._padding = 0

    def begin(self, entry: Entry) -> bytes:
        """What comes before an entry's body: the rest of the one before, and its header."""
        before = bytes(self._padding)
        self._padding = padded(entry.size) - entry.size
        return before + _header(entry)

    def end(self) -> bytes:
        return bytes(self._padding) + END


def enter(entry: Entry, folder: bytes) -> Entry:
    """An engine's entry as one of ours: named from the home, not from what the home is in."""
    moved = replace(entry, name=_inside(entry.name, folder))
    return replace(moved, link=_inside(entry.link, folder)) if entry.kind == HARD_LINK else moved


def leave(entry: Entry, folder: bytes) -> Entry:
    """One of our entries as an engine's."""
    moved = replace(entry, name=_outside(entry.name, folder))
    return replace(moved, link=_outside(entry.link, folder)) if entry.kind == HARD_LINK else moved


def _inside(name: bytes, folder: bytes) -> bytes:
    if name == folder:
        return HERE
    if not name.startswith(folder + b"/"):
        raise refusal(f"{readable(name)} is not of the home")
    return HERE + name.removeprefix(folder + b"/")


def _outside(name: bytes, folder: bytes) -> bytes:
    return folder + b"/" + (b"" if name == b"." else name.removeprefix(HERE))


def _read_entry(block: bytes, records: Mapping[bytes, bytes]) -> Entry:
    check_header(block)
    prefix, name = text(block[345:500]), text(block[0:100])
    member = describe(block, records, prefix + b"/" + name if prefix else name)
    return Entry(
        member.kind,
        member.name,
        member.link,
        member.size,
        mode=_octal(block[100:108]) & _MODE,
        uid=_owner(block[108:116], records.get(b"uid")),
        gid=_owner(block[116:124], records.get(b"gid")),
        mtime=_time(block[136:148], records.get(b"mtime")),
        xattrs=tuple(each for each in records.items() if each[0].startswith(XATTR)),
        length=sparse_length(records),
    )


def _octal(field: bytes) -> int:
    if _FIELD.fullmatch(field) is None:
        raise refusal("a header has a number in another format")
    return int(field[:-1], 8)


def _owner(field: bytes, record: bytes | None) -> int:
    if record is None:
        return _octal(field)
    if _NUMBER.fullmatch(record) is None:
        raise refusal("an attribute is damaged")
    return int(record)


def _time(field: bytes, record: bytes | None) -> bytes:
    if record is None:
        return b"%d" % _octal(field)
    if _TIME.fullmatch(record) is None:
        raise refusal("an attribute is damaged")
    return record


def _header(entry: Entry) -> bytes:
    records = b"".join(_record(*each) for each in sorted(_records(entry).items()))
    if not records:
        return _block(entry)
    about = Entry(PAX, b"./PaxHeaders", b"", len(records), 0o644, 0, 0, b"0")
    return _block(about) + records.ljust(padded(len(records)), b"\0") + _block(entry)


def _records(entry: Entry) -> dict[bytes, bytes]:
    """What does not fit into the header."""
    records = dict(entry.xattrs)
    for keyword, value in ((b"path", entry.name), (b"linkpath", entry.link)):
        if len(value) > 100 or not value.isascii():
            records[keyword] = value
    for keyword, number, limit in (
        (b"size", entry.size, _LARGE),
        (b"uid", entry.uid, _SMALL),
        (b"gid", entry.gid, _SMALL),
    ):
        if number >= limit:
            records[keyword] = b"%d" % number
    if not entry.mtime.isdigit() or int(entry.mtime) >= _LARGE:
        records[b"mtime"] = entry.mtime
    return records


def _record(keyword: bytes, value: bytes) -> bytes:
    """`LENGTH KEYWORD=VALUE\\n`, where the length counts itself."""
    rest = len(keyword) + len(value) + 3
    length = rest + len(str(rest))
    length = rest + len(str(length))
    return b"%d %s=%s\n" % (length, keyword, value)


def _block(entry: Entry) -> bytes:
    """The header alone; what has a record as well is cut or zero here."""
    seconds = int(entry.mtime) if entry.mtime.isdigit() else 0
    block = b"%s%07o\0%07o\0%07o\0%011o\0%011o\0%s%s%s%s" % (
        entry.name[:100].ljust(100, b"\0"),
        entry.mode,
        entry.uid if entry.uid < _SMALL else 0,
        entry.gid if entry.gid < _SMALL else 0,
        entry.size if entry.size < _LARGE else 0,
        seconds if seconds < _LARGE else 0,
        b" " * 8,
        entry.kind,
        entry.link[:100].ljust(100, b"\0"),
        b"ustar\x0000",
    )
    block = block.ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]
