"""Files that survive a power cut whole: the old content or the new, never half of it.

Callers hold the root's lock, so one temporary name per file is enough, and what a crash left under
it is overwritten or removed with the file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from codehub.adapters.durable import sync_directory

if TYPE_CHECKING:
    from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Put `content` at `path`; when this returns, it is on the disk."""
    temporary = temporary_name(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def remove_durably(path: Path) -> None:
    """Remove `path` and what an interrupted write left beside it; absent is fine."""
    temporary_name(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def temporary_name(path: Path) -> Path:
    """Where `path` is written before it takes its name; no listing mistakes it for a record."""
    return path.with_name(f".{path.name}.new")
