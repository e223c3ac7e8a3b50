"""The data root: a directory that says whose it is, and the lock under which records change.

    codehub-root.json   whose root this is; written last by `claim`, checked before every use
    lock                held for the moment in which a record changes, never while waiting
    records/            {workspace}.json: what was started
    labels/             {volume}.json: the homes that are ours
    volumes/            {volume}/: the homes
    logs/               {workspace}.log

A disk that is not mounted leaves an empty directory behind. Without the marker that would look
like a hub whose homes are all gone; with it, it is Unreachable.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from codehub.adapters.durable import sync_directory
from codehub.adapters.process.durable import temporary_name, write_durably
from codehub.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARKER: Final = "codehub-root.json"
LOCK: Final = "lock"
DIRECTORIES: Final = ("records", "labels", "volumes", "logs")
LOCK_SECONDS: Final = 20.0
"""The lock is held for milliseconds. Whoever keeps it longer is stopped or on a dead disk."""


class DataRoot:
    """Paths below the root, its identity and its lock."""

    def __init__(self, path: Path, hub_id: str) -> None:
        if not hub_id or set(hub_id) & {"/", "\0", "\n"}:
            raise ValueError("a hub id is one line without a slash")
        self.path = path.absolute()
        self.hub_id = hub_id
        self.records, self.labels, self.volumes, self.logs = (
            self.path / name for name in DIRECTORIES
        )

    def claim(self) -> None:
        """Make a new or empty root ours. Ours already is fine; anything else stays untouched."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.path / MARKER).exists():
            self._require_empty()
            for name in DIRECTORIES:
                (self.path / name).mkdir(mode=0o700, exist_ok=True)
            (self.path / LOCK).touch(mode=0o600)
            with self._flock():
                self._mark()
        self.check()

    def check(self) -> None:
        """Raise Unreachable unless this is the root of our hub."""
        try:
            owner = json.loads((self.path / MARKER).read_bytes())["hub"]
        except FileNotFoundError:
            raise Unreachable(
                f"{self.path} is not this hub's data root: it carries no marker",
                hint="is its disk mounted?",
            ) from None
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise Unreachable(f"the marker of {self.path} cannot be read: {error}") from error
        if owner != self.hub_id:
            raise Unreachable(
                f"{self.path} belongs to another hub", hint="check the hub's data directory"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock: inside, no other process of this hub changes a record."""
        self.check()
        with self._flock():
            self.check()
            yield

    @contextmanager
    def _flock(self) -> Iterator[None]:
        descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._acquire(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _acquire(self, descriptor: int) -> None:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unreachable(
                        f"another process holds the lock of {self.path}",
                        hint="look for a stopped or hanging codehub process",
                    ) from None
                time.sleep(0.005)

    def _require_empty(self) -> None:
        """A claim that was interrupted left only our own empty directories."""
        ours = {*DIRECTORIES, LOCK, temporary_name(self.path / MARKER).name, "lost+found"}
        for entry in self.path.iterdir():
            empty = not (entry.is_dir() and entry.name in DIRECTORIES and any(entry.iterdir()))
            if entry.name not in ours or not empty:
                raise Unreachable(
                    f"{self.path} is not empty and carries no hub's marker, so it was left alone",
                    hint="give the hub a directory of its own",
                )

    def _mark(self) -> None:
        """Written last and under the lock: of two hubs that claim one root, one is refused."""
        if (self.path / MARKER).exists():
            return
        write_durably(self.path / MARKER, json.dumps({"hub": self.hub_id}).encode())
        sync_directory(self.path.parent)
