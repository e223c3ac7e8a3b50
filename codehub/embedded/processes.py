"""Tells whether a process is a certain program at work in a certain directory, and signals it.

A pid file outlives a crash, and its number may belong to anybody afterwards. A process is taken
for a server only if it runs one of the server's programs and its working directory is the server's
data directory.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

PROC = Path("/proc")


def works_in(pid: int, directory: Path, programs: Collection[str]) -> bool:
    """Whether this process is one of these programs, working in this directory."""
    if PROC.is_dir():
        return _works_by_proc(pid, directory, programs)
    return _works_by_ps(pid, directory, programs)


def _works_by_proc(pid: int, directory: Path, programs: Collection[str]) -> bool:
    entry = PROC / str(pid)
    try:
        program = (entry / "exe").readlink().name
        place = (entry / "cwd").readlink()
    except OSError:
        return False
    # A program that was replaced by an upgrade while running is shown as "postgres (deleted)".
    return program.split(" ")[0] in programs and place == directory.resolve()


def _works_by_ps(pid: int, directory: Path, programs: Collection[str]) -> bool:
    told = subprocess.run(
        ["ps", "-p", str(pid), "-o", "command="],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    named = any(program in told.stdout for program in programs)
    return named and str(directory) in told.stdout


def found_in(directory: Path, programs: Collection[str]) -> list[int]:
    """All processes of these programs that work in this directory, as far as one can see them."""
    if not PROC.is_dir():
        return []
    numbers = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return [pid for pid in numbers if _works_by_proc(pid, directory, programs)]


def is_alive(pid: int) -> bool:
    """Whether there is a process of this number, whoever it belongs to."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def tell(pid: int, directory: Path, programs: Collection[str], number: signal.Signals) -> None:
    """Signals the program at work in this directory, and surely nobody else.

    The handle is opened before looking, so that a number that changes hands in between goes to
    the process that is gone, and not to the new one.
    """
    if not hasattr(os, "pidfd_open"):
        if works_in(pid, directory, programs):
            os.kill(pid, number)
        return
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if works_in(pid, directory, programs):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)
