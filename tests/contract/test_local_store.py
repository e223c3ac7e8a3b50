"""The `file://` store keeps the contract of all stores, and what only a disk can break."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("tests.contract.store_contract")

from codehub.adapters.localstore import LocalStore  # noqa: E402
from codehub.errors import ActionFailed, NameConflict, Unreachable  # noqa: E402
from tests.contract.store_contract import *  # noqa: E402, F403
from tests.contract.store_contract import FAR_AHEAD, get, keys, put  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from codehub.ports import ObjectStore

MARKER = ".codehub-store"
NOBODY = 65534


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    store.claim()
    return store


CALLS: dict[str, Callable[[ObjectStore], object]] = {
    "head": lambda store: store.head("hub/one"),
    "open_reader": lambda store: store.open_reader("hub/one"),
    "open_writer": lambda store: store.open_writer("hub/one"),
    "list": lambda store: list(store.list("")),
    "delete": lambda store: store.delete("hub/one"),
    "abort_unfinished": lambda store: store.abort_unfinished("", FAR_AHEAD),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))


@each_call
def test_a_missing_root_is_unreachable_and_never_empty(
    tmp_path: Path, call: Callable[[ObjectStore], object]
) -> None:
    with pytest.raises(Unreachable, match="marker"):
        call(LocalStore(tmp_path / "store"))
    assert list(tmp_path.iterdir()) == []


@each_call
def test_an_unmounted_root_is_unreachable(
    tmp_path: Path, call: Callable[[ObjectStore], object]
) -> None:
    """What a missing mount leaves behind: the directory, with nothing in it."""
    (tmp_path / "store").mkdir()
    with pytest.raises(Unreachable, match="marker"):
        call(LocalStore(tmp_path / "store"))
    assert list((tmp_path / "store").iterdir()) == []


@each_call
def test_a_file_in_the_place_of_the_root_is_unreachable(
    tmp_path: Path, call: Callable[[ObjectStore], object]
) -> None:
    (tmp_path / "store").write_text("not a directory")
    with pytest.raises(Unreachable):
        call(LocalStore(tmp_path / "store"))


def test_a_root_that_goes_away_ends_the_listing_with_an_error(
    store: LocalStore, tmp_path: Path
) -> None:
    for key in ("a/one", "b/one", "c/one"):
        put(store, key)
    listing = store.list("")
    next(listing)
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    with pytest.raises(Unreachable):
        list(listing)


def test_a_claim_can_be_repeated(store: LocalStore) -> None:
    put(store, "hub/one")
    store.claim()
    assert keys(store) == ["hub/one"]


def test_a_claim_makes_the_directories_for_the_hubs_user_alone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "deep" / "store")
    store.claim()
    put(store, "hub/one")
    for path, mode in (("", 0o700), ("hub", 0o700), ("hub/one", 0o600)):
        found = stat.S_IMODE((tmp_path / "deep" / "store" / path).lstat().st_mode)
        assert found == mode, path


def test_a_directory_with_other_things_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    with pytest.raises(NameConflict, match="not empty"):
        LocalStore(tmp_path).claim()
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_folder_cannot_be_read(store: LocalStore) -> None:
    put(store, "hub/one/home")
    with pytest.raises(ActionFailed, match="folder"):
        store.open_reader("hub/one")


def test_an_object_cannot_be_below_an_object(store: LocalStore) -> None:
    put(store, "hub/one")
    with pytest.raises(NameConflict):
        put(store, "hub/one/below")
    with pytest.raises(NameConflict):
        put(store, "hub")
    assert keys(store) == ["hub/one"]
    assert store.abort_unfinished("", FAR_AHEAD) == 0


def test_links_in_the_store_are_not_followed(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "store" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "store" / "folder").symlink_to(tmp_path)
    with pytest.raises(ActionFailed):
        store.open_reader("link")
    assert store.head("link") is None
    assert keys(store) == []


def test_foreign_files_are_not_objects(store: LocalStore, tmp_path: Path) -> None:
    root = tmp_path / "store"
    (root / "lost+found").mkdir(mode=0o000)
    (root / ".hidden").mkdir()
    (root / ".hidden" / "file").touch()
    put(store, "hub/one")
    assert keys(store) == ["hub/one"]
    (root / "lost+found").rmdir()


def test_delete_takes_the_folders_it_empties(store: LocalStore, tmp_path: Path) -> None:
    put(store, "hub/one/op/1/home")
    put(store, "hub/two/op/1/home")
    store.delete("hub/one/op/1/home")
    root = tmp_path / "store"
    assert sorted(path.name for path in (root / "hub").iterdir()) == ["two"]
    store.delete("hub/two/op/1/home")
    assert [path.name for path in root.iterdir()] == [MARKER]


def test_given_up_uploads_take_their_folders_with_them(store: LocalStore, tmp_path: Path) -> None:
    store.open_writer("hub/one/home").write(b"half")
    store.open_writer("hub/two/home").abort()
    assert store.abort_unfinished("hub/o", FAR_AHEAD) == 1
    assert [path.name for path in (tmp_path / "store").iterdir()] == [MARKER]


def test_what_was_written_lies_in_one_plain_file(store: LocalStore, tmp_path: Path) -> None:
    put(store, "hub/one/home", b"plain")
    assert (tmp_path / "store/hub/one/home").read_bytes() == b"plain"
    assert (tmp_path / "store/hub/one/home").lstat().st_nlink == 1


@pytest.mark.parametrize("name", ["head", "open_reader", "open_writer", "list", "delete"])
def test_a_store_that_keeps_us_out_says_so(open_path: Path, name: str) -> None:
    """Not "absent": whoever may not look knows nothing."""
    store = LocalStore(open_path / "store")
    store.claim()
    put(store, "hub/one")
    (open_path / "store").chmod(0o755)
    (open_path / "store" / "hub").chmod(0o000)
    try:
        with unprivileged(), pytest.raises(ActionFailed, match="does not let us in"):
            CALLS[name](store)
    finally:
        (open_path / "store" / "hub").chmod(0o700)
    assert get(store, "hub/one") == b"data"


def test_a_full_disk_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from codehub.adapters.localstore import LocalStore
from codehub.errors import ActionFailed
store = LocalStore(Path({str(tmp_path)!r}))
store.claim()
writer = store.open_writer("hub/one")
try:
    for _ in range(4):
        writer.write(bytes(1 << 20))
except ActionFailed as error:
    writer.abort()
    print(error, "|", [path.name for path in Path({str(tmp_path)!r}).iterdir()])
"""
    mount = f"mount -t tmpfs -o size=1m tmpfs {tmp_path} && exec {sys.executable} -"
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
    assert done.stdout == f"no space is left in the archive store (writing) | ['{MARKER}']\n"


@contextmanager
def unprivileged() -> Iterator[None]:
    """An account that files can keep out; the superuser's cannot be."""
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if privileged:
            os.seteuid(0)
