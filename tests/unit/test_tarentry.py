"""Entries of tar streams: whoever wrote them, they come out as our archives have them."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.errors import ActionFailed, ArchiveCorrupted
from codehub.jobs.guard import Guard
from codehub.jobs.holes import Filling
from codehub.jobs.marks import Ledger, Marking
from codehub.jobs.tarentry import HERE, Entries, Entry, EntryWriter, enter, leave
from codehub.jobs.tarheader import DIRECTORY, END, FILE, HARD_LINK, SYMLINK
from codehub.jobs.tarstream import TarStream

NAMES = st.binary(min_size=1, max_size=140).filter(
    lambda name: not {0, ord("/")} & {*name} and name not in (b".", b"..")
)
SECONDS = st.from_regex(rb"-?[1-9][0-9]{0,12}(\.[0-9]{1,9})?", fullmatch=True)


def file(name: bytes, size: int = 0, **fields: object) -> Entry:
    entry = Entry(FILE, name, b"", size, 0o644, 0, 0, b"1234567890")
    return replace(entry, **fields)  # type: ignore[arg-type]


def folder(name: bytes) -> Entry:
    return file(name, kind=DIRECTORY, mode=0o755)


@st.composite
def homes(draw: st.DrawFn) -> list[tuple[Entry, bytes]]:
    """A home with files of all sorts in it, in order."""
    found = [(folder(HERE), b"")]
    for name in sorted(draw(st.sets(NAMES, max_size=6))):
        body = draw(st.binary(max_size=1100))
        entry = file(
            HERE + name,
            len(body),
            mode=draw(st.integers(0, 0o7777)),
            uid=draw(st.integers(0, 2**32 - 2)),
            gid=draw(st.integers(0, 2**32 - 2)),
            mtime=draw(SECONDS),
            xattrs=((b"SCHILY.xattr.user.x", draw(st.binary(max_size=200))),),
        )
        found.append((entry, body))
    return found


def written(home: list[tuple[Entry, bytes]]) -> bytes:
    writer = EntryWriter()
    return b"".join(writer.begin(entry) + body for entry, body in home) + writer.end()


def read(pieces: list[bytes]) -> list[tuple[Entry, bytes]]:
    entries = Entries()
    found: list[tuple[Entry, bytes]] = []
    for piece in pieces:
        for part in entries.feed(piece):
            if isinstance(part, Entry):
                found.append((part, b""))
            else:
                found[-1] = (found[-1][0], found[-1][1] + part)
    entries.finish()
    return found


@settings(max_examples=60)
@given(homes(), st.lists(st.floats(0, 1), max_size=5))
def test_what_is_written_is_one_of_our_archives_and_reads_the_same(
    home: list[tuple[Entry, bytes]], cuts: list[float]
) -> None:
    tar = written(home)
    edges = [0, *sorted(int(cut * len(tar)) for cut in cuts), len(tar)]
    assert read([tar[begin:end] for begin, end in pairwise(edges)]) == home
    guard = Guard(leave_out_devices=False)
    stream = TarStream(guard.admit)
    assert b"".join(stream.feed(tar)) == tar
    stream.finish()
    assert guard.entries == len(home)


@settings(max_examples=30)
@given(homes())
def test_others_read_it_the_same_too(home: list[tuple[Entry, bytes]]) -> None:
    with tarfile.open(
        fileobj=io.BytesIO(written(home)), encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for info, (entry, body) in zip(tar, home, strict=True):
            name = info.name.encode("utf-8", "surrogateescape")
            assert (name.removeprefix(b"./") or b".") == (entry.name.removeprefix(b"./") or b".")
            assert (info.mode, info.uid, info.gid) == (entry.mode, entry.uid, entry.gid)
            assert float(info.mtime) == float(entry.mtime)
            content = tar.extractfile(info)
            assert (content.read() if content else b"") == body


def test_the_streams_of_engines_are_read_with_split_names_and_types_in_modes() -> None:
    info = tarfile.TarInfo("h/" + "d" * 90 + "/" + "f" * 90)
    info.mode, info.size, info.uname = 0o100640, 3, "root"
    block = info.tobuf(tarfile.USTAR_FORMAT)
    assert block[345:346] != b"\0", "the name is split"
    ((entry, body),) = read([block + b"abc".ljust(512, b"\0") + END])
    inside = enter(entry, b"h")
    assert inside.name == b"./" + b"d" * 90 + b"/" + b"f" * 90
    assert (inside.mode, body) == (0o640, b"abc")


def test_entries_move_in_and_out_with_what_they_link_to() -> None:
    for name, outside in ((b"./", b"h/"), (b".", b"h/"), (b"./a/", b"h/a/"), (b"./h", b"h/h")):
        assert leave(folder(name), b"h").name == outside
    hard = leave(file(b"./b", kind=HARD_LINK, link=b"./a"), b"h")
    assert (hard.name, hard.link) == (b"h/b", b"h/a")
    assert enter(hard, b"h").link == b"./a"
    soft = leave(file(b"./b", kind=SYMLINK, link=b"./a"), b"h")
    assert soft.link == b"./a", "where a symlink leads to is its own affair"


@pytest.mark.parametrize("name", [b"etc/passwd", b"hh/a", b"/h/a", b"../h/a"])
def test_what_is_not_of_the_home_is_refused(name: bytes) -> None:
    with pytest.raises(ArchiveCorrupted, match="not of the home"):
        enter(file(name), b"h")


@pytest.mark.parametrize(
    ("begin", "field"),
    [(100, b"\x80\0\0\0\0\0\0\x01"), (108, b"1234 78\0"), (136, b"\xff" * 12), (156, b"L")],
    ids=["mode", "owner", "time", "kind"],
)
def test_headers_of_another_format_are_refused(begin: int, field: bytes) -> None:
    block = bytearray(written([(file(b"h/a"), b"")])[:512])
    block[begin : begin + len(field)] = field
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    with pytest.raises(ArchiveCorrupted):
        list(Entries().feed(bytes(block)))


def test_a_stream_without_its_end_is_not_complete() -> None:
    tar = written([(folder(b"h/"), b""), (file(b"h/a", 3), b"abc")])
    for end in (0, 100, 512, 1024, 1030, 1536, len(tar) - 512):
        with pytest.raises(ArchiveCorrupted, match="in the middle"):
            read([tar[:end]])


# ---- Holes ----


@st.composite
def sparse(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A file, and its body in GNU's sparse format 1.0."""
    whole, pieces, data = bytearray(), [], b""
    for hole, piece in draw(
        st.lists(st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=900)), max_size=5)
    ):
        whole += bytes(hole)
        pieces.append((len(whole), len(piece)))
        whole += piece
        data += piece
    whole += bytes(draw(st.integers(0, 3000)))
    pieces.append((len(whole), 0))
    listed = b"%d\n" % len(pieces) + b"".join(b"%d\n%d\n" % each for each in pieces)
    return bytes(whole), listed.ljust(-(-len(listed) // 512) * 512, b"\0") + data


def filled(length: int, pieces: list[bytes]) -> bytes:
    filling = Filling(length)
    out = [bytes(part) for piece in pieces for part in filling.feed(memoryview(piece))]
    return b"".join(out + [bytes(part) for part in filling.finish()])


@settings(max_examples=60)
@given(sparse(), st.lists(st.floats(0, 1), max_size=4))
def test_holes_are_filled_whatever_pieces_they_come_in(
    case: tuple[bytes, bytes], cuts: list[float]
) -> None:
    whole, body = case
    edges = [0, *sorted(int(cut * len(body)) for cut in cuts), len(body)]
    assert filled(len(whole), [body[begin:end] for begin, end in pairwise(edges)]) == whole


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"1\n0\n",
        b"x\n".ljust(512, b"\0"),
        b"1\n9\n4\n".ljust(512, b"\0") + b"data",
        b"2\n4\n4\n0\n4\n".ljust(512, b"\0") + b"datadata",
        b"1\n0\n4\n".ljust(512, b"\0") + b"dat",
        b"1\n0\n4\n".ljust(512, b"\0") + b"datadata",
        b"9" * 30 + b"\n",
    ],
    ids=["none", "short", "word", "beyond", "backwards", "less", "more", "huge"],
)
def test_lists_of_pieces_that_lie_are_refused(body: bytes) -> None:
    with pytest.raises(ArchiveCorrupted):
        filled(10, [body])


# ---- Comparing ----


def compare(sent: list[tuple[Entry, bytes]], arrived: list[tuple[Entry, bytes]]) -> None:
    ledger = Ledger()
    for home, done in ((sent, ledger.note), (arrived, ledger.compare)):
        marking = Marking(done)
        for entry, body in home:
            marking.begin(entry)
            marking.body(memoryview(body))
        marking.close()
    ledger.close()


HOME = [(folder(HERE), b""), (file(b"./a", 3), b"abc"), (file(b"./b", 3), b"abd")]


def test_the_same_is_the_same_whatever_its_times() -> None:
    compare(HOME, [(replace(entry, mtime=b"0"), body) for entry, body in HOME])
    compare([], [(folder(HERE), b"")])


@pytest.mark.parametrize(
    "arrived",
    [
        HOME[:2],
        HOME[1:],
        [*HOME, (file(b"./c"), b"")],
        [*HOME[:2], (HOME[2][0], b"abx")],
        [HOME[0], (replace(HOME[1][0], mode=0o600), b"abc"), HOME[2]],
        [HOME[0], (replace(HOME[1][0], uid=5), b"abc"), HOME[2]],
        [HOME[0], (replace(HOME[1][0], kind=HARD_LINK, size=0), b""), HOME[2]],
        [HOME[0], HOME[2], HOME[1]],
        [],
    ],
    ids=["last", "home", "more", "content", "mode", "owner", "kind", "order", "nothing"],
)
def test_what_differs_is_noticed(arrived: list[tuple[Entry, bytes]]) -> None:
    with pytest.raises(ActionFailed, match="did not unpack"):
        compare(HOME, arrived)
