"""Commands that go on until they are ended: run as processes, read with a bound, always ended.

On a pipe they write lines; on a terminal (`terminal=True`) they draw.
"""

from __future__ import annotations

import os
import pty
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.integration.command_line import NEUTRAL, OURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PATIENCE = 90


class LiveCommand:
    """A command that runs; `text` is all that was read of it so far."""

    # Where the text that was last waited for ends.
    _mark = 0

    def __init__(self, process: subprocess.Popen[bytes], output: int, errors: Path) -> None:
        self.text = ""
        self._process = process
        self._errors = errors
        self._pieces: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, args=(output,), daemon=True).start()

    @property
    def err(self) -> str:
        return self._errors.read_text()

    def until(self, wanted: str) -> None:
        """Read until this text has come, after what was waited for before; it must come."""
        deadline = time.monotonic() + PATIENCE
        while wanted not in self.text[self._mark :]:
            left = deadline - time.monotonic()
            came = left > 0 and self._next(left)
            assert came, f"{wanted!r} never came: {self.text[-2000:]!r} {self.err!r}"
        self._mark = self.text.index(wanted, self._mark) + len(wanted)

    def interrupt(self) -> int:
        """Ctrl-C, and the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        """The exit code once it ended by itself; the rest of its output is read."""
        code = self._process.wait(timeout=PATIENCE)
        while self._next(PATIENCE):
            pass
        return code

    def _next(self, seconds: float) -> bool:
        try:
            piece = self._pieces.get(timeout=seconds)
        except queue.Empty:
            return False
        self.text += piece.decode()
        return bool(piece)

    def _read(self, output: int) -> None:
        """A terminal whose last writer has gone reads as an error; a pipe as empty."""
        piece = b"-"
        while piece:
            try:
                piece = os.read(output, 65536)
            except OSError:
                piece = b""
            self._pieces.put(piece)
        os.close(output)


@contextmanager
def live(
    *words: str, cwd: Path, env: Mapping[str, str], terminal: bool = False
) -> Iterator[LiveCommand]:
    """Start it, and end it whatever happens; what `env` leaves empty is not set at all."""
    plain = {name: value for name, value in os.environ.items() if name not in OURS}
    given = {name: value for name, value in {**plain, **NEUTRAL, **env}.items() if value}
    errors = cwd / f"errors-{time.monotonic_ns()}.txt"
    output, inside = pty.openpty() if terminal else os.pipe()
    with errors.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "codehub", *words],
            cwd=cwd,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=inside,
            stderr=err,
        )
    os.close(inside)
    try:
        yield LiveCommand(process, output, errors)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=PATIENCE)
