"""Ending with the parent: a job whose coordinator died must not go on beside its successor's.

The parent holds the other end of our standard input and writes nothing there; when it dies, for
whatever reason, the kernel closes it. The job leads a process group, so that one signal ends it
together with its tar.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from threading import Thread


def end_with_parent() -> None:
    """From now on, the end of standard input is the end of this process group."""
    if os.isatty(0):
        return  # started by hand: the terminal's own signals end it
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    os.killpg(os.getpid(), signal.SIGKILL)
