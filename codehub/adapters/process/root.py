"""The data root: a directory that says whose it is, and the lock under which records change.

    codehub-root.json   whose root this is; written by `claim`, checked before every use
    lock                held for the moment in which a record changes, never while waiting
    records/            {workspace}.json: what was started
    labels/             {volume}.json: the homes that are ours
    volumes/            {volume}/: the homes, and a marker of its own as above
    logs/               {workspace}.log

A disk that is not mounted leaves an empty directory behind. Without the marker that would look
like a hub whose homes are all gone; with it, it is Unreachable. The homes may be on a disk of their
own, so their directory is marked too.
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

    def claim(self, *, expects_data: bool = False) -> None:
        """Make a new or empty root ours. Ours already is fine; anything else stays untouched.

        `expects_data`: homes are known to be here, so an empty place is not ours but unmounted.
        """
        if not expects_data:
            self._make()
        self._require_ours(self.path)
        self._mark_volumes(expects_data=expects_data)
        self.check()

    def check(self) -> None:
        """Raise Unreachable unless this is the root of our hub, with our homes."""
        self._require_ours(self.path)
        self._require_ours(self.volumes)

    def _require_ours(self, place: Path) -> None:
        try:
            owner = json.loads((place / MARKER).read_bytes())["hub"]
        except FileNotFoundError:
            raise Unreachable(
                f"{place} is not this hub's {self._called(place)}: it carries no marker",
                hint="is its disk mounted? If its homes were removed by hand, say so: "
                f"cd {self.path} && mkdir -p {' '.join(DIRECTORIES)} && touch {LOCK}"
                f" && echo '{json.dumps({'hub': self.hub_id})}' | tee {MARKER}"
                f" > {self.volumes.name}/{MARKER}",
            ) from None
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise Unreachable(f"the marker of {place} cannot be read: {error}") from error
        if owner != self.hub_id:
            raise Unreachable(
                f"{place} belongs to another hub", hint="check the hub's data directory"
            )

    def _called(self, place: Path) -> str:
        return "data root" if place == self.path else "directory of homes"

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

    def _make(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (self.path / MARKER).exists():
            return
        self._require_empty()
        for name in DIRECTORIES:
            (self.path / name).mkdir(mode=0o700, exist_ok=True)
        (self.path / LOCK).touch(mode=0o600)
        with self._flock():
            # Of two hubs that claim one root, one is refused.
            self._mark(self.path)
            sync_directory(self.path.parent)

    def _mark_volumes(self, *, expects_data: bool) -> None:
        """Of a new root, or of one that has homes and was made before they had a marker.

        Not where homes are known and none is there: that is a disk that is away. Nor is the
        directory made again that a root of ours lacks.
        """
        if (self.volumes / MARKER).exists() or not self.volumes.is_dir():
            return
        if not expects_data or self._holds_homes():
            with self._flock():
                self._mark(self.volumes)

    def _holds_homes(self) -> bool:
        labelled = (path.stem for path in self.labels.iterdir() if path.suffix == ".json")
        return any((self.volumes / name).is_dir() for name in labelled)

    def _mark(self, place: Path) -> None:
        if not (place / MARKER).exists():
            write_durably(place / MARKER, json.dumps({"hub": self.hub_id}).encode())
