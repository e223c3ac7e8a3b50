"""A command that goes on until it is stopped: its lines as they come, and its end."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from tests.integration.command_line import NEUTRAL, OURS, PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class Following:
    """One such command. Every wait has an end; `line` is None when its output has ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str | None] = queue.Queue()
        Thread(target=self._read, daemon=True).start()

    def line(self) -> str | None:
        return self._lines.get(timeout=PATIENCE)

    def line_with(self, words: str) -> str:
        """The next line that holds these words."""
        while (line := self.line()) is not None:
            if words in line:
                return line
        raise AssertionError(f"it ended without {words!r}: {self.errors()}")

    def interrupt(self) -> int:
        """Ctrl-C, and the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE)

    def errors(self) -> str:
        self.process.wait(timeout=PATIENCE)
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)


@contextmanager
def follow_codehub(*words: str, cwd: Path, env: Mapping[str, str]) -> Iterator[Following]:
    """Run a command beside the test; it is killed at the end if it still runs."""
    plain = {name: value for name, value in os.environ.items() if name not in OURS}
    process = subprocess.Popen(
        [sys.executable, "-m", "codehub", *words],
        cwd=cwd,
        env={**plain, **NEUTRAL, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Following(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=PATIENCE)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
