"""What is common in finding a server's programs: their version, and where a wheel was installed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codehub.embedded.account import Account


def version_of(program: Path, account: Account | None = None) -> str | None:
    """What `--version` says when this account runs the program, None if it cannot."""
    try:
        told = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd="/",
            **(account.popen_arguments() if account else {}),
        )
    except OSError:
        return None
    number = re.search(r"\b(\d+(\.\d+)*)", told.stdout)
    return number.group(1) if told.returncode == 0 and number else None


def package_directory(name: str) -> Path | None:
    """Where a package is installed; it is not imported, since that has effects."""
    spec = importlib.util.find_spec(name)
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None
