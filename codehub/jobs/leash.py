"""Runs a program that dies with the process that started it. Run by path, not imported.

The kernel is asked for the signal in the child itself, before it becomes the program: doing that
between fork and exec of a process with threads would not be safe.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    # Where it is not Linux, the program ends with its pipe.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execv(command[0], [Path(command[0]).name, *command[1:]])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
