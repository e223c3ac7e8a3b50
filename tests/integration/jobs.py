"""Storage jobs for tests: as processes whose every step can be halted, and inside the test."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.adapters.localstore import LocalStore
from codehub.core.keys import build_key, operation_prefix
from codehub.jobs.archive import archive
from codehub.jobs.arguments import archive_command, restore_command
from codehub.jobs.committed import find_committed
from codehub.jobs.progress import Progress
from codehub.jobs.restore import Limits, restore
from codehub.model.archive import ArchiveKey, ArchiveMeta, ArchiveSubject

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codehub.jobs.access import Home
    from codehub.ports import ObjectStore

PATIENCE = 60
HUB, WORKSPACE, OPERATION = UUID(int=1), UUID(int=2), UUID(int=3)
PREFIX = operation_prefix(HUB, WORKSPACE, OPERATION)
SUBJECT = ArchiveSubject("payments-api", "alice", 4, datetime(2026, 11, 1, 12, tzinfo=UTC))
NO_LIMITS = Limits()
_attempts = count(1)

Event = dict[str, Any]


def new_key() -> ArchiveKey:
    """Another attempt of the one operation."""
    return ArchiveKey(HUB, WORKSPACE, OPERATION, str(next(_attempts)))


def new_store(root: Path) -> LocalStore:
    store = LocalStore(root)
    store.claim()
    return store


def quiet() -> Progress:
    return Progress(lambda event: None, time.monotonic)


def archive_here(store: ObjectStore, home: Home) -> ArchiveMeta:
    """Archive inside the test, for stores that a process cannot have."""
    return archive(store, home, new_key(), SUBJECT, quiet())


def restore_here(store: ObjectStore, volume: Home, key: str) -> ArchiveMeta:
    return restore(store, volume, key, quiet(), NO_LIMITS)


def committed(store: ObjectStore) -> ArchiveMeta | None:
    return find_committed(store, PREFIX)


class Job:
    """A job's process. It can be at most two events ahead of what the test has read.

    Its output is a pipe that holds one line: the job waits at the next until this one was read.
    """

    def __init__(self, command: Sequence[str], store: Path) -> None:
        self._read, write = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
        _hold_one_line(write)
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "CODEHUB_STORE_URL": f"file://{store}", "TMPDIR": "/nonexistent"},
            stdin=subprocess.PIPE,
            stdout=write,
            stderr=subprocess.PIPE,
        )
        os.close(write)
        self.events: list[Event] = []

    def next(self) -> Event | None:
        """The next event; None when there are no more."""
        ready, _, _ = select.select([self._read], [], [], PATIENCE)
        assert ready, "the job says nothing"
        line = os.read(self._read, 8192)
        if not line:
            return None
        self.events.append(json.loads(line))
        return self.events[-1]

    def run_to(self, stage: str, done: int = 0) -> None:
        """Let it go on until it says that it is in this stage, so many bytes far."""
        while event := self.next():
            if event.get("stage") == stage and event["bytes"] >= done:
                return
        raise AssertionError(f"the job ended before {stage}: {self.events[-1:]}")

    def run(self) -> Event:
        """Let it come to its end; its last word."""
        while self.next():
            pass
        self.process.wait(PATIENCE)
        assert self.events, self.complaints()
        return self.events[-1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def complaints(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def tar(self) -> int:
        """The pid of its tar."""
        pid = self.process.pid
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stderr):
            assert pipe is not None
            pipe.close()
        os.close(self._read)


@contextmanager
def archiving(home: Home, store: Path, key: ArchiveKey | None = None) -> Iterator[Job]:
    job = Job(archive_command(home, key or new_key(), SUBJECT), store)
    try:
        yield job
    finally:
        job.close()


@contextmanager
def restoring(
    volume: Home, store: Path, key: str | ArchiveKey, limits: Limits = NO_LIMITS
) -> Iterator[Job]:
    name = key if isinstance(key, str) else build_key(key)
    job = Job(restore_command(volume, name, limits), store)
    try:
        yield job
    finally:
        job.close()


@contextmanager
def watching(pid: int) -> Iterator[int]:
    """A descriptor that becomes readable when the process has ended, as it has afterwards."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)


def has_ended(descriptor: int) -> bool:
    """Whether the watched process ends within our patience."""
    ready, _, _ = select.select([descriptor], [], [], PATIENCE / 2)
    return bool(ready)


def _hold_one_line(pipe: int) -> None:
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, os.sysconf("SC_PAGE_SIZE"))
