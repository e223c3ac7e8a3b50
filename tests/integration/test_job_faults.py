"""Stores that fail in the middle: every call of a job, before and after it was done."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codehub.errors import ActionFailed, ArchiveCorrupted, CodeHubError, Unreachable
from tests.integration.faults import FaultyStore
from tests.integration.homes import describe
from tests.integration.jobs import archive_here, committed, new_store, restore_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codehub.adapters.localstore import LocalStore

ARCHIVE_CALLS = 14
RESTORE_CALLS = 8


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return new_store(tmp_path / "store")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    (path / "notes").write_text("precious")
    (path / "random").write_bytes(os.urandom(1_500_000))
    return path


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    return path


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Whatever failed: no thread goes on, no child is left."""
    threads, children = set(threading.enumerate()), _children()
    yield
    assert set(threading.enumerate()) <= threads
    assert _children() <= children


def _children() -> set[str]:
    """The pids of this process's children, ended ones that nobody waited for among them."""
    own = str(os.getpid())
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text(errors="replace").rpartition(")")[2].split()[1] == own:
                found.add(stat.parent.name)
    return found


def at(number: int, error: CodeHubError) -> Callable[[str], None]:
    """Raises at the n-th call."""
    left = number

    def told(call: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise error

    return told


def on(name: str, error: CodeHubError) -> Callable[[str], None]:
    def told(call: str) -> None:
        if call == name:
            raise error

    return told


def test_the_calls_of_a_job_are_as_many_as_these_tests_try(
    store: LocalStore, home: Path, volume: Path
) -> None:
    faulty = FaultyStore(store)
    meta = archive_here(faulty, home)
    assert len(faulty.calls) == ARCHIVE_CALLS, faulty.calls
    faulty.calls.clear()
    restore_here(faulty, volume, meta.key)
    assert len(faulty.calls) == RESTORE_CALLS, faulty.calls


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_archive_is_committed_whole_or_not_at_all(
    store: LocalStore, home: Path, tmp_path: Path, when: str
) -> None:
    """Whichever call fails, done or not: nothing is half there, and another attempt works."""
    before = describe(home)
    for number in range(1, ARCHIVE_CALLS + 1):
        fault = at(number, Unreachable("the store does not answer"))
        with pytest.raises(Unreachable, match="does not answer"):
            archive_here(FaultyStore(store, **{when: fault}), home)  # type: ignore[arg-type]
        found = committed(store)
        if found is not None:
            assert number >= ARCHIVE_CALLS - 3, f"call {number} came before the commit"
            _require_same(store, found.key, before, tmp_path / f"{when}-{number}")
            store.delete(found.key)
        assert describe(home) == before
    meta = archive_here(store, home)
    _require_same(store, meta.key, before, tmp_path / "last")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_restore_is_whole_or_leaves_nothing(
    store: LocalStore, home: Path, volume: Path, when: str
) -> None:
    meta = archive_here(store, home)
    for number in range(1, RESTORE_CALLS + 1):
        fault = at(number, Unreachable("the store does not answer"))
        with pytest.raises(Unreachable):
            restore_here(FaultyStore(store, **{when: fault}), volume, meta.key)  # type: ignore[arg-type]
        assert list(volume.iterdir()) == []
    restore_here(store, volume, meta.key)
    assert describe(volume) == describe(home)


def test_a_refused_upload_leaves_no_unfinished_one(
    store: LocalStore, home: Path, tmp_path: Path
) -> None:
    full = ActionFailed("no space is left in the archive store")
    with pytest.raises(ActionFailed, match="no space"):
        archive_here(FaultyStore(store, before=on("write", full)), home)
    assert [path.name for path in (tmp_path / "store").iterdir()] == [".codehub-store"]


def test_a_bug_in_a_store_ends_the_job_and_nothing_hangs(store: LocalStore, home: Path) -> None:
    def broken(call: str) -> None:
        if call == "write":
            raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        archive_here(FaultyStore(store, before=broken), home)
    assert committed(store) is None


@pytest.mark.parametrize(
    ("alter", "why"),
    [
        (lambda data: bytes([data[0] ^ 1]) + data[1:], "bytes differ"),
        (lambda data: data[:-1], "bytes differ"),
    ],
    ids=["flipping", "truncating"],
)
def test_what_the_store_did_not_keep_is_noticed_before_the_commit(
    store: LocalStore, home: Path, alter: Callable[[bytes], bytes], why: str
) -> None:
    with pytest.raises(ActionFailed, match=why) as caught:
        archive_here(FaultyStore(store, alter=alter), home)
    assert not isinstance(caught.value, ArchiveCorrupted)
    assert committed(store) is None


def test_an_object_of_another_size_is_noticed_before_the_commit(
    store: LocalStore, home: Path, tmp_path: Path
) -> None:
    def cut(call: str) -> None:
        if call == "commit":
            (path,) = (tmp_path / "store").rglob("home.tar.zst")
            path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(ActionFailed, match="size differs"):
        archive_here(FaultyStore(store, after=cut), home)
    assert committed(store) is None


def test_damage_on_the_way_is_told_from_a_damaged_archive(
    store: LocalStore, home: Path, volume: Path
) -> None:
    """The archive is judged by a second look: this one is whole, so trying again may help."""
    meta = archive_here(store, home)
    seen = 0

    def once(data: bytes) -> bytes:
        nonlocal seen
        seen += 1
        return data if seen != 2 else data[:900_000] + b"!" + data[900_001:]

    with pytest.raises(ActionFailed, match="arrived damaged") as caught:
        restore_here(FaultyStore(store, alter=once), volume, meta.key)
    assert not isinstance(caught.value, ArchiveCorrupted)
    assert list(volume.iterdir()) == []


def test_damage_that_stays_is_a_damaged_archive(
    store: LocalStore, home: Path, volume: Path
) -> None:
    meta = archive_here(store, home)

    def always(data: bytes) -> bytes:
        return data if len(data) < 100_000 else data[:90_000] + b"!" + data[90_001:]

    with pytest.raises(ArchiveCorrupted, match="hash"):
        restore_here(FaultyStore(store, alter=always), volume, meta.key)
    assert list(volume.iterdir()) == []


def _require_same(
    store: LocalStore, key: str, expected: dict[str, dict[str, object]], volume: Path
) -> None:
    volume.mkdir()
    restore_here(store, volume, key)
    assert describe(volume) == expected
