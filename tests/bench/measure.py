"""Measuring whole processes: wall time, CPU time and peak memory, as the kernel counts them."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PATIENCE = 900


@dataclass(frozen=True, slots=True)
class Measured:
    """What one process took."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


def measure(command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None) -> Measured:
    """Run the command to its end; it must succeed."""
    log = cwd / ".measured"
    with log.open("wb") as output:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=cwd, env={**os.environ, **(env or {})}, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{log.read_text()[-2000:]}")
    log.unlink()
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def median(measured: Sequence[Measured]) -> Measured:
    """The run in the middle, by wall time."""
    middle = statistics.median_low(one.seconds for one in measured)
    return next(one for one in measured if one.seconds == middle)


def codehub(*words: str) -> list[str]:
    """A command line for the `codehub` of this environment."""
    return [sys.executable, "-m", "codehub", *words]
