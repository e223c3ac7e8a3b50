"""Chromium for tests: the document it makes of an address, and what it complains of meanwhile."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.conftest import require

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 90
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run", "--hide-scrollbars"),
    *("--disable-dev-shm-usage", "--enable-logging=stderr", "--window-size=1500,1200"),
)
LIGHT = "--blink-settings=preferredColorScheme=1"
DARK = "--blink-settings=preferredColorScheme=0"


@dataclass(frozen=True)
class Seen:
    """A document after its scripts ran, and what was written to the console."""

    document: str
    complaints: tuple[str, ...]


@dataclass(frozen=True)
class Chromium:
    """A browser with a profile of its own below `directory`."""

    program: str
    directory: Path

    def look(self, url: str, *words: str) -> Seen:
        done = subprocess.run(
            [
                *(self.program, *FLAGS, f"--user-data-dir={self.directory / 'profile'}"),
                *("--dump-dom", *words, url),
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        lines = done.stderr.splitlines()
        return Seen(done.stdout, tuple(line for line in lines if "CONSOLE" in line))


def open_chromium(directory: Path) -> Chromium:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    require("browser", program is not None, "there is no chromium on the PATH")
    return Chromium(program or "", directory)
