"""Tells whether a PostgreSQL server runs on a data directory, by more than a number in a file.

A postmaster.pid outlives a crash, and its number may belong to anybody afterwards. A process is
taken for the server only if it is a postgres whose working directory is the data directory.
"""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


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
    if PROC.is_dir():
        return _serves_by_proc(pid, data)
    return _serves_by_ps(pid, data)


def _serves_by_proc(pid: int, data: Path) -> bool:
    entry = PROC / str(pid)
    try:
        program = Path((entry / "exe").readlink()).name
        place = (entry / "cwd").readlink()
    except OSError:
        return False
    # A program that was replaced by an upgrade while running is shown as "postgres (deleted)".
    return program.split(" ")[0] == "postgres" and place == data.resolve()


def _serves_by_ps(pid: int, data: Path) -> bool:
    told = subprocess.run(
        ["ps", "-p", str(pid), "-o", "command="],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return "postgres" in told.stdout and str(data) in told.stdout


def leftovers(data: Path) -> list[int]:
    """Processes of a server that are still on this data directory, its orphans included."""
    if not PROC.is_dir():
        return []
    numbers = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return [pid for pid in numbers if _serves_by_proc(pid, data)]


def is_alive(pid: int) -> bool:
    """Whether there is a process of this number, whoever it belongs to."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def tell(pid: int, data: Path, number: signal.Signals) -> None:
    """Signals the server on this data directory, and surely nobody else.

    The handle is opened before looking, so that a number that changes hands in between goes to
    the process that is gone, and not to the new one.
    """
    if not hasattr(os, "pidfd_open"):
        if serves(pid, data):
            os.kill(pid, number)
        return
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if serves(pid, data):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)
