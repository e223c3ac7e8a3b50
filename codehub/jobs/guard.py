"""The rules for members of an archive, so that unpacking one can never leave its volume.

Our archives list every directory before what is in it and names in strict order. Asking for just
that proves the rest with no memory of what came before: no name comes twice, so nothing made
earlier is replaced; and every directory on the way to a member is one that the archive itself
made, so nothing is written through a link. The same rules watch over archiving: what could not
be restored is refused while the volume is still there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from codehub.jobs.tarheader import DEVICES, DIRECTORY, HARD_LINK, SYMLINK, readable, refusal

if TYPE_CHECKING:
    from codehub.errors import ArchiveCorrupted
    from codehub.jobs.tarheader import Member

LONGEST_NAME: Final = 4095
_RUN: Final = 65536

Path = tuple[bytes, ...]


class Guard:
    """Judges members in their order; `entries` counts those admitted, `left_out` the devices."""

    def __init__(self, *, leave_out_devices: bool, most_entries: int | None = None) -> None:
        self._leave_out_devices = leave_out_devices
        self._most_entries = most_entries
        self._last: Path | None = None
        self._open: Path = ()
        self._links = Footprints()
        self._missing = Footprints()
        self.entries = 0
        self.left_out = 0

    def admit(self, member: Member) -> bool:
        """Whether it passes; `ArchiveCorrupted` when nothing of the archive may."""
        path = _parts(member.name, directory=member.kind == DIRECTORY)
        self._require_place(path, member)
        if member.kind in DEVICES:
            return self._leave_out(path)
        if member.kind == HARD_LINK and not self._admit_hard_link(path, member):
            return self._leave_out(path)
        if member.kind == SYMLINK:
            self._require_target(member)
            self._links.add(path)
        self._count()
        return True

    def _require_place(self, path: Path, member: Member) -> None:
        """After all before it in the order of paths, in a directory that the archive has made."""
        if self._last is not None and path <= self._last:
            raise _refused(member, "comes out of order or twice")
        parent = path[:-1]
        if self._open[: len(parent)] != parent:
            raise _refused(member, "is not below a directory of the archive")
        if not path and member.kind != DIRECTORY:
            raise _refused(member, "takes the place of the home itself")
        self._last = path
        self._open = path if member.kind == DIRECTORY else parent

    def _leave_out(self, path: Path) -> bool:
        if not self._leave_out_devices:
            raise refusal("it holds a device")
        self._missing.add(path)
        self.left_out += 1
        return False

    def _admit_hard_link(self, path: Path, member: Member) -> bool:
        """To an earlier member, on a way without symlinks; False when that one was left out."""
        target = _parts(member.link, directory=False)
        if not target or target >= path:
            raise _refused(member, "is a link to something that is not in the archive before it")
        if any(target[:length] in self._links for length in range(1, len(target))):
            raise _refused(member, "is a link through another link")
        if target in self._links:
            self._links.add(path)
        return target not in self._missing

    def _require_target(self, member: Member) -> None:
        if not member.link or b"\0" in member.link or len(member.link) > LONGEST_NAME:
            raise _refused(member, "is a link to nothing that can be named")

    def _count(self) -> None:
        self.entries += 1
        if self._most_entries is not None and self.entries > self._most_entries:
            raise refusal("it holds more entries than its commit marker says")


class Footprints:
    """A set of paths that takes eight bytes for each, so that memory stays flat.

    Paths are kept as hashes: two that share one would make a good archive look bad, never a bad
    one good.
    """

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._runs: list[array[int]] = []

    def add(self, path: Path) -> None:
        self._recent.add(hash(path))
        if len(self._recent) >= _RUN:
            self._runs.append(array("q", sorted(self._recent)))
            self._recent = set()

    def __contains__(self, path: Path) -> bool:
        mark = hash(path)
        return mark in self._recent or any(_holds(run, mark) for run in self._runs)


def _holds(run: array[int], mark: int) -> bool:
    at = bisect_left(run, mark)
    return at < len(run) and run[at] == mark


def _parts(name: bytes, *, directory: bool) -> Path:
    """The steps from the home down to a name; the home itself has none."""
    if not name or b"\0" in name or len(name) > LONGEST_NAME:
        raise refusal(f"a name is empty or longer than {LONGEST_NAME} bytes: {readable(name)}")
    below = name.removesuffix(b"/") if directory else name
    if below == b".":
        return ()
    path = tuple(below.removeprefix(b"./").split(b"/"))
    if b"" in path or b"." in path or b".." in path:
        raise refusal(f"a name leads out of the home: {readable(name)}")
    return path


def _refused(member: Member, why: str) -> ArchiveCorrupted:
    return refusal(f"{readable(member.name)} {why}")
