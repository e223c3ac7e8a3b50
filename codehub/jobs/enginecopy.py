"""A home through the engine's copy calls: what `TarChild` is for a home's directory.

The engine swallows errors and tells them to its own log alone. So nothing is taken on trust. A copy
must have its end, which one with a file that cannot be read has not; its folders must be short
enough for the engine to see all that is in them; it must be as large as the engine says that the
home is, since a folder that cannot be listed is left out; and after a restore the home is read back
and compared.

Lost on this way are extended attributes, fractions of seconds, times before 1970, and holes.
Sockets are left out without being counted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from codehub.errors import ActionFailed, ArchiveCorrupted
from codehub.jobs.engine import CopyReader, CopyWriter
from codehub.jobs.enginesize import require_whole
from codehub.jobs.holes import Filling
from codehub.jobs.marks import Ledger, Marking
from codehub.jobs.pipeline import CHUNK
from codehub.jobs.tarentry import HERE, Entries, Entry, EntryWriter, enter, leave
from codehub.jobs.tarheader import DIRECTORY, SYMLINK, readable, reason
from codehub.model.runtime import NOT_MOUNTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from codehub.jobs.progress import Progress
    from codehub.model.runtime import EngineCopy

LONGEST_FOLDER: Final = 3500
"""Deeper down there may be paths beyond the 4095 bytes that a path can have, and an engine leaves
those out without a word. It may work on a path of its own, which is longer by some."""
MOST_HOLES: Final = 8 * 2**30
"""What the holes of an archive may take of the engine's disk once they are filled."""
_NOT_MOUNTED: Final = HERE + NOT_MOUNTED.encode()


class HomeReader:
    """What the engine says is in a home, in the words of our archives."""

    def __init__(self, copy: EngineCopy) -> None:
        self._folder = _name(copy)
        self._stream = CopyReader(copy, copy.directory)

    def __enter__(self) -> HomeReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.__exit__(kind, error, trace)

    def parts(self) -> Iterator[Entry | memoryview]:
        """Each entry, followed by its body; ends only where the engine says that this is all."""
        try:
            yield from self._parts()
        except ArchiveCorrupted as error:
            raise ActionFailed(
                f"the engine gave no complete copy of the home: {reason(error)}",
                hint="the volume is untouched; see the engine's log",
            ) from error

    def _parts(self) -> Iterator[Entry | memoryview]:
        entries = Entries()
        while piece := self._stream.read():
            for part in entries.feed(piece):
                yield self._entered(part) if isinstance(part, Entry) else part
        entries.finish()

    def _entered(self, part: Entry) -> Entry:
        entry = enter(part, self._folder)
        if entry.name == _NOT_MOUNTED:
            raise ActionFailed(
                "the engine does not have the volume where it should be; nothing was changed",
                hint="run the hub where it may read the engine's volumes",
            )
        if entry.kind == DIRECTORY and len(entry.name) > LONGEST_FOLDER:
            raise ActionFailed(
                f"a folder lies too deep to be copied through the engine: {readable(entry.name)}",
                hint="shorten its path, or run the hub where it may read the engine's volumes",
            )
        return entry


class EnginePack:
    """The home as a stream of our archives, from the engine."""

    sockets = 0
    """The engine does not say how many it left out."""

    def __init__(self, copy: EngineCopy) -> None:
        self._copy = copy
        self._home = HomeReader(copy)
        self._parts = self._home.parts()
        self._writer = EntryWriter()
        self._ended = False
        self._bytes = 0

    def __enter__(self) -> EnginePack:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._home.__exit__(kind, error, trace)

    def read(self) -> bytes:
        """The next piece; nothing when that was all."""
        held: list[bytes | memoryview] = []
        size = 0
        for part in self._parts:
            held.append(self._begin(part) if isinstance(part, Entry) else part)
            size += len(held[-1])
            if size >= CHUNK:
                return b"".join(held)
        if not self._ended:
            self._ended = True
            held.append(self._writer.end())
        return b"".join(held)

    def finish(self) -> None:
        """What goes wrong is raised where it is read; what was left out, here."""
        require_whole(self._copy, self._bytes)

    def _begin(self, entry: Entry) -> bytes:
        self._bytes += len(entry.link) if entry.kind == SYMLINK else entry.size
        return self._writer.begin(entry)


class EngineUnpack:
    """The engine, filling the home with what we feed it; then the home is read back."""

    def __init__(self, copy: EngineCopy, progress: Progress) -> None:
        self._copy = copy
        self._progress = progress
        self._folder = _name(copy)
        # From above, so that the home itself is an entry with its owner and mode, and a link that
        # leads out of the home does not lead out of where the engine unpacks.
        self._target = CopyWriter(copy, str(PurePosixPath(copy.directory).parent))
        self._entries = Entries()
        self._writer = EntryWriter()
        self._filling: Filling | None = None
        self._holes = 0
        self._ledger = Ledger()
        self._marking = Marking(self._ledger.note)

    def __enter__(self) -> EngineUnpack:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._target.__exit__(kind, error, trace)

    def write(self, data: bytes | memoryview) -> None:
        for part in self._entries.feed(bytes(data)):
            if isinstance(part, Entry):
                self._begin(part)
            else:
                self._put((part,) if self._filling is None else self._filling.feed(part))

    def finish(self) -> None:
        """Wait until all is unpacked, and see whether it is; `ActionFailed` unless it is."""
        self._entries.finish()
        self._end_body()
        self._marking.close()
        self._target.write(self._writer.end())
        self._target.finish()
        self._verify()

    def _begin(self, entry: Entry) -> None:
        self._end_body()
        if entry.length is not None:
            self._require_room(entry, entry.length - entry.size)
            self._filling = Filling(entry.length)
            entry = replace(entry, size=entry.length, length=None)
        moved = leave(entry, self._folder)
        self._marking.begin(enter(moved, self._folder))
        self._target.write(self._writer.begin(moved))

    def _put(self, body: Iterable[memoryview]) -> None:
        for piece in body:
            self._marking.body(piece)
            self._target.write(piece)

    def _end_body(self) -> None:
        if self._filling is not None:
            self._put(self._filling.finish())
            self._filling = None

    def _require_room(self, entry: Entry, holes: int) -> None:
        """How much is free there cannot be asked, and what fills a disk harms everybody on it."""
        self._holes += max(0, holes)
        if self._holes > MOST_HOLES:
            raise ActionFailed(
                f"the engine would fill the holes of {readable(entry.name)} on its disk",
                hint="restore it with a hub that may write to the engine's volumes",
            )

    def _verify(self) -> None:
        self._progress.begin("verify", self._marking.bytes)
        arrived = Marking(self._ledger.compare)
        with HomeReader(self._copy) as home:
            for part in home.parts():
                if isinstance(part, Entry):
                    arrived.begin(part)
                else:
                    arrived.body(part)
                self._progress.at(arrived.bytes, arrived.entries)
        arrived.close()
        self._ledger.close()


def require_empty_copy(copy: EngineCopy) -> None:
    """A restore goes into a new volume only: what is in another one is not ours to mix with."""
    with HomeReader(copy) as home:
        if any(isinstance(part, Entry) and part.name != HERE for part in home.parts()):
            raise ActionFailed("the volume is not empty; nothing was changed")


def _name(copy: EngineCopy) -> bytes:
    return PurePosixPath(copy.directory).name.encode()
