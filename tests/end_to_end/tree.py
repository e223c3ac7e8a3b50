"""All processes that belong to one data directory: found in /proc, and killed by their pids."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 60
PROC = Path("/proc")
MARKER = b"CODEHUB_PROCESS="


@dataclass(frozen=True)
class Found:
    """A living process. `mark` names the workspace and the start that it belongs to."""

    pid: int
    parent: int
    command: str
    mark: str | None

    @property
    def is_workspace(self) -> bool:
        return self.mark is not None

    @property
    def is_job(self) -> bool:
        return "codehub.jobs" in self.command or "/codehub/jobs/" in self.command


def anything(found: Found) -> bool:
    return True


def processes_of(data: Path, which: Callable[[Found], bool] = anything) -> list[Found]:
    """Those that name the directory in their command line or environment, or work in it."""
    pids = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    seen = (_look(pid, os.fsencode(data)) for pid in pids if pid != os.getpid())
    return [each for each in seen if each and which(each)]


def first_of(found: list[Found], words: str) -> list[int]:
    """The pids of those with these words in their command, less what they forked themselves.

    A child shows its parent's command line until it has one of its own.
    """
    named = {each.pid: each for each in found if words in each.command}
    return [each.pid for each in named.values() if each.parent not in named]


def kill_all(data: Path, which: Callable[[Found], bool] = anything) -> int:
    """SIGKILL for each of them, until there is none left; how many there were."""
    ends, killed = time.monotonic() + PATIENCE, 0
    while found := processes_of(data, which):
        assert time.monotonic() < ends, f"these do not die: {found}"
        killed += sum(_kill(each.pid, data) for each in found)
        time.sleep(0.01)
    return killed


def _kill(pid: int, data: Path) -> bool:
    """Through a handle, looked at once more: the number may have changed hands meanwhile."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if _look(pid, os.fsencode(data)):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


def _look(pid: int, data: bytes) -> Found | None:
    """The process, if it belongs to `data`. One that is dead and not yet reaped shows nothing."""
    try:
        command = (PROC / str(pid) / "cmdline").read_bytes()
        environ = (PROC / str(pid) / "environ").read_bytes()
        place = os.fsencode((PROC / str(pid) / "cwd").readlink())
        stat = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    if not any(data in each for each in (command, environ, place)):
        return None
    marks = [each for each in environ.split(b"\0") if each.startswith(MARKER)]
    mark = marks[0].removeprefix(MARKER).decode() if marks else None
    # The name in front, in brackets, may hold anything; state and parent follow it.
    parent = int(stat.rpartition(")")[2].split()[1])
    return Found(pid, parent, command.replace(b"\0", b" ").decode(errors="replace").strip(), mark)
