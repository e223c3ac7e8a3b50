"""What the terminal answers: a handful of harmless words, and an echo of everything else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta
    from pathlib import Path

_MOST: Final = 200
HELP: Final = """\
help    this list
ls      the files in this home
date    the time here
uptime  how long this workspace has been awake
pid     the process that answers you
Everything else comes back as you typed it."""


def reply(line: str, *, home: Path, now: datetime, started_at: datetime) -> str:
    """The answer to one line."""
    words: dict[str, Callable[[], str]] = {
        "": str,
        "help": lambda: HELP,
        "ls": lambda: _list(home),
        "date": lambda: now.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "uptime": lambda: f"awake for {duration(now - started_at)}",
        "pid": lambda: str(os.getpid()),
    }
    known = words.get(line.strip())
    return known() if known else line


def duration(span: timedelta) -> str:
    """`42s`, `3m 5s`, `2h 10m`, `4d 3h`."""
    left, parts = int(span.total_seconds()), list[str]()
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, left = divmod(left, size)
        if count or parts or unit == "s":
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def _list(home: Path) -> str:
    try:
        names = sorted(path.name + ("/" if path.is_dir() else "") for path in home.iterdir())
    except OSError as error:
        return f"the home cannot be read: {error.strerror}"
    shown = "\n".join(name for name in names[:_MOST] if name.isprintable())
    return shown or "(nothing yet)"
