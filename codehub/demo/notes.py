"""The one file that the demo keeps: `notes.txt` in the home.

Its path is fixed and links are not followed, so no request can reach another file.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

from codehub.demo.messages import MAX_BODY

NAME: Final = "notes.txt"


class Changed(Exception):
    """The notes are no longer those that were edited; nothing was written."""


class Notes:
    """Text with a version: whoever saves says which version they have seen."""

    def __init__(self, home: Path) -> None:
        self._path = home / NAME

    def read(self) -> bytes:
        """The text; empty when there is none yet."""
        # Not blocking: a person may have put a pipe in its place.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self._path, flags)
        except FileNotFoundError:
            return b""
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(f"{NAME} is not a plain file")
            return file.read(MAX_BODY)

    def write(self, text: bytes, *, seen: str | None) -> str:
        """Save whole or not at all; returns the new version. `seen` None overwrites any."""
        if seen is not None and seen != version(self.read()):
            raise Changed
        draft = self._path.with_name(f".{NAME}.new")
        draft.unlink(missing_ok=True)
        with draft.open("xb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)
        return version(text)


def version(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]
