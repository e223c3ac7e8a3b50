"""Tells whether a PostgreSQL server runs on a data directory, by more than a number in a file.

A postmaster.pid outlives a crash; see processes.py for how the server is told from a stranger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.embedded import processes

if TYPE_CHECKING:
    import signal
    from pathlib import Path

PROGRAMS: Final = frozenset({"postgres"})


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What postmaster.pid says: the server's process, its port and where its socket is."""

    pid: int
    port: int
    socket_directory: str


def read_pid_file(data: Path) -> Postmaster | None:
    """The pid file as it stands, true or stale; None where there is none or it is unfinished."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        return Postmaster(int(lines[0]), int(lines[3]), lines[4])
    except (OSError, ValueError, IndexError):
        return None


def running_postmaster(data: Path) -> Postmaster | None:
    """The server that runs on this data directory, None when there is none."""
    noted = read_pid_file(data)
    return noted if noted and serves(noted.pid, data) else None


def serves(pid: int, data: Path) -> bool:
    """Whether this process is a postgres on this data directory."""
    return processes.works_in(pid, data, PROGRAMS)


def leftovers(data: Path) -> list[int]:
    """Processes of a server that are still on this data directory, its orphans included."""
    return processes.found_in(data, PROGRAMS)


def tell(pid: int, data: Path, number: signal.Signals) -> None:
    """Signals the server on this data directory, and surely nobody else."""
    processes.tell(pid, data, PROGRAMS, number)
