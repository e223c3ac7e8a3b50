"""Remember files that were read, so that what did not change is not parsed again.

A file is known again by its stat identity, or, when that moved (a checkout, a touch), by the
hash of its content. Belongs to one reader; a load that ends forgets files that are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from codehub.model.document import Written
    from codehub.model.problem import Problem

SETTLED_NS: Final = 2_000_000_000
"""A file changed more recently than this before it was read may change again within the same
tick of the file system's clock: its stat identity then proves nothing."""


class Identity(NamedTuple):
    """What changes when a file does."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int
    device: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        return cls(
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_size,
            status.st_ino,
            status.st_dev,
        )


@dataclass(frozen=True, slots=True)
class SpecFile:
    """One file, read and checked by itself.

    `broken` says that not all of its documents could be read.
    """

    file: str
    content: bytes
    written: tuple[Written, ...] = ()
    problems: tuple[Problem, ...] = ()
    broken: bool = False


class _Known(NamedTuple):
    identity: Identity | None
    content_hash: bytes
    read: SpecFile


class SpecCache:
    """Files by their path as shown; `parsed` counts those that had to be parsed.

    `fingerprint` is that of all files of the last load, whether they are valid or not.
    """

    def __init__(self) -> None:
        self.parsed = 0
        self.fingerprint = ""
        self._known: dict[str, _Known] = {}

    def by_identity(self, file: str, identity: Identity) -> SpecFile | None:
        """The file as read before, if its stat identity proves that it did not change."""
        known = self._known.get(file)
        return known.read if known and known.identity == identity else None

    def by_content(self, file: str, content: bytes) -> SpecFile | None:
        """The file as read before, if it holds the same."""
        known = self._known.get(file)
        return known.read if known and known.content_hash == _hash(content) else None

    def remember(self, read: SpecFile, identity: Identity | None, now_ns: int) -> None:
        settled = identity is not None and now_ns - identity.ctime_ns > SETTLED_NS
        kept = identity if settled else None
        self._known[read.file] = _Known(kept, _hash(read.content), read)

    def keep_only(self, files: Iterable[str]) -> None:
        wanted = set(files)
        self._known = {file: known for file, known in self._known.items() if file in wanted}
        whole = sha256()
        for file in sorted(self._known):
            whole.update(f"{file}\0".encode(errors="surrogateescape"))
            whole.update(self._known[file].content_hash)
        self.fingerprint = whole.hexdigest()


def _hash(content: bytes) -> bytes:
    return sha256(content).digest()
