"""Who uses an embedded server: several commands at once may, and the last one to leave stops it.

    DIRECTORY/lock       held shared (flock) by every process that uses the server
    DIRECTORY/lock.turn  held by the one that is starting or stopping it

The system drops the locks of a process that dies, so a crash leaves nothing to clean up.
"""

from __future__ import annotations

import fcntl
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from codehub.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Lease:
    """One process's part in using a directory. `take` and `give_back` belong into a `turn`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file: IO[str] | None = None

    @property
    def held(self) -> bool:
        return self._file is not None

    @contextmanager
    def turn(self, patience: float) -> Iterator[None]:
        """A block that one process at a time is in."""
        with (self.directory / "lock.turn").open("a") as file:
            deadline = time.monotonic() + patience
            while not _flock(file, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise Conflict(
                        f"another codehub has been starting or stopping {self.directory} for long",
                        hint="wait for it, or stop it and try again",
                    )
                time.sleep(0.02)
            yield

    def take(self) -> None:
        self._file = (self.directory / "lock").open("a")
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def is_last(self) -> bool:
        """Whether nobody else has a part in it."""
        return self._file is not None and _flock(self._file, fcntl.LOCK_EX)

    def give_back(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None


def _flock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
