"""Homes through an engine's copy calls: nothing is taken on trust, and what is wrong is told."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.keys import build_key
from codehub.errors import ActionFailed, ArchiveCorrupted, CodeHubError, Unreachable
from codehub.jobs.archive import archive_nothing
from codehub.jobs.arguments import archive_command, home_of, parse, restore_command
from codehub.jobs.enginecopy import LONGEST_FOLDER
from codehub.model.archive import Fidelity
from codehub.model.runtime import NOT_MOUNTED, EngineCopy
from tests.integration.fake_engine import EMPTY, FOLDER, fake_engine, tar_of
from tests.integration.homes import describe, fill_home
from tests.integration.jobs import (
    SUBJECT,
    archive_here,
    archiving,
    committed,
    new_key,
    new_store,
    quiet,
    restore_here,
    restoring,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from codehub.adapters.localstore import LocalStore
    from tests.integration.fake_engine import FakeEngine

LOADED = (
    "import codehub.jobs.__main__, sys; sys.exit(any(m in sys.modules for m in ('docker', 'ssl')))"
)


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    with fake_engine() as engine:
        yield engine


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return new_store(tmp_path / "store")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    (path / "folder").mkdir()
    (path / "folder" / "notes").write_text("precious")
    (path / "data").write_bytes(bytes(range(256)) * 5000)
    return path


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    return path


# ---- There and back ----


def test_an_archive_from_an_engine_is_one_like_any_other(
    engine: FakeEngine, store: LocalStore, volume: Path, tmp_path: Path
) -> None:
    engine.home = tar_of(
        (f"{FOLDER}/", None),
        (f"{FOLDER}/a", b"content"),
        (f"{FOLDER}/folder/", None),
        (f"{FOLDER}/folder/" + "n" * 200, b"x" * 9000),
    )
    with archiving(engine.copy, tmp_path / "store") as job:
        assert job.run()["event"] == "done"
    meta = committed(store)
    assert meta is not None
    assert (meta.fidelity, meta.entries) == (Fidelity.COPY, 4)
    restore_here(store, volume, meta.key)
    assert (volume / "a").read_text() == "content"
    assert (volume / "folder" / ("n" * 200)).read_text() == "x" * 9000


def test_an_archive_of_a_directory_goes_to_an_engine_and_is_read_back(
    engine: FakeEngine, store: LocalStore, home: Path, tmp_path: Path
) -> None:
    meta = archive_here(store, home)
    assert meta.fidelity is Fidelity.FULL
    with restoring(engine.copy, tmp_path / "store", meta.key) as job:
        assert job.run()["event"] == "done", job.events[-1]
        stages = list(dict.fromkeys(event.get("stage") for event in job.events))
    assert stages == ["check", "unpack", "verify", "sync", None]
    with tarfile.open(fileobj=io.BytesIO(engine.given[-1])) as tar:
        names = tar.getnames()
        content = tar.extractfile("h/data")
        assert content is not None
        assert content.read() == (home / "data").read_bytes()
    assert names == ["h", "h/data", "h/folder", "h/folder/notes"]


def test_holes_are_filled_and_attributes_are_sent(
    engine: FakeEngine, store: LocalStore, home: Path
) -> None:
    """A home with everything, but for the one file whose holes are larger than any disk."""
    fill_home(home)
    for each in home.glob("hole-h*"):
        each.unlink()
    meta = archive_here(store, home)
    restore_here(store, engine.copy, meta.key)
    with tarfile.open(fileobj=io.BytesIO(engine.given[-1])) as tar:
        assert len(tar.getmembers()) == meta.entries == len(describe(home))
        for name in ("hole-only", "hole-first", "hole-between"):
            content = tar.extractfile(f"h/{name}")
            assert content is not None
            assert content.read() == (home / name).read_bytes()
        kept = tar.getmember("h/attributes").pax_headers
        assert kept.get("SCHILY.xattr.user.plain") == "value"
        assert tar.getmember("h/links/upwards").linkname == "../../../outside"


def test_holes_that_would_fill_a_disk_are_refused(
    engine: FakeEngine, store: LocalStore, home: Path
) -> None:
    with (home / "huge").open("wb") as file:
        file.truncate(1 << 40)
    meta = archive_here(store, home)
    with pytest.raises(ActionFailed, match=r"holes of \./huge"):
        restore_here(store, engine.copy, meta.key)
    assert engine.home == EMPTY


def test_an_empty_archive_leaves_the_home_as_it_is(engine: FakeEngine, store: LocalStore) -> None:
    meta = archive_nothing(store, new_key(), SUBJECT, quiet())
    restore_here(store, engine.copy, meta.key)
    assert engine.home == EMPTY


# ---- An engine that leaves things out ----

GOOD = [(f"{FOLDER}/", None), (f"{FOLDER}/a", b"content"), (f"{FOLDER}/b", b"more")]


@pytest.mark.parametrize(
    ("tar", "words"),
    [
        (tar_of(*GOOD, end=False), "in the middle"),
        (tar_of(*GOOD)[:-1536], "in the middle"),
        (tar_of(*GOOD, ("etc/passwd", b"")), "not of the home"),
        (tar_of(*GOOD, uid=-1), "attribute is damaged"),
        (tar_of(GOOD[0], GOOD[2], GOOD[1]), "out of order"),
        (tar_of(*GOOD, (f"{FOLDER}/c/../../x", b"")), "leads out"),
        (b"garbage " * 200, "damaged"),
        (b"", "in the middle"),
        (tar_of(GOOD[0], (f"{FOLDER}/{NOT_MOUNTED}", b"")), "does not have the volume"),
        (
            tar_of(GOOD[0], (f"{FOLDER}/" + "/".join(["d" * 100] * 35), None)),
            "too deep",
        ),
    ],
    ids=[
        *("no end", "cut", "foreign", "numbers", "order", "dots", "garbage", "nothing"),
        *("not mounted", "deep"),
    ],
)
def test_a_copy_that_is_not_whole_is_no_archive(
    engine: FakeEngine, store: LocalStore, tar: bytes, words: str
) -> None:
    engine.home = tar
    with pytest.raises(ActionFailed, match=words) as caught:
        archive_here(store, engine.copy)
    assert not isinstance(caught.value, ArchiveCorrupted), "no archive was ever read"
    assert committed(store) is None
    assert list(store.list("")) == []


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        ({"UsageData": {"Size": -1}}, "could not look through the whole home"),
        ({"UsageData": {"Size": 12}}, "copied 11 bytes of a home that has 12"),
        ({"UsageData": {"Size": None}}, "does not measure the volume ws-home-g1"),
        ({"UsageData": None}, "does not measure"),
        ({"Name": "yet another"}, "does not measure"),
    ],
    ids=["unreadable", "left out", "no size", "no usage", "not listed"],
)
def test_a_copy_that_is_not_all_the_engine_has_is_no_archive(
    engine: FakeEngine, store: LocalStore, usage: dict[str, Any], words: str
) -> None:
    engine.home = tar_of(*GOOD)
    engine.usage = usage
    with pytest.raises(ActionFailed, match=words):
        archive_here(store, engine.copy)
    assert committed(store) is None
    assert list(store.list("")) == []


def test_an_engine_that_measures_for_others_is_waited_for(
    engine: FakeEngine, store: LocalStore
) -> None:
    engine.home, engine.busy = tar_of(*GOOD), 2
    assert archive_here(store, engine.copy).entries == 3
    assert engine.busy == 0


def test_folders_are_taken_as_deep_as_an_engine_sees_all_of_them(
    engine: FakeEngine, store: LocalStore
) -> None:
    names = [f"{FOLDER}/" + "/".join(["d" * 99] * count) for count in range(1, 35)]
    assert len(names[-1]) < LONGEST_FOLDER
    engine.home = tar_of(GOOD[0], *((name, None) for name in names))
    assert archive_here(store, engine.copy).entries == 35


def edited(change: Callable[[list[tarfile.TarInfo]], None]) -> Callable[[bytes], bytes]:
    """Unpacks with this change; contents stay, but for those of members made smaller."""

    def unpack(given: bytes) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(given)) as before:
            members = before.getmembers()
            bodies = {info.name: before.extractfile(info) for info in members if info.isfile()}
            change(members)
            with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as after:
                for info in members:
                    after.addfile(info, bodies.get(info.name))
                size = out.tell()
        return out.getvalue()[:size] + bytes(1024)

    return unpack


def test_the_editing_of_what_an_engine_unpacks_changes_nothing_by_itself(
    engine: FakeEngine, store: LocalStore, home: Path
) -> None:
    """Guards the guard: the test below fails by the changes alone."""
    engine.unpack = edited(lambda members: None)
    restore_here(store, engine.copy, archive_here(store, home).key)


@pytest.mark.parametrize(
    "change",
    [
        lambda members: members.pop(),
        lambda members: members.pop(1),
        lambda members: setattr(members[1], "size", members[1].size - 1),
        lambda members: setattr(members[3], "mode", 0o600),
        lambda members: setattr(members[3], "uid", 4),
        lambda members: setattr(members[0], "mode", 0o711),
        lambda members: members.append(tarfile.TarInfo("h/folder/z")),
        lambda members: members.clear(),
    ],
    ids=["last", "middle", "size", "mode", "owner", "home", "more", "all"],
)
def test_what_an_engine_did_not_unpack_is_noticed(
    engine: FakeEngine,
    store: LocalStore,
    home: Path,
    change: Callable[[list[tarfile.TarInfo]], None],
) -> None:
    meta = archive_here(store, home)
    engine.unpack = edited(change)
    with pytest.raises(ActionFailed, match="did not unpack") as caught:
        restore_here(store, engine.copy, meta.key)
    assert not isinstance(caught.value, ArchiveCorrupted), "the archive is good"


def test_a_byte_that_an_engine_changed_is_noticed(
    engine: FakeEngine, store: LocalStore, home: Path
) -> None:
    meta = archive_here(store, home)
    engine.unpack = lambda given: given.replace(b"precious", b"precioux")
    with pytest.raises(ActionFailed, match="folder/notes differs"):
        restore_here(store, engine.copy, meta.key)


def test_a_home_with_something_in_it_is_left_alone(
    engine: FakeEngine, store: LocalStore, home: Path
) -> None:
    meta = archive_here(store, home)
    engine.home = tar_of(*GOOD)
    with pytest.raises(ActionFailed, match="not empty"):
        restore_here(store, engine.copy, meta.key)
    assert engine.given == []


# ---- An engine that says no, or nothing ----


@pytest.mark.parametrize("listens", [True, False], ids=["afterwards", "at once"])
@pytest.mark.parametrize(
    ("status", "said", "kind", "words"),
    [
        (500, "write /h/a: no space left on device", ActionFailed, "disk is full"),
        (500, "invalid tar header", ActionFailed, "refused: invalid tar header"),
        (404, "No such container", ActionFailed, "No such container"),
        (503, "wait a minute", Unreachable, "wait a minute"),
        (500, "containerd.sock: connection refused", Unreachable, "cannot be reached"),
    ],
)
def test_why_an_engine_did_not_unpack_is_told(
    engine: FakeEngine,
    store: LocalStore,
    home: Path,
    status: int,
    said: str,
    kind: type[CodeHubError],
    words: str,
    listens: bool,
) -> None:
    meta = archive_here(store, home)
    engine.status, engine.said, engine.listens = status, said, listens
    with pytest.raises(kind, match=words):
        restore_here(store, engine.copy, meta.key)


@pytest.mark.parametrize("cut", [0, 700, 5000])
def test_an_engine_that_dies_while_it_answers_is_unknown(
    engine: FakeEngine, store: LocalStore, cut: int
) -> None:
    engine.home = tar_of(GOOD[0], (f"{FOLDER}/a", b"x" * 9000))
    engine.cut = cut
    with pytest.raises(Unreachable):
        archive_here(store, engine.copy)
    assert committed(store) is None


def test_an_engine_that_is_not_there_is_unknown(
    engine: FakeEngine, store: LocalStore, home: Path, tmp_path: Path
) -> None:
    nowhere = EngineCopy(f"unix://{tmp_path}/engine.sock", "c0ffee", "/h")
    meta = archive_here(store, home)
    with pytest.raises(Unreachable, match="cannot be reached"):
        archive_here(store, nowhere)
    with pytest.raises(Unreachable, match="cannot be reached"):
        restore_here(store, nowhere, meta.key)


def test_a_container_that_is_gone_is_told(engine: FakeEngine, store: LocalStore) -> None:
    with pytest.raises(ActionFailed, match="No such container"):
        archive_here(store, replace(engine.copy, container="f00"))


@pytest.mark.parametrize("address", ["ssh://host", "npipe:////./pipe/x", "", "tcp://"])
def test_an_address_without_copy_calls_is_told(store: LocalStore, address: str) -> None:
    with pytest.raises(ActionFailed, match="at such an address"):
        archive_here(store, EngineCopy(address, "c0ffee", "/h"))


def test_a_damaged_archive_is_told_before_anything_else(
    engine: FakeEngine, store: LocalStore, home: Path, tmp_path: Path
) -> None:
    meta = archive_here(store, home)
    path = tmp_path / "store" / meta.key
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArchiveCorrupted):
        restore_here(store, engine.copy, meta.key)
    assert engine.home == EMPTY


# ---- The command line ----


def test_commands_name_the_home_either_way(tmp_path: Path) -> None:
    copy = EngineCopy("tcp://127.0.0.1:2375", "c0ffee", "/h")
    for home in (copy, tmp_path):
        key = new_key()
        for command in (archive_command(home, key, SUBJECT), restore_command(home, build_key(key))):
            assert home_of(parse(command[3:])) == home


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--engine=unix:///e"],
        ["--engine=unix:///e", "--container=c0ffee"],
        ["--engine=unix:///e", "--container=c0ffee:h"],
        ["--engine=unix:///e", "--container=c0ffee:/h", "--volume=/v"],
    ],
)
def test_half_a_home_is_a_wrong_command_line(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["restore", *words, f"--key={build_key(new_key())}"])
    assert caught.value.code == 64


def test_a_job_loads_neither_the_engines_sdk_nor_http_without_need() -> None:
    subprocess.run([sys.executable, "-c", LOADED], check=True, timeout=60)
