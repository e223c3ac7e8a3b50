"""Replace a file's content in one step: the old file or the new one, never half of either."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from codehub.errors import CodeHubError, Conflict

if TYPE_CHECKING:
    from os import stat_result


def replace_file(path: Path, before: bytes, after: bytes) -> None:
    """Write `after` if the file still holds `before`; a link's target is written, not the link.

    Mode and owner stay. Where they cannot be kept nothing is written.
    """
    target = path.resolve()
    try:
        kept = target.stat()
        if target.read_bytes() != before:
            raise Conflict(f"{path} was edited meanwhile", hint="run the command again")
        temporary = _write_beside(target, after, kept)
        try:
            temporary.replace(target)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(target.parent)
    except OSError as error:
        raise CodeHubError(f"cannot write {path}: {error.strerror}; it is unchanged") from error


def _write_beside(target: Path, content: bytes, kept: stat_result) -> Path:
    """A complete, synced temporary file in the target's directory, so that a rename suffices."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if (kept.st_uid, kept.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(file.fileno(), kept.st_uid, kept.st_gid)
            os.chmod(file.fileno(), kept.st_mode & 0o7777)  # noqa: PTH101 (by descriptor)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _sync_directory(directory: Path) -> None:
    # Some file systems cannot sync a directory; the rename itself is atomic all the same.
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
