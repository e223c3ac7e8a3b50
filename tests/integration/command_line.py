"""Running `codehub` as a person would: the words in, the exit code and both outputs back."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PATIENCE = 110
NEUTRAL = {"NO_COLOR": "1", "COLUMNS": "100", "PYTHONWARNINGS": "error"}
OURS = (
    *("DATABASE_URL", "CODEHUB_DATA", "CODEHUB_SERVER", "CODEHUB_TOKEN"),
    *("RUNTIME_ENABLED", "TTL_STANDBY_SECONDS"),
)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


def run_codehub(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None, stdin: str | None = None
) -> Ran:
    """One command to its end, in its own process, with none of this process's settings."""
    plain = {name: value for name, value in os.environ.items() if name not in OURS}
    done = subprocess.run(
        [sys.executable, "-m", "codehub", *words],
        cwd=cwd,
        env={**plain, **NEUTRAL, **(env or {})},
        input=stdin or "",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
