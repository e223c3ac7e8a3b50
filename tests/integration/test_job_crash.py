"""Jobs that are killed, and jobs whose parent is: at every stage, without harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codehub.jobs.arguments import archive_command
from tests.integration.homes import describe
from tests.integration.jobs import (
    PATIENCE,
    SUBJECT,
    Job,
    archive_here,
    archiving,
    committed,
    has_ended,
    new_key,
    new_store,
    restore_here,
    restoring,
    watching,
)

if TYPE_CHECKING:
    from codehub.adapters.localstore import LocalStore

MIB = 1024 * 1024


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return new_store(tmp_path / "store")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Large enough that a job cannot finish between two events."""
    path = tmp_path / "home"
    path.mkdir()
    (path / "zeros").write_bytes(bytes(48 * MIB))
    (path / "notes").write_bytes(os.urandom(20 * MIB))
    return path


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    return path


def events_of(home: Path, store: Path) -> int:
    with archiving(home, store) as job:
        job.run()
        return len(job.events)


def test_a_job_killed_anywhere_commits_nothing_by_halves(
    store: LocalStore, home: Path, volume: Path, tmp_path: Path
) -> None:
    """Killed after each of its events. The pipe holds it within two events of what was read."""
    before = describe(home)
    count = events_of(home, tmp_path / "store")
    first = committed(store)
    assert first is not None
    store.delete(first.key)
    for number in range(count - 2):
        with archiving(home, tmp_path / "store") as job:
            for _ in range(number):
                job.next()
            job.kill()
            assert job.process.returncode == -signal.SIGKILL
        found = committed(store)
        if found is not None:
            assert number >= count - 3, f"committed {count - number} events early"
            store.delete(found.key)
    assert describe(home) == before
    meta = archive_here(store, home)
    restore_here(store, volume, meta.key)
    assert describe(volume) == before


@pytest.mark.parametrize("stage", ["pack", "verify"])
def test_a_job_killed_in_a_stage_leaves_no_archive_and_another_works(
    store: LocalStore, home: Path, tmp_path: Path, stage: str
) -> None:
    with archiving(home, tmp_path / "store") as job:
        job.run_to(stage)
        job.kill()
    assert committed(store) is None
    with archiving(home, tmp_path / "store") as job:
        done = job.run()
    found = committed(store)
    assert found is not None
    assert done["key"] == found.key


@pytest.mark.parametrize("done", [0, 8 * MIB, 40 * MIB])
def test_a_killed_restore_can_be_repeated_in_another_volume(
    store: LocalStore, home: Path, volume: Path, tmp_path: Path, done: int
) -> None:
    meta = archive_here(store, home)
    with restoring(volume, tmp_path / "store", meta.key) as job:
        job.run_to("unpack", done)
        job.kill()
    again = tmp_path / "again"
    again.mkdir()
    restore_here(store, again, meta.key)
    assert describe(again) == describe(home)
    with restoring(volume, tmp_path / "store", meta.key) as job:
        last = job.run()
    assert last["event"] == "done" or "not empty" in last["message"]


def test_tar_dies_with_its_job(home: Path, store: LocalStore, tmp_path: Path) -> None:
    """Even a halted one, which would not notice that nobody reads it."""
    with archiving(home, tmp_path / "store") as job:
        job.run_to("pack", 8 * MIB)
        with watching(job.tar()) as tar:
            signal.pidfd_send_signal(tar, signal.SIGSTOP)
            job.kill()
            assert has_ended(tar)


def test_a_restoring_tar_dies_with_its_job(
    home: Path, store: LocalStore, volume: Path, tmp_path: Path
) -> None:
    """It would go on writing into a volume that is no longer its."""
    meta = archive_here(store, home)
    with restoring(volume, tmp_path / "store", meta.key) as job:
        job.run_to("unpack", 8 * MIB)
        with watching(job.tar()) as tar:
            signal.pidfd_send_signal(tar, signal.SIGSTOP)
            job.kill()
            assert has_ended(tar)


def test_a_job_ends_when_its_input_closes(home: Path, store: LocalStore, tmp_path: Path) -> None:
    with archiving(home, tmp_path / "store") as job:
        job.run_to("pack", 8 * MIB)
        with watching(job.tar()) as tar:
            assert job.process.stdin is not None
            job.process.stdin.close()
            assert job.process.wait(PATIENCE) == -signal.SIGKILL
            assert has_ended(tar)
    assert committed(store) is None


def test_what_a_parent_writes_does_not_end_a_job(
    home: Path, store: LocalStore, tmp_path: Path
) -> None:
    with archiving(home, tmp_path / "store") as job:
        job.run_to("pack")
        assert job.process.stdin is not None
        job.process.stdin.write(b"still here\n")
        job.process.stdin.flush()
        assert job.run()["event"] == "done"


def test_a_job_dies_with_its_parent(home: Path, store: LocalStore, tmp_path: Path) -> None:
    """The parent is killed, so it cannot tell its job anything."""
    parent = (
        "import subprocess, sys\n"
        "job = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)\n"
        "print(job.pid, file=sys.stderr, flush=True)\n"
        "job.wait()\n"
    )
    command = archive_command(home, new_key(), SUBJECT)
    between = Job([sys.executable, "-c", parent, *command], tmp_path / "store")
    try:
        between.run_to("pack", 8 * MIB)
        assert between.process.stderr is not None
        pid = int(between.process.stderr.readline())
        with watching(pid) as job, watching(_only_child(pid)) as tar:
            between.kill()
            assert has_ended(job)
            assert has_ended(tar)
    finally:
        between.close()
    assert committed(store) is None


def test_tar_knows_nothing_of_the_store(home: Path, store: LocalStore, tmp_path: Path) -> None:
    with archiving(home, tmp_path / "store") as job:
        job.run_to("pack", 8 * MIB)
        environment = Path(f"/proc/{job.tar()}/environ").read_bytes()
    assert b"CODEHUB" not in environment
    assert b"LC_ALL=C" in environment


def test_a_job_without_a_parent_does_nothing(home: Path, store: LocalStore, tmp_path: Path) -> None:
    done = subprocess.run(
        archive_command(home, new_key(), SUBJECT),
        env={**os.environ, "CODEHUB_STORE_URL": f"file://{tmp_path / 'store'}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert committed(store) is None


def _only_child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)
