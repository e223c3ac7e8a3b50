"""Specs on their way to a hub: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

import gzip
import io
import tarfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.errors import UsageError
from codehub.specs import caps
from codehub.specs.pack import archive
from codehub.specs.unpack import checked, plain_path, read_gzip, read_tar

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 1 << 20
LETTERS = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/")
PART = st.text(LETTERS, min_size=1, max_size=20).filter(lambda part: part not in (".", ".."))
FILES = st.dictionaries(
    st.lists(PART, min_size=1, max_size=4).map("/".join), st.binary(max_size=2000), max_size=5
)


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    return whole.getvalue()


def member(name: str, content: bytes = b"x: 1\n", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


@settings(max_examples=100)
@given(FILES)
def test_what_is_packed_is_unpacked(files: dict[str, bytes]) -> None:
    nested = any(one != other and other.startswith(one + "/") for one in files for other in files)
    packed = read_gzip(archive(files), MOST)
    if nested:
        with pytest.raises(UsageError, match="both a file and a directory"):
            read_tar(packed)
    else:
        assert read_tar(packed) == files


def test_equal_files_are_packed_into_equal_bytes() -> None:
    one, other = {"a": b"1", "b/c": b"2"}, {"b/c": b"2", "a": b"1"}
    assert archive(one) == archive(other)


def test_what_tar_itself_packs_is_understood() -> None:
    listed = tar_of(
        member("./", b"", type=tarfile.DIRTYPE),
        member("./team/", b"", type=tarfile.DIRTYPE),
        member("./team/a.yaml"),
    )
    assert read_tar(listed) == {"team/a.yaml": b"x: 1\n"}


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "absolute": (lambda: tar_of(member("/etc/passwd")), "not a path below"),
    "leaves": (lambda: tar_of(member("../a.yaml")), "not a path below"),
    "leaves-later": (lambda: tar_of(member("a/../../b.yaml")), "not a path below"),
    "long": (lambda: tar_of(member("a" * 2000)), "too long"),
    "deep": (lambda: tar_of(member("d/" * 40 + "a.yaml")), "too many directories"),
    "symlink": (
        lambda: tar_of(member("a.yaml", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")),
        "neither a file nor a directory",
    ),
    "hard-link": (
        lambda: tar_of(
            member("b.yaml"), member("a.yaml", b"", type=tarfile.LNKTYPE, linkname="b.yaml")
        ),
        "neither a file nor a directory",
    ),
    "device": (
        lambda: tar_of(member("a.yaml", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=5)),
        "neither a file nor a directory",
    ),
    "pipe": (
        lambda: tar_of(member("a.yaml", b"", type=tarfile.FIFOTYPE)),
        "neither a file nor a directory",
    ),
    "twice": (lambda: tar_of(member("a.yaml"), member("./a.yaml")), "given twice"),
    "both": (
        lambda: tar_of(member("a.yaml"), member("a.yaml/b.yaml")),
        "both a file and a directory",
    ),
    "huge": (lambda: tar_of(member("a.yaml", b"x" * (caps.FILE_BYTES + 1))), "larger than"),
    "cut-at-a-file": (lambda: tar_of(member("a.yaml"), member("b.yaml"))[:1024], "cut off"),
    "cut-in-a-file": (lambda: tar_of(member("a.yaml", b"x" * 2000))[:1024], "broken|cut off"),
    "damaged": (lambda: _damaged(tar_of(member("a.yaml"), member("b.yaml"))), "cut off"),
    "no-tar": (lambda: b"x: 1\n" * 1000, "not a tar archive"),
    "empty": (lambda: b"", "not a tar archive"),
}


def _damaged(whole: bytes) -> bytes:
    """The second file's header is no header any more: tar readers stop there, and say nothing."""
    return whole[:1024] + b"\xff" * 512 + whole[1536:]


@pytest.mark.parametrize("kind", REFUSED)
def test_archives_that_are_refused(kind: str) -> None:
    make, why = REFUSED[kind]
    with pytest.raises(UsageError, match=why):
        read_tar(make())


def test_holes_do_not_count_as_content() -> None:
    """A sparse file of a terabyte is a few bytes in the archive."""
    sparse = member("a.yaml", b"", type=tarfile.GNUTYPE_SPARSE)
    with pytest.raises(UsageError, match=r"neither a file nor a directory|broken"):
        read_tar(tar_of(sparse))


def test_headers_that_follow_each_other_for_ever_are_refused() -> None:
    long_name = tarfile.TarInfo("x")
    long_name.type, long_name.size = tarfile.GNUTYPE_LONGNAME, 2
    block = long_name.tobuf(tarfile.GNU_FORMAT) + b"a\0".ljust(512, b"\0")
    with pytest.raises(UsageError, match="broken"):
        read_tar(block * 5000 + bytes(1024))


def test_a_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(100 << 20))
    assert len(bomb) < MOST
    with pytest.raises(UsageError, match=f"more than {MOST:,} bytes"):
        read_gzip(bomb, MOST)


def test_what_is_exactly_as_large_as_it_may_be_is_unpacked() -> None:
    assert len(read_gzip(gzip.compress(bytes(MOST)), MOST)) == MOST


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"plain", "not compressed with gzip"),
        (gzip.compress(b"x" * 1000)[:-9], "cut off"),
        (gzip.compress(b"x")[:-1] + b"\x77", "not compressed with gzip, or broken"),
        (gzip.compress(b"x") + gzip.compress(b"y"), "behind the end"),
    ],
    # The time is in the bytes, and a test's name must not change with it.
    ids=["plain", "cut", "damaged", "more"],
)
def test_streams_that_are_refused(body: bytes, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_gzip(body, MOST)


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_archive_is_refused_or_read_and_never_a_fault(data: st.DataObject) -> None:
    whole = bytearray(tar_of(member("a.yaml"), member("d/" + "b" * 120 + ".yaml")))
    places = st.integers(0, len(whole) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=5)):
        whole[place] = value
    for start in range(0, len(whole), 512):
        _sign(whole, start)
    end = data.draw(places) if data.draw(st.booleans()) else len(whole)
    with suppress(UsageError):
        files = read_tar(bytes(whole[:end]))
        assert all(plain_path(path) == path for path in files)


def _sign(whole: bytearray, start: int) -> None:
    """Give a header its checksum, so that damage is not found by that alone."""
    if whole[start + 257 : start + 262] == b"ustar":
        whole[start + 148 : start + 156] = b" " * 8
        whole[start + 148 : start + 156] = b"%06o\0 " % sum(whole[start : start + 512])


def test_too_many_files_are_refused() -> None:
    with pytest.raises(UsageError, match="more than 20,000 files"):
        checked({f"{number}.txt": b"" for number in range(caps.FILES + 1)})


@pytest.mark.parametrize("name", ["", "/", ".", "..", "a/", "a//b", "a/./b", "a/..", "a\0b", "/a"])
def test_names_that_are_no_paths(name: str) -> None:
    with pytest.raises(UsageError, match="not a path below the spec directory"):
        plain_path(name)


def test_a_name_is_shown_without_harm() -> None:
    with pytest.raises(UsageError) as caught:
        plain_path("/\x1b[2J\n")
    assert caught.value.message.isprintable()
