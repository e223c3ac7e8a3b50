"""Whether two streams hold the same: each entry as one number of eight bytes.

Kind, place, rights, owner and content count. Times do not: engines cut them. That is little enough
to keep of every entry, and enough to name the first one that differs.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import TYPE_CHECKING

from codehub.errors import ActionFailed
from codehub.jobs.tarentry import HERE
from codehub.jobs.tarheader import HARD_LINK, SYMLINK, readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.jobs.tarentry import Entry


class Marking:
    """Takes entries and their bodies in order; `done` gets each entry's name and number.

    `bytes` and `entries` count what has come so far.
    """

    def __init__(self, done: Callable[[bytes, int], None]) -> None:
        self._done = done
        self._name: bytes | None = None
        self._digest = blake2b()
        self.bytes = 0
        self.entries = 0

    def begin(self, entry: Entry) -> None:
        self.close()
        self._name = entry.name
        self._digest = blake2b(_rights(entry), digest_size=8)
        self.entries += 1

    def body(self, piece: memoryview) -> None:
        self._digest.update(piece)
        self.bytes += len(piece)

    def close(self) -> None:
        """The last one is complete."""
        if self._name is not None:
            name, self._name = self._name, None
            self._done(name, int.from_bytes(self._digest.digest(), "big"))


class Ledger:
    """The numbers of what was sent, to be compared with what has arrived."""

    def __init__(self) -> None:
        self._marks = array("Q")
        self._compared = 0
        self._has_home = False

    def note(self, name: bytes, mark: int) -> None:
        self._has_home = self._has_home or name == HERE
        self._marks.append(mark)

    def compare(self, name: bytes, mark: int) -> None:
        """What comes next must be this. An empty archive says nothing of the home itself."""
        if name == HERE and not self._has_home:
            return
        at, self._compared = self._compared, self._compared + 1
        if at >= len(self._marks) or self._marks[at] != mark:
            raise _differs(f"{readable(name)} differs, or something before it is missing")

    def close(self) -> None:
        """Nothing more has arrived."""
        if missing := len(self._marks) - self._compared:
            raise _differs(f"the last {missing} entries are missing")


def _rights(entry: Entry) -> bytes:
    """What is the same on both sides; a link has the rights of what it is a link to."""
    about: tuple[object, ...] = (entry.kind, entry.name, entry.link, entry.size)
    if entry.kind != HARD_LINK:
        mode = None if entry.kind == SYMLINK else entry.mode
        about += (mode, entry.uid, entry.gid)
    return repr(about).encode()


def _differs(why: str) -> ActionFailed:
    return ActionFailed(
        f"the engine did not unpack the archive as it was sent: {why}",
        hint="the archive is kept; see the engine's log",
    )
