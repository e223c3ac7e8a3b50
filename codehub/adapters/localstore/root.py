"""The directory of a local store, and the proof that it is one.

A missing mount leaves an empty directory behind: without the marker file, "no such object" would
be the answer for every archive there is. So nothing is judged absent unless the marker is there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codehub.adapters.durable import sync_directory
from codehub.adapters.localstore.faults import translated
from codehub.core.keys import require_key
from codehub.errors import NameConflict, Unreachable

if TYPE_CHECKING:
    from pathlib import Path

MARKER: Final = ".codehub-store"
_TEXT: Final = b"This directory holds CodeHub archives. Do not remove this file.\n"
_OURS_ALONE: Final = 0o700


class Root:
    """Where keys become paths. Directories and files are for the hub's user alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self) -> None:
        """Make it a store; done before is fine, a directory with other things in it is not."""
        with translated("claiming the directory"):
            self.path.mkdir(mode=_OURS_ALONE, parents=True, exist_ok=True)
            if (self.path / MARKER).exists():
                return
            if any(self.path.iterdir()):
                raise NameConflict(
                    f"{self.path} is not empty and not an archive store",
                    hint="choose an empty directory for the archives",
                )
            self._write_marker()

    def require(self) -> None:
        """Raise `Unreachable` unless the store is really there: who cannot look knows nothing."""
        try:
            (self.path / MARKER).lstat()
        except (FileNotFoundError, NotADirectoryError):
            raise Unreachable(
                f"{self.path} is no archive store: its marker {MARKER} is missing",
                hint="mount it, or correct the address of the store",
            ) from None
        except OSError as error:
            raise Unreachable(
                f"the archive store {self.path} cannot be looked at: {error.strerror}",
                hint="give the hub's user access to it",
            ) from error

    def locate(self, key: str) -> Path:
        return self.path / require_key(key)

    def make_parent(self, path: Path) -> None:
        """Level by level: `Path.mkdir` takes a directory pruned in between for a foreign file."""
        folders = [folder for folder in path.parents if folder.is_relative_to(self.path)]
        for folder in reversed(folders[:-1]):
            with suppress(FileExistsError):
                folder.mkdir(mode=_OURS_ALONE)

    def sync_parents(self, path: Path) -> None:
        """Make the names on the way to `path` durable."""
        for folder in path.parents:
            sync_directory(folder)
            if folder == self.path:
                return

    def prune(self, path: Path) -> None:
        """Remove the directories above `path` that are now empty.

        rmdir takes none that a writer has put its temporary file into; a writer whose directory
        went before that makes it again.
        """
        for folder in path.parents:
            if folder == self.path:
                return
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return

    def _write_marker(self) -> None:
        with suppress(FileExistsError):
            descriptor = os.open(self.path / MARKER, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(descriptor, _TEXT)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_directory(self.path)
