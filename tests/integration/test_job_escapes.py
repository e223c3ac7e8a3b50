"""Archives made to break out of their volume, with commit markers that are in order."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codehub.core.keys import build_key, meta_key
from codehub.core.seal import seal
from codehub.errors import ActionFailed, ArchiveCorrupted
from codehub.jobs.tarchild import pack
from codehub.jobs.tarstream import TarStream
from codehub.model.archive import ArchiveMeta
from tests.integration.homes import describe, fill_home
from tests.integration.jobs import HUB, SUBJECT, WORKSPACE, new_key, new_store, restore_here

if TYPE_CHECKING:
    from codehub.adapters.localstore import LocalStore
    from codehub.jobs.tarheader import Member


class World:
    """A volume, what lies around it, and a store to plant archives in."""

    def __init__(self, root: Path) -> None:
        self.store: LocalStore = new_store(root / "store")
        self.volume = root / "volumes" / "volume"
        self.volume.mkdir(parents=True)
        self.outside = root / "volumes" / "outside"
        self.outside.mkdir()
        (self.outside / "secret").write_text("secret")
        self._around = describe(self.outside)
        self._neighbours = sorted(path.name for path in (root / "volumes").iterdir())

    def plant(self, tar: bytes, entries: int = 99, **fields: object) -> ArchiveMeta:
        """Store any bytes as an archive with a good hash; `entries` is what its marker allows."""
        data = zstandard.compress(tar)
        meta = ArchiveMeta(
            key=build_key(new_key()),
            sha256=hashlib.sha256(data).hexdigest(),
            bytes=len(data),
            unpacked_bytes=len(tar),
            entries=entries,
            skipped=0,
            hub=HUB,
            workspace_id=WORKSPACE,
            workspace_name=SUBJECT.workspace_name,
            owner=SUBJECT.owner,
            generation=SUBJECT.generation,
            created_at=SUBJECT.created_at,
        )
        meta = replace(meta, **fields)  # type: ignore[arg-type]
        for key, content in ((meta.key, data), (meta_key(meta.key), seal(meta))):
            writer = self.store.open_writer(key)
            writer.write(content)
            writer.commit()
        return meta

    def require_nothing_outside(self) -> None:
        assert describe(self.outside) == self._around
        assert sorted(path.name for path in self.volume.parent.iterdir()) == self._neighbours
        assert not Path("/tmp/codehub-escaped").exists()

    def require_refused(self, tar: bytes, **fields: object) -> str:
        meta = self.plant(tar, **fields)  # type: ignore[arg-type]
        with pytest.raises(ArchiveCorrupted) as caught:
            restore_here(self.store, self.volume, meta.key)
        assert list(self.volume.iterdir()) == []
        self.require_nothing_outside()
        return str(caught.value)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def member(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = 0o755
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    return member(name, kind, linkname=target)


def folder(name: str) -> tarfile.TarInfo:
    return member(name, tarfile.DIRTYPE)


def tar_of(*members: tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for info in members:
            tar.addfile(info, io.BytesIO(b"x" * info.size))
    return buffer.getvalue()


HARD = tarfile.LNKTYPE

ESCAPES: dict[str, tuple[bytes, str]] = {
    "an absolute name": (tar_of(member("/tmp/codehub-escaped", size=3)), "leads out"),
    "a name that goes up": (tar_of(member("../outside/new", size=3)), "leads out"),
    "up in the middle": (tar_of(folder("a"), member("a/../../outside/new")), "leads out"),
    "up at the end": (tar_of(folder("a"), folder("a/..")), "leads out"),
    "a dot in the middle": (tar_of(folder("a"), member("a/./b")), "leads out"),
    "two slashes": (tar_of(folder("a"), member("a//b")), "leads out"),
    "a folder that is a link": (
        tar_of(link("a", "../outside"), member("a/secret", size=3)),
        "not below a directory",
    ),
    "a link to an absolute folder": (
        tar_of(link("a", "/tmp"), member("a/codehub-escaped", size=3)),
        "not below a directory",
    ),
    "a chain of links": (
        tar_of(folder("a"), link("a/b", ".."), link("c", "a/b/../outside"), member("c/new")),
        "not below a directory",
    ),
    "a folder turned into a link": (
        tar_of(folder("a"), link("a", "../outside"), member("a/new", size=3)),
        "out of order or twice",
    ),
    "a folder turned into a link later": (
        tar_of(folder("a"), member("b"), link("a", "../outside"), member("a/new", size=3)),
        "out of order or twice",
    ),
    "a link turned into a folder": (
        tar_of(link("a", "../outside"), folder("a"), member("a/new")),
        "out of order or twice",
    ),
    "a file written through a link of its name": (
        tar_of(link("a", "../outside/secret"), member("a", size=3)),
        "out of order or twice",
    ),
    "the home itself as a link": (tar_of(link(".", "../outside"), member("new")), "home itself"),
    "the home itself as a file": (tar_of(member("./x/..")), "leads out"),
    "a hard link outside": (tar_of(link("a", "../outside/secret", HARD)), "leads out"),
    "a hard link to an absolute name": (tar_of(link("a", "/etc/passwd", HARD)), "leads out"),
    "a hard link through a link": (
        tar_of(link("a", "../outside"), link("b", "a/secret", HARD)),
        "through another link",
    ),
    "a hard link through a hard link to a link": (
        tar_of(link("a", "../outside"), link("b", "a", HARD), link("c", "b/secret", HARD)),
        "through another link",
    ),
    "a hard link to what comes later": (tar_of(link("a", "b", HARD), member("b")), "before it"),
    "a hard link to itself": (tar_of(link("a", "a", HARD)), "before it"),
    "a hard link to the home": (tar_of(link("a", ".", HARD)), "before it"),
    "a character device": (tar_of(member("null", tarfile.CHRTYPE, devmajor=1)), "device"),
    "a block device": (tar_of(member("disk", tarfile.BLKTYPE, devmajor=8)), "device"),
    "a file below a file": (tar_of(member("a"), member("a/b")), "not below a directory"),
    "a folder nobody made": (tar_of(member("a/b")), "not below a directory"),
    "names out of order": (tar_of(member("b"), member("a")), "out of order"),
    "an old file that is a folder": (tar_of(member("a/", tarfile.REGTYPE)), "leads out"),
    "a file of the oldest kind": (tar_of(member("a", tarfile.AREGTYPE)), "of type"),
    "a contiguous file": (tar_of(member("a", tarfile.CONTTYPE)), "of type"),
    "an unknown kind": (tar_of(member("a", b"Z")), "of type"),
    "a GNU volume label": (tar_of(member("a", b"V")), "of type"),
    "GNU format": (tar_of(member("a" * 150), form=tarfile.GNU_FORMAT), "format"),
    "the oldest format with a prefix": (
        tar_of(member("a/" * 60 + "b"), form=tarfile.USTAR_FORMAT),
        "prefix",
    ),
    "an empty link": (tar_of(link("a", "")), "link to nothing"),
    "a folder with a body": (
        tar_of(member("a", tarfile.DIRTYPE, pax_headers={"size": "512"})),
        "no file has a body",
    ),
    "an unknown attribute": (
        tar_of(member("a", pax_headers={"GNU.dumpdir": "x"})),
        "attribute GNU.dumpdir",
    ),
    "holes in an old format": (
        tar_of(member("a", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.name": "../b"})),
        "attribute GNU.sparse.map",
    ),
    "holes in a name that goes up": (
        tar_of(
            member(
                "a",
                pax_headers={
                    "GNU.sparse.major": "1",
                    "GNU.sparse.minor": "0",
                    "GNU.sparse.name": "../outside/new",
                    "GNU.sparse.realsize": "5",
                },
            )
        ),
        "leads out",
    ),
    "holes in half a format": (
        tar_of(member("a", pax_headers={"GNU.sparse.name": "b"})),
        "another format",
    ),
    "a name in an attribute": (
        tar_of(member("a", pax_headers={"path": "../outside/new"})),
        "leads out",
    ),
    "a name with a null in an attribute": (
        tar_of(member("a", pax_headers={"path": "a\0/../../outside"})),
        "empty or longer",
    ),
    "a hard link in an attribute": (
        tar_of(member("a", HARD, linkname="b", pax_headers={"linkpath": "/etc/passwd"})),
        "leads out",
    ),
    "a global attribute": (
        tar_of(member("a", tarfile.XGLTYPE)),
        "of type g",
    ),
    "no end": (tar_of(member("a"))[:1024], "ends in the middle"),
    "half a header": (tar_of(member("a"))[:700], "ends in the middle"),
    "half a body": (tar_of(member("a", size=9000))[:3072], "ends in the middle"),
    "something after the end": (tar_of(member("a")) + tar_of(member("b")), "follows its end"),
    "a bad checksum": (tar_of(member("a")).replace(b"0000755", b"0004755"), "header is damaged"),
    "no tar at all": (b"#!/bin/sh\n" * 1000, "header is damaged"),
}


@pytest.mark.parametrize("name", ESCAPES)
def test_an_archive_cannot_leave_its_volume(world: World, name: str) -> None:
    tar, why = ESCAPES[name]
    assert why in world.require_refused(tar)


def test_an_archive_like_these_but_honest_is_unpacked(world: World) -> None:
    """Guards the guard: it is the trick that is refused, not the way these archives are made."""
    tar = tar_of(
        folder("a"),
        member("a/b", size=3),
        link("a/c", "../../outside"),
        link("d", "a/b", HARD),
        member("e" * 150, pax_headers={"SCHILY.xattr.user.x": "y"}),
    )
    meta = world.plant(tar, entries=5)
    restore_here(world.store, world.volume, meta.key)
    assert (world.volume / "d").read_bytes() == b"xxx"
    assert (world.volume / "a/c").is_symlink()
    world.require_nothing_outside()


def test_more_than_the_marker_says_is_refused(world: World) -> None:
    tar = tar_of(member("a"), member("b"), member("c", size=100_000))
    assert "more entries" in world.require_refused(tar, entries=2)
    assert "more than" in world.require_refused(tar, unpacked_bytes=50_000)
    assert "less than" in world.require_refused(tar, entries=4)


def test_a_bomb_is_not_unpacked(world: World) -> None:
    """A few kilobytes that would become gigabytes: stopped at what the marker says."""
    head = member("a", size=8 * 1024**3 - 1).tobuf(tarfile.PAX_FORMAT)
    compressor = zstandard.ZstdCompressor().compressobj()
    data = compressor.compress(head)
    zeros = bytes(1024 * 1024)
    for _ in range(300):
        data += compressor.compress(zeros)
    data += compressor.flush()
    meta = world.plant(b"", unpacked_bytes=1024 * 1024, entries=1)
    root = world.volume.parent.parent / "store"
    (root / meta.key).write_bytes(data)
    honest = replace(meta, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    (root / meta_key(meta.key)).write_bytes(seal(honest))
    with pytest.raises(ArchiveCorrupted, match="more than its commit marker says"):
        restore_here(world.store, world.volume, meta.key)
    assert list(world.volume.iterdir()) == []


def test_a_huge_window_is_not_given_memory(world: World) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    tar = tar_of(member("a"))
    data = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = data.compress(tar) + data.flush()
    meta = world.plant(tar, entries=1)
    root = world.volume.parent.parent / "store"
    (root / meta.key).write_bytes(packed)
    honest = replace(meta, bytes=len(packed), sha256=hashlib.sha256(packed).hexdigest())
    (root / meta_key(meta.key)).write_bytes(seal(honest))
    with pytest.raises(ArchiveCorrupted, match="decompressed"):
        restore_here(world.store, world.volume, meta.key)


@pytest.fixture(scope="module")
def good_tar(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What tar makes of a home with everything in it; holes end it, so that it stays small."""
    home = tmp_path_factory.mktemp("good")
    fill_home(home)
    with pack(home) as tar:
        pieces = []
        while piece := tar.read():
            pieces.append(piece)
    return b"".join(pieces)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_change_of_an_archive_gets_out(
    good_tar: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Headers with random bytes and good checksums: refused, or unpacked inside."""
    world = World(tmp_path_factory.mktemp("fuzz"))
    mutated = bytearray(good_tar)
    headers = _headers(good_tar)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.sampled_from(headers))
        field = data.draw(st.sampled_from(FIELDS))
        value = data.draw(field)
        mutated[at + value[0] : at + value[0] + len(value[1])] = value[1]
        _fix_checksum(mutated, at)
    meta = world.plant(bytes(mutated), entries=len(headers))
    try:
        restore_here(world.store, world.volume, meta.key)
    except ActionFailed:
        assert list(world.volume.iterdir()) == []
    world.require_nothing_outside()


Change = tuple[int, bytes]


def _at(offset: int, values: list[bytes]) -> st.SearchStrategy[Change]:
    return st.sampled_from([(offset, value) for value in values])


FIELDS: list[st.SearchStrategy[Change]] = [
    _at(0, [b"../outside/new\0", b"/tmp/codehub-escaped\0", b"./a/../../outside/x\0", b"\0"]),
    _at(156, [b"0", b"1", b"2", b"3", b"5", b"6", b"7", b"L", b"K", b"S", b"x", b"g", b"\0"]),
    _at(157, [b"../outside/secret\0", b"/etc/passwd\0", b"./links\0"]),
    _at(124, [b"00000000000\0", b"00000001000\0", b"77777777777\0", b"\x80" + b"\0" * 11]),
    _at(257, [b"ustar  \0", b"ustar\x0000"]),
    _at(345, [b"../outside\0"]),
    st.tuples(st.integers(0, 511), st.binary(min_size=1, max_size=4)).filter(
        lambda change: change[0] + len(change[1]) <= 512
    ),
]


def _headers(tar: bytes) -> list[int]:
    """Where the headers are, followed by the sizes they give."""
    found = []
    at = 0
    while tar[at : at + 512].strip(b"\0"):
        found.append(at)
        size = int(tar[at + 124 : at + 135], 8)
        at += 512 + -(-size // 512) * 512
    return found


def _fix_checksum(tar: bytearray, at: int) -> None:
    tar[at + 148 : at + 156] = b" " * 8
    tar[at + 148 : at + 156] = b"%06o\0 " % sum(tar[at : at + 512])


def test_tar_itself_agrees_with_what_we_read(good_tar: bytes, tmp_path: Path) -> None:
    """The guard and tar see the same members: as many, with the same names."""
    names: list[bytes] = []

    def admit(member: Member) -> bool:
        names.append(member.name)
        return True

    stream = TarStream(admit)
    assert b"".join(bytes(part) for part in stream.feed(good_tar)) == good_tar
    stream.finish()
    listed = subprocess.run(
        ["tar", "--list", "--file=-", "--quoting-style=literal", "--null"],
        input=good_tar,
        capture_output=True,
        timeout=60,
        check=True,
    ).stdout
    assert listed == b"".join(name + b"\n" for name in names)


def test_owners_are_numbers_and_no_names(good_tar: bytes) -> None:
    """A name would mean somebody else on another machine."""
    for at in _headers(good_tar):
        assert good_tar[at + 265 : at + 329] == bytes(64)
