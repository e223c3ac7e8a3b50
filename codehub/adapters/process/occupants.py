"""Who uses a home without being a process of its workspace: the last look before a home goes.

A process that cleared its environment, began a session of its own and outlived its leader is known
to nobody and may still write; so may a person in a shell. They are told by the home as their
working directory, or by a file in it that they have open for writing. They are named and never
ended, since they may be anybody's. One who only reads is let be: a backup loses nothing here.
Of another user's processes nothing can be seen, unless the hub is root.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codehub.adapters.process.find import Process

_PROC: Final = Path("/proc")
_GONE: Final = " (deleted)"
"""Follows the name of a file that was removed: what is written to it, no archive would hold."""


@dataclass(frozen=True, slots=True)
class Occupant:
    """A process by what people find it by. Its arguments may be secret, its name is not."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def occupants(home: Path, processes: Iterable[Process]) -> Iterator[Occupant]:
    """Those of these processes that are in the home or write to it."""
    place = os.path.realpath(home)
    for each in processes:
        try:
            if each.alive and _occupies(_PROC / str(each.pid), place):
                yield Occupant(each.pid, _name(each.pid))
        except OSError:
            continue  # Gone meanwhile, or another user's.


def _occupies(process: Path, place: str) -> bool:
    if _is_below(process / "cwd", place):
        return True
    for handle in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # Closed meanwhile; others may be open still.
            if _is_below(handle, place) and _writes(process, handle.name):
                return True
    return False


def _is_below(link: Path, place: str) -> bool:
    name = str(link.readlink())
    return (name == place or name.startswith(f"{place}/")) and not name.endswith(_GONE)


def _writes(process: Path, handle: str) -> bool:
    lines = (process / "fdinfo" / handle).read_text().splitlines()
    flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _name(pid: int) -> str:
    return (_PROC / str(pid) / "comm").read_text().strip()
