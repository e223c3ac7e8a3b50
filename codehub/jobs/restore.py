"""Restoring: an archive out of the store into a new, empty volume.

Unpacking begins before the hash is known, because nothing may hold the whole archive. Until it is
known to be right the volume counts for nothing, and whatever goes wrong, it is emptied again.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Final, cast

import zstandard

from codehub.errors import ActionFailed, ArchiveCorrupted, CodeHubError
from codehub.jobs.access import discard, require_room, settle, unpack
from codehub.jobs.committed import read_meta
from codehub.jobs.guard import Guard
from codehub.jobs.pipeline import CHUNK, Stage
from codehub.jobs.readback import hash_object
from codehub.jobs.tarstream import TarStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.jobs.access import Home
    from codehub.jobs.enginecopy import EngineUnpack
    from codehub.jobs.progress import Progress
    from codehub.jobs.tarchild import TarChild
    from codehub.model.archive import ArchiveMeta
    from codehub.ports import ObjectStore

_LARGEST_WINDOW: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive must be for us to unpack it; None sets no limit beyond its own marker's."""

    sha256: str | None = None
    most_bytes: int | None = None
    most_entries: int | None = None


def restore(
    store: ObjectStore, home: Home, key: str, progress: Progress, limits: Limits
) -> ArchiveMeta:
    """Fill the empty home with what the archive holds, and make it durable."""
    progress.begin("check")
    meta = _find(store, key)
    _require_limits(meta, limits)
    require_room(home, meta)
    progress.begin("unpack", meta.unpacked_bytes)
    try:
        _unpack(store, home, meta, progress)
        progress.begin("sync")
        settle(home)
    except BaseException:
        with suppress(CodeHubError):  # the first error is the one to tell; the caller removes it
            discard(home)
        raise
    return meta


def _find(store: ObjectStore, key: str) -> ArchiveMeta:
    meta = read_meta(store, key)
    if meta is None:
        raise ActionFailed(f"there is no archive {key}: it was never committed, or was deleted")
    info = store.head(key)
    if info is None:
        raise _gone(key)
    if info.size != meta.bytes:
        raise _differs(meta, f"it has {info.size} bytes and should have {meta.bytes}")
    return meta


def _require_limits(meta: ArchiveMeta, limits: Limits) -> None:
    if limits.sha256 is not None and limits.sha256 != meta.sha256:
        raise _differs(meta, "it is not the one that the hub recorded")
    if limits.most_bytes is not None and meta.unpacked_bytes > limits.most_bytes:
        raise ActionFailed(
            f"the archive unpacks to {meta.unpacked_bytes} bytes, above {limits.most_bytes}"
        )
    if limits.most_entries is not None and meta.entries > limits.most_entries:
        raise ActionFailed(f"the archive has {meta.entries} entries, above {limits.most_entries}")


def _unpack(store: ObjectStore, home: Home, meta: ArchiveMeta, progress: Progress) -> None:
    """Doubts about the archive come first: a tar that stumbles over a bad one is not at fault."""
    guard = Guard(leave_out_devices=False, most_entries=meta.entries)
    stream = TarStream(guard.admit, most_bytes=meta.unpacked_bytes)
    with unpack(home, progress) as tar:
        sha256, refused = _stream(store, meta, _Unpacking(stream, guard, tar, progress))
        if sha256 != meta.sha256:
            raise _judge_damage(store, meta, progress)
        if refused is not None:
            raise refused
        stream.finish()
        if (stream.seen, guard.entries) != (meta.unpacked_bytes, meta.entries):
            raise _differs(meta, "it holds less than its commit marker says")
        tar.finish()


class _Unpacking:
    """Where the decompressor writes to, in pieces of bounded size: past the guard, to tar."""

    def __init__(
        self,
        stream: TarStream,
        guard: Guard,
        tar: TarChild | EngineUnpack,
        progress: Progress,
    ) -> None:
        self._stream = stream
        self._guard = guard
        self._tar = tar
        self._progress = progress

    def write(self, piece: bytes) -> int:
        for part in self._stream.feed(bytes(piece)):
            self._tar.write(part)
        self._progress.at(self._stream.passed, self._guard.entries)
        return len(piece)


def _stream(
    store: ObjectStore, meta: ArchiveMeta, unpacking: _Unpacking
) -> tuple[str, ArchiveCorrupted | None]:
    """Read and hash, and beside it decompress and unpack.

    The hash of all that was read, and what was wrong with it before its end.
    """
    digest = hashlib.sha256()
    reader = store.open_reader(meta.key)
    if reader is None:
        raise _gone(meta.key)
    with reader, Stage(_decompressing(meta, unpacking)) as stage:
        refused: ArchiveCorrupted | None = None
        while piece := reader.read(CHUNK):
            digest.update(piece)
            refused = refused or _refusal(partial(stage.put, piece))
        refused = refused or _refusal(stage.close)
    return digest.hexdigest(), refused


def _decompressing(meta: ArchiveMeta, unpacking: _Unpacking) -> Callable[[bytes], None]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    writer = decompressor.stream_writer(cast("IO[bytes]", unpacking), write_size=CHUNK)

    def take(piece: bytes) -> None:
        try:
            writer.write(piece)
        except zstandard.ZstdError as error:
            raise _differs(meta, f"it cannot be decompressed ({error})") from error

    return take


def _refusal(step: Callable[[], None]) -> ArchiveCorrupted | None:
    try:
        step()
    except ArchiveCorrupted as error:
        return error
    return None


def _judge_damage(store: ObjectStore, meta: ArchiveMeta, progress: Progress) -> ActionFailed:
    """What arrived was damaged. Only a second look tells the archive from the way to us."""
    progress.begin("verify", meta.bytes)
    if hash_object(store, meta.key, lambda size: progress.at(size, 0)) == meta.sha256:
        return ActionFailed("the archive is whole but arrived damaged", hint="try again")
    return _differs(meta, "its hash is another one")


def _gone(key: str) -> ArchiveCorrupted:
    return ArchiveCorrupted(f"the archive {key} has a commit marker but is not there")


def _differs(meta: ArchiveMeta, why: str) -> ArchiveCorrupted:
    return ArchiveCorrupted(f"the archive {meta.key} is not what was stored: {why}")
