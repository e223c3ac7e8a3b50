"""What every object store promises, as tests: `codehub.ports.ObjectStore` in words that can fail.

A module for one implementation imports everything from here and provides the fixture `store`: an
empty store that is there.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.errors import ActionFailed, NameConflict

if TYPE_CHECKING:
    from codehub.ports import ObjectStore

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
FAR_AHEAD = datetime(2100, 1, 1, tzinfo=UTC)
LARGE = 12 * 1024 * 1024

BAD_KEYS = (
    "",
    "/",
    "/etc/passwd",
    "a//b",
    "a/",
    "../a",
    "a/../b",
    "a/./b",
    ".hidden",
    "a/.hidden",
    "a b",
    "a\nb",
    "a\0b",
    "ä",
    "a\\b",
    "x" * 201,
    "/".join(["x" * 100] * 10),
)


def put(store: ObjectStore, key: str, data: bytes = b"data") -> None:
    writer = store.open_writer(key)
    writer.write(data)
    writer.commit()


def get(store: ObjectStore, key: str, size: int = 65536) -> bytes | None:
    reader = store.open_reader(key)
    if reader is None:
        return None
    pieces = []
    with reader:
        while piece := reader.read(size):
            pieces.append(piece)
    return b"".join(pieces)


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return [info.key for info in store.list(prefix)]


def test_what_was_committed_is_read_back(store: ObjectStore) -> None:
    put(store, "hub/one/home", b"\x00\xffbytes")
    assert get(store, "hub/one/home") == b"\x00\xffbytes"
    info = store.head("hub/one/home")
    assert info is not None
    assert (info.key, info.size) == ("hub/one/home", 7)


def test_the_time_of_an_object_is_that_of_its_writing(store: ObjectStore) -> None:
    put(store, "hub/one")
    info = store.head("hub/one")
    assert info is not None
    assert abs(info.modified_at - datetime.now(UTC)) < timedelta(hours=1)
    assert list(store.list("hub/")) == [info]


def test_an_object_may_be_empty(store: ObjectStore) -> None:
    put(store, "hub/empty", b"")
    assert get(store, "hub/empty") == b""
    info = store.head("hub/empty")
    assert info is not None
    assert info.size == 0


def test_a_large_object_arrives_in_many_pieces(store: ObjectStore) -> None:
    digest = hashlib.sha256()
    writer = store.open_writer("hub/large")
    for number in range(LARGE // 65536):
        piece = number.to_bytes(4, "big") * 16384
        digest.update(piece)
        writer.write(piece)
    writer.commit()
    read = get(store, "hub/large", 100_000)
    assert read is not None
    assert hashlib.sha256(read).digest() == digest.digest()


def test_a_read_gives_at_most_what_was_asked_for(store: ObjectStore) -> None:
    put(store, "hub/one", b"abc" * 1000)
    reader = store.open_reader("hub/one")
    assert reader is not None
    with reader:
        assert 1 <= len(reader.read(10)) <= 10


def test_nobody_sees_an_object_before_its_commit(store: ObjectStore) -> None:
    writer = store.open_writer("hub/one")
    writer.write(b"half")
    assert store.head("hub/one") is None
    assert store.open_reader("hub/one") is None
    assert keys(store) == []
    writer.commit()
    assert keys(store) == ["hub/one"]


def test_an_aborted_object_leaves_nothing(store: ObjectStore) -> None:
    writer = store.open_writer("hub/one")
    writer.write(b"x" * 100_000)
    writer.abort()
    writer.abort()
    assert keys(store) == []
    assert store.abort_unfinished("", FAR_AHEAD) == 0
    put(store, "hub/one", b"second try")
    assert get(store, "hub/one") == b"second try"


def test_abort_after_commit_changes_nothing(store: ObjectStore) -> None:
    writer = store.open_writer("hub/one")
    writer.write(b"kept")
    writer.commit()
    writer.abort()
    assert get(store, "hub/one") == b"kept"


def test_an_ended_upload_takes_nothing_more(store: ObjectStore) -> None:
    writer = store.open_writer("hub/one")
    writer.abort()
    with pytest.raises(ActionFailed):
        writer.write(b"late")
    with pytest.raises(ActionFailed):
        writer.commit()
    assert keys(store) == []


def test_a_key_is_written_once(store: ObjectStore) -> None:
    put(store, "hub/one", b"first")
    with pytest.raises(NameConflict, match="hub/one"):
        put(store, "hub/one", b"second")
    assert get(store, "hub/one") == b"first"
    assert store.abort_unfinished("", FAR_AHEAD) == 0


def test_of_two_writers_of_one_key_the_first_to_commit_wins(store: ObjectStore) -> None:
    one, other = store.open_writer("hub/one"), store.open_writer("hub/one")
    one.write(b"one")
    other.write(b"other")
    other.commit()
    with pytest.raises(NameConflict):
        one.commit()
    assert get(store, "hub/one") == b"other"


def test_what_is_not_there_is_an_answer(store: ObjectStore) -> None:
    put(store, "hub/one/home")
    for key in ("hub/two", "hub/one/home2", "hub/one/home/below", "other/one/home"):
        assert store.head(key) is None
        assert store.open_reader(key) is None
        store.delete(key)
    assert keys(store) == ["hub/one/home"]


def test_delete_takes_one_object_only(store: ObjectStore) -> None:
    for key in ("hub/one/a", "hub/one/a.meta", "hub/one/ab", "hub/two/a"):
        put(store, key)
    store.delete("hub/one/a")
    assert keys(store) == ["hub/one/a.meta", "hub/one/ab", "hub/two/a"]
    store.delete("hub/one/a")
    put(store, "hub/one/a", b"again")
    assert get(store, "hub/one/a") == b"again"


def test_a_folder_is_not_deleted_with_its_name(store: ObjectStore) -> None:
    put(store, "hub/one/a")
    store.delete("hub/one")
    assert store.head("hub/one") is None
    assert keys(store) == ["hub/one/a"]


def test_keys_are_listed_in_their_own_order(store: ObjectStore) -> None:
    """As a bucket does: by the bytes of the whole key, where "-" and "." sort before "/"."""
    names = ["a/x", "a-b/x", "a.b", "ab", "A/x", "a/x.meta", "a0/x", "a/x-1", "b"]
    for name in names:
        put(store, name)
    assert keys(store) == sorted(names, key=str.encode)


def test_a_prefix_is_part_of_a_key_and_not_a_folder(store: ObjectStore) -> None:
    for key in ("hub/one/a", "hub/one/b", "hub/one-two/a", "hub/two/a", "hubs/one/a"):
        put(store, key)
    assert keys(store, "hub/one") == ["hub/one-two/a", "hub/one/a", "hub/one/b"]
    assert keys(store, "hub/one/") == ["hub/one/a", "hub/one/b"]
    assert keys(store, "hub/one/a") == ["hub/one/a"]
    assert keys(store, "hub/three/") == []
    assert len(keys(store, "")) == 5


def test_many_keys_are_all_listed(store: ObjectStore) -> None:
    names = [f"hub/{number:04}/home" for number in range(60)]
    for name in names:
        put(store, name, b"")
    assert keys(store, "hub/") == names


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_could_lead_elsewhere_is_refused(store: ObjectStore, key: str) -> None:
    for call in (store.head, store.open_reader, store.open_writer, store.delete):
        with pytest.raises(ActionFailed):
            call(key)
    assert keys(store) == []


@pytest.mark.parametrize("prefix", ["/", "../", "a//", "a/../", ".a", "a b"])
def test_a_prefix_that_could_lead_elsewhere_is_refused(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(ActionFailed):
        list(store.list(prefix))
    with pytest.raises(ActionFailed):
        store.abort_unfinished(prefix, FAR_AHEAD)


def test_old_uploads_are_given_up(store: ObjectStore) -> None:
    """So large that no store holds all of it back until the commit."""
    stuck = store.open_writer("hub/one/home")
    stuck.write(b"half" * (LARGE // 4))
    going_on = store.open_writer("other/one/home")
    put(store, "hub/two/home", b"whole")
    assert store.abort_unfinished("hub/", LONG_AGO) == 0
    assert store.abort_unfinished("hub/", FAR_AHEAD) == 1
    assert store.abort_unfinished("hub/", FAR_AHEAD) == 0
    with pytest.raises(ActionFailed):
        stuck.commit()
    going_on.commit()
    assert keys(store) == ["hub/two/home", "other/one/home"]


@pytest.fixture
def heeds_deletions() -> bool:
    """Whether what was deleted is surely gone, whatever else happens in its folder."""
    return True


def test_writers_and_deleters_do_not_disturb_each_other(
    store: ObjectStore, heeds_deletions: bool
) -> None:
    """They share folders that come and go; everything written and not deleted must be there."""

    def work(number: int) -> str:
        for turn in range(25):
            gone = f"hub/one/{turn % 3}/{number}-{turn}"
            put(store, gone)
            store.delete(gone)
        kept = f"hub/one/{number % 3}/{number}-kept"
        put(store, kept, str(number).encode())
        return kept

    with ThreadPoolExecutor(6) as pool:
        expected = sorted(pool.map(work, range(6)))
    found = keys(store, "hub/one/")
    assert set(expected) <= set(found)
    for key in () if heeds_deletions else set(found) - set(expected):
        store.delete(key)
    assert keys(store, "hub/one/") == expected
    assert sorted(get(store, key) or b"" for key in expected) == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
        b"5",
    ]
