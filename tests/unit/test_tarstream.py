"""Following tar streams: in any pieces, and with members left out."""

from __future__ import annotations

import io
import tarfile
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.errors import ArchiveCorrupted
from codehub.jobs.guard import Footprints, Guard
from codehub.jobs.tarheader import DEVICES, END, Member, padded, readable
from codehub.jobs.tarstream import TarStream


def build(*members: tuple[str, bytes, int]) -> bytes:
    """A tar of names, kinds and sizes; long names and odd times make pax records."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, size in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.mtime = kind, size, 1.25
            tar.addfile(info, io.BytesIO(b"body" * size))
    return buffer.getvalue()


HOME = build(
    ("./", tarfile.DIRTYPE, 0),
    ("./a" * 60, tarfile.REGTYPE, 0),
    ("./b", tarfile.REGTYPE, 1300),
    ("./c", tarfile.CHRTYPE, 0),
    ("./d", tarfile.REGTYPE, 512),
    ("./e" + "e" * 300, tarfile.BLKTYPE, 0),
    ("./f", tarfile.REGTYPE, 1),
)


def follow(pieces: list[bytes], leave_out: frozenset[bytes]) -> tuple[bytes, list[bytes]]:
    seen: list[bytes] = []

    def admit(member: Member) -> bool:
        seen.append(member.name)
        return member.kind not in leave_out

    stream = TarStream(admit)
    out = b"".join(bytes(part) for piece in pieces for part in stream.feed(piece))
    stream.finish()
    assert stream.seen == sum(map(len, pieces))
    assert stream.passed == len(out)
    return out, seen


def test_everything_admitted_passes_unchanged() -> None:
    out, seen = follow([HOME], frozenset())
    assert out == HOME
    assert len(seen) == 7


def test_what_is_left_out_leaves_a_good_archive() -> None:
    out, _ = follow([HOME], DEVICES)
    with tarfile.open(fileobj=io.BytesIO(out)) as tar:
        assert [info.name[:3] for info in tar] == [".", "./a", "./b", "./d", "./f"]
    assert follow([out], frozenset())[0] == out


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(HOME)), max_size=12), st.sampled_from([frozenset(), DEVICES]))
def test_the_pieces_a_stream_comes_in_do_not_matter(
    cuts: list[int], leave_out: frozenset[bytes]
) -> None:
    edges = [0, *sorted(cuts), len(HOME)]
    pieces = [HOME[begin:end] for begin, end in pairwise(edges)]
    assert follow(pieces, leave_out) == follow([HOME], leave_out)


def test_byte_by_byte_is_the_same_too() -> None:
    pieces = [HOME[at : at + 1] for at in range(len(HOME))]
    assert follow(pieces, DEVICES) == follow([HOME], DEVICES)


def test_an_empty_archive_is_two_empty_blocks() -> None:
    assert follow([END], frozenset()) == (END, [])
    with pytest.raises(ArchiveCorrupted, match="in the middle"):
        follow([END[:512]], frozenset())
    with pytest.raises(ArchiveCorrupted, match="in the middle"):
        follow([], frozenset())


def test_a_stream_ends_at_its_limit() -> None:
    stream = TarStream(lambda member: True, most_bytes=1000)
    stream.feed(HOME[:1000])
    with pytest.raises(ArchiveCorrupted, match="more than"):
        stream.feed(HOME[1000:1001])


def test_attributes_without_end_are_refused() -> None:
    head = build(("./" + "n" * 300, tarfile.REGTYPE, 0))[:512]
    huge = bytearray(head)
    huge[124:136] = b"00077777777\0"
    huge[148:156] = b" " * 8
    huge[148:156] = b"%06o\0 " % sum(huge)
    with pytest.raises(ArchiveCorrupted, match="too many attributes"):
        TarStream(lambda member: True).feed(bytes(huge))


@pytest.mark.parametrize(
    "records",
    [b"12 path=ab\n", b"9 path=ab\n", b"path=ab\n", b"0 path=ab\n", b"11 path=ab\n11 path=ab\n"],
)
def test_damaged_attributes_are_refused(records: bytes) -> None:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, len(records)
    body = records.ljust(padded(len(records)), b"\0")
    tar = info.tobuf(tarfile.USTAR_FORMAT) + body + build(("./a", tarfile.REGTYPE, 0))
    with pytest.raises(ArchiveCorrupted, match="attribute is damaged"):
        TarStream(lambda member: True).feed(tar)


def test_names_for_people_are_short_and_on_one_line() -> None:
    assert readable(b"new\nline\xff\x1b[31m") == "new\\nline\\xff\\x1b[31m"
    assert len(readable(b"x" * 5000)) == 200


def test_a_hard_link_to_something_left_out_is_left_out() -> None:
    guard = Guard(leave_out_devices=True)
    assert guard.admit(Member(b"3", b"./a", b"", 0)) is False
    assert guard.admit(Member(b"1", b"./b", b"./a", 0)) is False
    assert guard.admit(Member(b"1", b"./c", b"./b", 0)) is False
    assert (guard.entries, guard.left_out) == (0, 3)


def test_footprints_remember_more_than_fits_into_one_run() -> None:
    paths = [(b"folder", b"%d" % number) for number in range(150_000)]
    footprints = Footprints()
    for path in paths[::2]:
        footprints.add(path)
    assert all(path in footprints for path in paths[::5000])
    assert not any(path in footprints for path in paths[1::5000] if paths.index(path) % 2)
