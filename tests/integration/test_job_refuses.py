"""Volumes that cannot be archived and archives that cannot be restored: told, with no harm done."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from codehub.adapters.localstore import LocalStore
from codehub.core.keys import build_key, meta_key
from codehub.core.seal import seal
from codehub.errors import ActionFailed, ArchiveCorrupted, Unreachable
from codehub.jobs.arguments import archive_command
from codehub.jobs.committed import find_committed, read_meta
from codehub.jobs.restore import Limits, restore
from tests.integration.homes import allocate
from tests.integration.jobs import (
    PREFIX,
    SUBJECT,
    Job,
    archive_here,
    archiving,
    committed,
    new_key,
    new_store,
    quiet,
    restore_here,
    restoring,
)
from tests.integration.test_job_round_trip import as_a_user

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.model.archive import ArchiveMeta

MIB = 1024 * 1024


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return new_store(tmp_path / "store")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    (path / "notes").write_text("precious " * 1000)
    (path / "folder").mkdir()
    (path / "folder" / "data").write_bytes(bytes(range(256)) * 1000)
    return path


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    return path


@pytest.fixture
def meta(store: LocalStore, home: Path) -> ArchiveMeta:
    return archive_here(store, home)


def object_path(tmp_path: Path, meta: ArchiveMeta) -> Path:
    return tmp_path / "store" / meta.key


def write_meta(tmp_path: Path, meta: ArchiveMeta) -> None:
    (tmp_path / "store" / meta_key(meta.key)).write_bytes(seal(meta))


# Archiving


def test_a_file_that_changes_while_it_is_read_is_an_error(
    store: LocalStore, home: Path, tmp_path: Path
) -> None:
    """Nothing should write by now: an archive of half a change is worth nothing."""
    allocate(home / "growing", 64 * MIB)
    with archiving(home, tmp_path / "store") as job:
        job.run_to("pack", 8 * MIB)
        with (home / "growing").open("ab") as file:
            file.write(b"late")
        failed = job.run()
        assert job.process.returncode == 10
    assert failed["reason"] == "ActionFailed"
    assert "growing: file changed as we read it" in failed["message"]
    assert committed(store) is None
    assert list(store.list("")) == []


def test_an_unreadable_file_is_named(store: LocalStore, home: Path, tmp_path: Path) -> None:
    (home / "secret").write_text("no")
    (home / "secret").chmod(0o000)
    before = (home / "secret").lstat()
    command = [*as_a_user(), *archive_command(home, new_key(), SUBJECT)]
    job = Job(command, tmp_path / "store")
    failed = job.run()
    job.close()
    assert failed["reason"] == "ActionFailed"
    assert "./secret: Cannot open: Permission denied" in failed["message"]
    assert committed(store) is None
    assert (home / "secret").lstat() == before


@pytest.mark.parametrize("what", ["missing", "file", "link"])
def test_only_a_directory_is_a_volume(
    store: LocalStore, home: Path, tmp_path: Path, what: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(ActionFailed, match="the volume"):
        archive_here(store, tmp_path / what)
    assert list(store.list("")) == []


def test_a_store_that_is_not_there_is_unreachable(home: Path, tmp_path: Path) -> None:
    with archiving(home, tmp_path / "nowhere") as job:
        failed = job.run()
        assert (failed["reason"], job.process.returncode) == ("Unreachable", 12)
    assert not (tmp_path / "nowhere").exists()


def test_an_attempt_is_never_written_twice(
    store: LocalStore, home: Path, volume: Path, tmp_path: Path
) -> None:
    key = new_key()
    with archiving(home, tmp_path / "store", key) as job:
        assert job.run()["event"] == "done"
    (home / "notes").write_text("changed")
    with archiving(home, tmp_path / "store", key) as job:
        assert job.run()["reason"] == "ActionFailed"
    restore_here(store, volume, build_key(key))
    assert (volume / "notes").read_text().startswith("precious")


def test_wrong_arguments_are_usage_errors(tmp_path: Path) -> None:
    for words in ([], ["pack"], ["restore", "--volume=relative", "--key=x"], ["archive"]):
        done = subprocess.run(
            [sys.executable, "-m", "codehub.jobs", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 64
        assert done.stdout == b""


# Restoring


def test_a_restore_mixes_with_nothing(
    store: LocalStore, volume: Path, meta: ArchiveMeta, tmp_path: Path
) -> None:
    (volume / "mine").write_text("keep")
    with restoring(volume, tmp_path / "store", meta.key) as job:
        assert "not empty" in job.run()["message"]
    assert [path.name for path in volume.iterdir()] == ["mine"]


def test_an_archive_without_marker_does_not_exist(
    store: LocalStore, volume: Path, meta: ArchiveMeta
) -> None:
    store.delete(meta_key(meta.key))
    with pytest.raises(ActionFailed, match="never committed") as caught:
        restore_here(store, volume, meta.key)
    assert not isinstance(caught.value, ArchiveCorrupted)
    assert committed(store) is None


@pytest.mark.parametrize(
    "damage", ["first", "middle", "last", "half", "garbage", "empty", "longer"]
)
def test_a_damaged_archive_is_told_and_the_volume_emptied(
    volume: Path, meta: ArchiveMeta, tmp_path: Path, damage: str
) -> None:
    path = object_path(tmp_path, meta)
    path.write_bytes(_damaged(path.read_bytes(), damage))
    with restoring(volume, tmp_path / "store", meta.key) as job:
        failed = job.run()
        assert (failed["reason"], job.process.returncode) == ("ArchiveCorrupted", 11), failed
    assert list(volume.iterdir()) == []
    assert path.exists()


def test_every_flipped_byte_is_noticed(
    store: LocalStore, volume: Path, meta: ArchiveMeta, tmp_path: Path
) -> None:
    path = object_path(tmp_path, meta)
    whole = path.read_bytes()
    for position in range(0, len(whole), max(1, len(whole) // 12)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :])
        with pytest.raises(ArchiveCorrupted):
            restore_here(store, volume, meta.key)
        assert list(volume.iterdir()) == []
    path.write_bytes(whole)
    restore_here(store, volume, meta.key)
    assert (volume / "notes").exists()


def test_a_missing_object_is_told(store: LocalStore, volume: Path, meta: ArchiveMeta) -> None:
    store.delete(meta.key)
    with pytest.raises(ArchiveCorrupted, match="not there"):
        restore_here(store, volume, meta.key)
    assert committed(store) is None


def test_a_damaged_marker_is_told(
    store: LocalStore, volume: Path, meta: ArchiveMeta, tmp_path: Path
) -> None:
    path = tmp_path / "store" / meta_key(meta.key)
    path.write_bytes(path.read_bytes().replace(b'"entries": 4', b'"entries": 5'))
    with pytest.raises(ArchiveCorrupted, match="seal"):
        restore_here(store, volume, meta.key)
    assert committed(store) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"sha256": "00" * 32},
        {"entries": 3},
        {"entries": 5},
        {"unpacked_bytes": 10_240},
        {"unpacked_bytes": 10_000_000},
        {"bytes": 17},
        {"workspace_id": UUID(int=77)},
    ],
    ids=str,
)
def test_a_marker_that_says_something_else_is_told(
    store: LocalStore, volume: Path, meta: ArchiveMeta, tmp_path: Path, wrong: dict[str, object]
) -> None:
    write_meta(tmp_path, replace(meta, **wrong))  # type: ignore[arg-type]
    with pytest.raises(ArchiveCorrupted):
        restore_here(store, volume, meta.key)
    assert list(volume.iterdir()) == []


def test_an_archive_other_than_the_recorded_one_is_told(
    volume: Path, meta: ArchiveMeta, tmp_path: Path
) -> None:
    other = hashlib.sha256(b"what the hub recorded").hexdigest()
    with restoring(volume, tmp_path / "store", meta.key, Limits(sha256=other)) as job:
        assert job.run()["reason"] == "ArchiveCorrupted"
    with restoring(volume, tmp_path / "store", meta.key, Limits(sha256=meta.sha256)) as job:
        assert job.run()["event"] == "done"


@pytest.mark.parametrize("limits", [Limits(most_bytes=5000), Limits(most_entries=3)])
def test_an_archive_above_the_limits_is_refused(
    volume: Path, meta: ArchiveMeta, tmp_path: Path, limits: Limits
) -> None:
    with restoring(volume, tmp_path / "store", meta.key, limits) as job:
        failed = job.run()
    assert failed["reason"] == "ActionFailed"
    assert "above" in failed["message"]
    assert list(volume.iterdir()) == []


def test_too_little_space_is_told_before_anything_is_unpacked(
    store: LocalStore, volume: Path, meta: ArchiveMeta, tmp_path: Path
) -> None:
    write_meta(tmp_path, replace(meta, unpacked_bytes=2**60))
    with pytest.raises(ActionFailed, match="not enough space") as caught:
        restore_here(store, volume, meta.key)
    assert "are free" in str(caught.value)
    assert list(volume.iterdir()) == []


DISK_FULL = """
from pathlib import Path
from codehub.errors import ActionFailed
from tests.integration.jobs import *
from tests.integration.faults import FaultyStore

volume = Path({volume!r})
(volume / "home").mkdir()

class Filling(FaultyStore):
    def open_reader(self, key):
        if key.endswith(".zst"):
            (volume / "neighbour").write_bytes(bytes(3_500_000))
        return super().open_reader(key)

try:
    restore_here(Filling(LocalStore(Path({store!r}))), volume / "home", {key!r})
except ActionFailed as error:
    print(error, "|", list((volume / "home").iterdir()))
"""


def test_a_disk_that_fills_up_is_told_and_the_volume_emptied(
    store: LocalStore, home: Path, volume: Path, tmp_path: Path
) -> None:
    (home / "big").write_bytes(b"x" * 2_000_000)
    meta = archive_here(store, home)
    program = DISK_FULL.format(volume=str(volume), store=str(tmp_path / "store"), key=meta.key)
    mount = f"mount -t tmpfs -o size=4m tmpfs {volume} && exec {sys.executable} -"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount],
        input=program,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode and "unshare" in done.stderr:
        pytest.skip("no private mount can be made here")
    assert done.stdout.startswith("no space is left for the volume: ./folder/data: Cannot write"), (
        done
    )
    assert done.stdout.endswith("| []\n")


# Committed archives


def test_the_newest_committed_archive_is_found(store: LocalStore, home: Path) -> None:
    assert committed(store) is None
    one = archive_here(store, home)
    other = archive_here(store, home)
    assert committed(store) in (one, other)
    assert read_meta(store, one.key) == one
    store.delete(meta_key(one.key))
    assert committed(store) == other
    assert find_committed(store, PREFIX.replace("3", "4")) is None


def test_a_damaged_attempt_does_not_hide_a_good_one(
    store: LocalStore, home: Path, tmp_path: Path
) -> None:
    damaged, cut, good = (archive_here(store, home) for _ in range(3))
    (tmp_path / "store" / meta_key(damaged.key)).write_bytes(b"{")
    object_path(tmp_path, cut).write_bytes(b"short")
    assert committed(store) == good


def test_no_answer_is_not_taken_for_no_archive(tmp_path: Path, meta: ArchiveMeta) -> None:
    (tmp_path / "store").rename(tmp_path / "unmounted")
    with pytest.raises(Unreachable):
        committed(LocalStore(tmp_path / "store"))
    with pytest.raises(Unreachable):
        restore(LocalStore(tmp_path / "store"), tmp_path, meta.key, quiet(), Limits())


def _damaged(data: bytes, damage: str) -> bytes:
    middle = len(data) // 2
    return {
        "first": b"\0" + data[1:],
        "middle": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "last": data[:-1] + bytes([data[-1] ^ 128]),
        "half": data[:middle],
        "garbage": bytes(index * 7 % 251 for index in range(len(data))),
        "empty": b"",
        "longer": data + b"\0",
    }[damage]
