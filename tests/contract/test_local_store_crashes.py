"""A job that dies anywhere in a call of the local store leaves objects whole or absent.

The crash points are before and after every call that changes the disk. A sync is none: what it is
for is a power cut, and to whoever comes after a dead process it changes nothing.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from codehub.adapters.localstore import LocalStore
from codehub.errors import NameConflict
from tests.contract import store_crash
from tests.contract.crash_points import mortal
from tests.contract.store_contract import FAR_AHEAD, get, keys, put

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.contract.crash_points import Mortal

MARKER = ".codehub-store"
KEY = "hub/one/op/1/home"
DATA = b"what somebody typed"


@pytest.fixture(scope="module")
def job() -> Iterator[Mortal]:
    with mortal(store_crash.__name__) as process:
        yield process


def dies(job: Mortal, action: str, point: int, root: Path) -> bool:
    order = {"action": action, "point": point, "root": str(root), "key": KEY, "data": DATA.decode()}
    return job.dies(order)


def claimed(root: Path) -> LocalStore:
    store = LocalStore(root)
    store.claim()
    return store


def files(root: Path) -> list[str]:
    """Everything below, by path; only the marker where no object is."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_an_object_is_whole_or_absent_wherever_its_upload_died(job: Mortal, tmp_path: Path) -> None:
    seen = set()
    for point in count(1):
        root = tmp_path / str(point)
        store = claimed(root)
        died = dies(job, "write", point, root)

        found = get(store, KEY)
        assert found in (None, DATA), job.place
        assert keys(store) == ([] if found is None else [KEY]), job.place
        seen.add(found)
        if found is None:
            put(store, KEY, DATA)
        else:
            with pytest.raises(NameConflict):
                put(store, KEY, b"something else")
        assert get(store, KEY) == DATA, job.place
        if not died:
            break
    assert seen == {None, DATA}
    assert point > 14, "the steps of an upload are counted"


def test_what_an_upload_that_died_left_goes_and_nothing_else(job: Mortal, tmp_path: Path) -> None:
    """After the link both names are the same file: giving up the upload must keep the object."""
    for point in count(1):
        root = tmp_path / str(point)
        store = claimed(root)
        died = dies(job, "write", point, root)
        found = get(store, KEY)

        store.abort_unfinished("", FAR_AHEAD)

        assert get(store, KEY) == found, job.place
        left = [path for path in root.rglob("*") if path.is_file()]
        assert {path.name for path in left} <= {MARKER, "home"}, job.place
        assert all(path.lstat().st_nlink == 1 for path in left), job.place
        store.delete(KEY)
        put(store, KEY, DATA)
        store.delete(KEY)
        assert files(root) == [MARKER], job.place
        if not died:
            break
    assert point > 14, "the steps of an upload are counted"


def test_an_object_is_whole_or_gone_wherever_its_deletion_died(job: Mortal, tmp_path: Path) -> None:
    for point in count(1):
        root = tmp_path / str(point)
        store = claimed(root)
        put(store, KEY, DATA)
        died = dies(job, "delete", point, root)

        found = get(store, KEY)
        assert found in (None, DATA), job.place
        store.delete(KEY)
        assert keys(store) == [], job.place
        if not died:
            break
    assert point > 8, "the steps of a deletion are counted"


def test_giving_up_uploads_can_die_anywhere(job: Mortal, tmp_path: Path) -> None:
    for point in count(1):
        root = tmp_path / str(point)
        store = claimed(root)
        put(store, "hub/two/home", DATA)
        store.open_writer(KEY).write(DATA)
        died = dies(job, "give up", point, root)

        store.abort_unfinished("", FAR_AHEAD)

        assert keys(store) == ["hub/two/home"], job.place
        assert get(store, "hub/two/home") == DATA, job.place
        if not died:
            break
    assert point > 4, "the steps of giving up are counted"


def test_a_claim_that_died_anywhere_can_be_made_again(job: Mortal, tmp_path: Path) -> None:
    for point in count(1):
        root = tmp_path / str(point)
        died = dies(job, "claim", point, root)

        store = claimed(root)

        assert files(root) == [MARKER], job.place
        put(store, KEY, DATA)
        assert get(store, KEY) == DATA, job.place
        if not died:
            break
    assert point > 4, "the steps of a claim are counted"
