"""Processes of a benchmark: started on cores of their own, told apart, and ended by their id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PATIENCE = 60
_PIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Cores:
    """Which core is whose, as far as there are enough."""

    proxy: int
    upstream: int
    load: int

    def __str__(self) -> str:
        if self.proxy == self.upstream == self.load:
            return f"everything on core {self.load}"
        if self.upstream == self.load:
            return f"proxy on core {self.proxy}; upstream and load share core {self.load}"
        return f"proxy on core {self.proxy}, upstream on {self.upstream}, load on {self.load}"


def assign_cores() -> Cores:
    """The proxy's core is its own if there are two at all."""
    free = sorted(os.sched_getaffinity(0))
    return Cores(free[0], free[-2] if len(free) > 2 else free[-1], free[-1])


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def pinned(core: int) -> list[str]:
    """What to put before a command so that it runs on this core."""
    return [sys.executable, "-c", _PIN, str(core)]


@contextmanager
def running(
    command: Sequence[str], port: int, core: int, log: Path, env: Mapping[str, str] | None = None
) -> Iterator[int]:
    """A server process until the block ends; its id, once its port answers."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*pinned(core), *command],
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _until_answers(process, port, log)
        yield process.pid
    finally:
        # Its whole group: some have workers. The group was made above, so it is ours.
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=PATIENCE)


def _until_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{log.stem} does not answer on port {port}:\n{log.read_text()[-2000:]}")


def resident_mib(pid: int) -> float:
    """Memory that a process holds now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_seconds(group: int) -> float:
    """Processor time that a process and its workers have used so far."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
