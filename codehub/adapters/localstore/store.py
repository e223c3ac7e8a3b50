"""The object store on a disk; see `codehub.ports.ObjectStore` for what each call promises."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from codehub.adapters.durable import sync_directory
from codehub.adapters.localstore.faults import translated
from codehub.adapters.localstore.listing import walk_objects, walk_partials
from codehub.adapters.localstore.root import Root
from codehub.adapters.localstore.writer import LocalWriter
from codehub.core.keys import require_prefix
from codehub.errors import ActionFailed
from codehub.model.runtime import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType


class LocalReader:
    """One object being read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def read(self, size: int) -> bytes:
        if self._descriptor is None:
            raise ActionFailed("this object is no longer open")
        with translated("reading"):
            return os.read(self._descriptor, size)

    def __enter__(self) -> LocalReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class LocalStore:
    """Objects as files below `root`, which must have been claimed once."""

    def __init__(self, root: Path) -> None:
        self._root = Root(root)

    def claim(self) -> None:
        """Make the directory a store; the one call that may create it."""
        self._root.claim()

    def head(self, key: str) -> ObjectInfo | None:
        path = self._root.locate(key)
        self._root.require()
        with translated("looking at an object"):
            try:
                state = path.lstat()
            except (FileNotFoundError, NotADirectoryError):
                self._root.require()
                return None
        return _info(key, state) if stat.S_ISREG(state.st_mode) else None

    def open_writer(self, key: str) -> LocalWriter:
        path = self._root.locate(key)
        self._root.require()
        return LocalWriter(self._root, path)

    def open_reader(self, key: str) -> LocalReader | None:
        path = self._root.locate(key)
        self._root.require()
        with translated("opening an object"):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except (FileNotFoundError, NotADirectoryError):
                self._root.require()
                return None
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return LocalReader(descriptor)
        os.close(descriptor)
        raise ActionFailed(f"{key} is not an object of the archive store but a folder")

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Ends with an error rather than early: the store must still be there at the end."""
        require_prefix(prefix)
        self._root.require()
        with translated("listing"):
            for key, state in walk_objects(self._root.path, prefix):
                yield _info(key, state)
        self._root.require()

    def delete(self, key: str) -> None:
        path = self._root.locate(key)
        self._root.require()
        with translated("deleting an object"):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                self._root.require()
                return
            with suppress(FileNotFoundError):
                sync_directory(path.parent)
            self._root.prune(path)

    def abort_unfinished(self, prefix: str, older_than: datetime) -> int:
        """An upload's age is that of its last write."""
        require_prefix(prefix)
        self._root.require()
        count = 0
        with translated("giving up old uploads"):
            for name, state in walk_partials(self._root.path, prefix):
                if state.st_mtime < older_than.timestamp():
                    path = self._root.path / name
                    path.unlink(missing_ok=True)
                    self._root.prune(path)
                    count += 1
        return count


def _info(key: str, state: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, state.st_size, datetime.fromtimestamp(state.st_mtime, UTC))
