"""Writing one object: under a temporary name beside its own, made durable, then linked in place."""

from __future__ import annotations

import errno
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codehub.adapters.localstore.faults import translated
from codehub.errors import ActionFailed, NameConflict

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from codehub.adapters.localstore.root import Root

PARTIAL: Final = ".partial"
_ATTEMPTS: Final = 100
_WRITE_BACK: Final = 32 * 1024 * 1024
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalWriter:
    """One object being written; nobody sees it before `commit`."""

    def __init__(self, root: Root, path: Path) -> None:
        self._root = root
        self._path = path
        self._partial = path.with_name(partial_name(path.name))
        self._unsynced = 0
        self._syncing: Future[None] | None = None
        self._beside = ThreadPoolExecutor(1, "write-back")
        self._descriptor: int | None = self._open()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        with translated("writing"):
            while view:
                view = view[os.write(self._open_descriptor(), view) :]
        self._unsynced += len(data)
        if self._unsynced >= _WRITE_BACK and (self._syncing is None or self._syncing.done()):
            self._write_back()

    def commit(self) -> None:
        """Make it durable and give it its name; one that has the name already is kept.

        Whatever happens, the temporary file is gone afterwards.
        """
        try:
            self._settle()
            with translated("writing"):
                os.fdatasync(self._open_descriptor())
            with translated("committing"):
                os.close(self._open_descriptor())
                self._descriptor = None
                self._place()
        finally:
            self.abort()
        with translated("committing"):
            self._root.sync_parents(self._path)

    def abort(self) -> None:
        """Forget it; harmless after a commit."""
        # The descriptor must not be another file's while it is still being synced.
        self._beside.shutdown()
        with translated("giving up an upload"):
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
            with suppress(FileNotFoundError, NotADirectoryError):
                self._partial.unlink()
                self._root.prune(self._partial)

    def _open(self) -> int:
        """Create the temporary file; a directory pruned under our feet is made again."""
        with translated("beginning an upload"):
            for _ in range(_ATTEMPTS):
                try:
                    self._root.make_parent(self._path)
                    return os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                except FileNotFoundError:
                    self._root.require()
                except NotADirectoryError:
                    raise self._taken() from None
        raise ActionFailed("the archive store's directories keep vanishing during an upload")

    def _write_back(self) -> None:
        """Have it written back as we go on, so that the last sync before the commit is short."""
        self._settle()
        self._syncing = self._beside.submit(os.fdatasync, self._open_descriptor())
        self._unsynced = 0

    def _settle(self) -> None:
        """Wait for what is being written back. An error is told to whoever syncs, and only once."""
        if self._syncing is not None:
            with translated("writing"):
                self._syncing.result()
            self._syncing = None

    def _place(self) -> None:
        """A link fails where the name is taken; a rename would overwrite."""
        try:
            os.link(self._partial, self._path)
        except FileExistsError:
            raise self._taken() from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if self._path.exists():
                raise self._taken() from None
            self._partial.rename(self._path)

    def _taken(self) -> NameConflict:
        key = self._path.relative_to(self._root.path)
        return NameConflict(f"the archive store has something under {key} already; it was kept")

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise ActionFailed("this upload has ended")
        return self._descriptor


def partial_name(name: str) -> str:
    return f".{name}.{uuid.uuid4().hex}{PARTIAL}"


def name_of_partial(partial: str) -> str | None:
    """The object name an upload was begun for; None when this is no temporary file of ours."""
    if not (partial.startswith(".") and partial.endswith(PARTIAL)):
        return None
    name, _, token = partial[1 : -len(PARTIAL)].rpartition(".")
    return name if name and len(token) == 32 else None
