"""What is archived comes back, bit for bit, through real processes and real tar."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codehub.core.keys import build_key
from codehub.jobs.archive import archive_nothing
from codehub.jobs.arguments import archive_command, empty_command, restore_command
from codehub.jobs.volume import empty_volume
from tests.integration.homes import add_left_out, allocate, describe, fill_home
from tests.integration.jobs import (
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

MIB = 1024 * 1024


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    return path


def test_a_home_comes_back_bit_for_bit(home: Path, volume: Path, tmp_path: Path) -> None:
    new_store(tmp_path / "store")
    fill_home(home)
    before = describe(home)
    with archiving(home, tmp_path / "store") as job:
        done = job.run()
        assert (done["event"], job.process.returncode) == ("done", 0), done
    assert describe(home) == before
    with restoring(volume, tmp_path / "store", done["key"]) as job:
        last = job.run()
        assert (last["event"], job.process.returncode) == ("done", 0), last
    after = describe(volume)
    assert after.keys() == before.keys()
    for name, about in before.items():
        assert after[name] == about, name
    assert done["entries"] == len(before)


def test_the_description_of_homes_sees_what_it_should(home: Path) -> None:
    """Guards the guard: the home above really has what the test is about."""
    fill_home(home)
    found = describe(home)
    assert found["hole-only"]["data"] == []
    assert len(found["hole-between"]["data"]) == 3
    assert found["links/again"]["same as"] == found["zz-third-name"]["same as"] == "links/again"
    assert found["binary"]["mtime"] % 1000 != 0
    assert found["empty"]["mtime"] < 0
    assert found["links/upwards"]["target"] == "../../../outside"
    assert any(len(name) > 1500 for name in found)
    if os.geteuid() == 0:
        assert found["binary"]["owner"] == (1234, 4321)


def test_sockets_and_devices_are_left_out_and_counted(
    home: Path, volume: Path, tmp_path: Path
) -> None:
    store = new_store(tmp_path / "store")
    (home / "m-file").write_text("kept")
    count = add_left_out(home)
    meta = archive_here(store, home)
    assert meta.skipped == count
    restore_here(store, volume, meta.key)
    assert sorted(path.name for path in volume.iterdir()) == ["m-file"]


def test_the_done_event_says_what_the_marker_says(home: Path, tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    (home / "file").write_text("content")
    key = new_key()
    with archiving(home, tmp_path / "store", key) as job:
        done = job.run()
        stages = list(dict.fromkeys(event.get("stage") for event in job.events))
    assert stages == ["pack", "verify", "commit", None]
    meta = committed(store)
    assert meta is not None
    assert meta.key == build_key(key) == done["key"]
    assert (meta.workspace_name, meta.owner, meta.generation) == ("payments-api", "alice", 4)
    assert (meta.hub, meta.workspace_id) == (key.hub_id, key.workspace_id)
    assert meta.created_at == SUBJECT.created_at
    assert meta.entries == 2
    info = store.head(meta.key)
    assert info is not None
    assert info.size == meta.bytes == done["bytes"]


def test_progress_counts_up_to_the_whole(home: Path, volume: Path, tmp_path: Path) -> None:
    new_store(tmp_path / "store")
    allocate(home / "zeros", 40 * MIB)
    with archiving(home, tmp_path / "store") as job:
        done = job.run()
        packed = [event["bytes"] for event in job.events if event.get("stage") == "pack"]
    assert packed == sorted(packed)
    assert len(packed) >= 4
    with restoring(volume, tmp_path / "store", done["key"]) as job:
        job.run()
        steps = [event for event in job.events if event.get("stage") == "unpack"]
    assert {step["total"] for step in steps} == {done["unpacked_bytes"]}
    assert 30 * MIB < steps[-1]["bytes"] <= done["unpacked_bytes"]


def test_an_empty_archive_makes_an_empty_home(volume: Path, tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    job = Job(empty_command(new_key(), SUBJECT), tmp_path / "store")
    done = job.run()
    job.close()
    assert (done["event"], done["entries"]) == ("done", 0)
    before = describe(volume)
    restore_here(store, volume, done["key"])
    assert describe(volume) == before
    assert archive_nothing(store, new_key(), SUBJECT, quiet()).sha256 == done["sha256"]


def test_an_empty_home_is_archived_with_its_mode(home: Path, volume: Path, tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    home.chmod(0o711)
    meta = archive_here(store, home)
    restore_here(store, volume, meta.key)
    assert describe(volume) == describe(home)


def test_paths_at_the_limit_come_back_and_beyond_it_are_refused(
    home: Path, volume: Path, tmp_path: Path
) -> None:
    """What no tar could unpack must not be archived: the volume goes afterwards."""
    store = new_store(tmp_path / "store")
    _dig(home, 20)
    meta = archive_here(store, home)
    restore_here(store, volume, meta.key)
    assert meta.entries == 21
    _dig(home, 25)
    with archiving(home, tmp_path / "store") as job:
        failed = job.run()
        assert job.process.returncode == 10
    assert failed["reason"] == "ActionFailed"
    assert "longer than 4095" in failed["message"]
    assert committed(store) == meta
    for path in (home, volume):
        empty_volume(path)
        assert list(path.iterdir()) == []


def test_memory_stays_flat(home: Path, volume: Path, tmp_path: Path) -> None:
    """Far more data than the job may use memory."""
    new_store(tmp_path / "store")
    allocate(home / "zeros", 400 * MIB)
    (home / "noise").write_bytes(os.urandom(16 * MIB))
    key = new_key()
    for command in (
        archive_command(home, key, SUBJECT),
        restore_command(volume, build_key(key)),
    ):
        assert _peak_mib(command, tmp_path / "store") < 256
    assert (volume / "zeros").stat().st_size == 400 * MIB


def test_a_normal_user_restores_what_it_may(home: Path, volume: Path, tmp_path: Path) -> None:
    """Modes, times, links, holes and its own attributes; owners become its own."""
    new_store(tmp_path / "store")
    fill_home(home)
    before = describe(home)
    with archiving(home, tmp_path / "store") as job:
        done = job.run()
    job = Job([*as_a_user(), *restore_command(volume, done["key"])], tmp_path / "store")
    last = job.run()
    job.close()
    assert last["event"] == "done", last
    after = describe(volume)
    for name, about in before.items():
        about["owner"] = after[name]["owner"]
        about["xattrs"] = {
            key: value for key, value in about["xattrs"].items() if key.startswith("user.")
        }
        assert after[name] == about, name


def as_a_user() -> list[str]:
    """Start of a command that runs without the superuser's rights, on the same files."""
    if os.geteuid():
        return []
    command = ["unshare", "--map-user=1000", "--map-group=1000"]
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            [*command, "true"], capture_output=True, timeout=60, check=False
        ).returncode
    ):
        pytest.skip("no account without rights can be made here")
    return command


def _dig(home: Path, levels: int) -> None:
    """Folders in each other, made from inside: the whole path is too long to name."""
    here = os.open(".", os.O_RDONLY)
    os.chdir(home)
    try:
        for _ in range(levels):
            Path("d" * 200).mkdir(exist_ok=True)
            os.chdir("d" * 200)
    finally:
        os.fchdir(here)
        os.close(here)


def _peak_mib(command: list[str], store: Path) -> float:
    """The largest memory of the job and of its tar."""
    program = (
        "import os, resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdin=os.pipe()[0], stdout=2, check=True, timeout=100)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        env={**os.environ, "CODEHUB_STORE_URL": f"file://{store}"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout) / 1024
