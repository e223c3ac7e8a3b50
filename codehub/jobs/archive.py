"""Archiving: a volume's directory, or nothing at all, into the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.core.keys import build_key
from codehub.errors import ActionFailed, ArchiveCorrupted
from codehub.jobs.guard import Guard
from codehub.jobs.tarchild import pack
from codehub.jobs.tarstream import END, TarStream
from codehub.jobs.upload import Packed, commit, send
from codehub.jobs.volume import require_volume

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from codehub.jobs.progress import Progress
    from codehub.model.archive import ArchiveKey, ArchiveMeta, ArchiveSubject
    from codehub.ports import ObjectStore


def archive(
    store: ObjectStore,
    volume: Path,
    key: ArchiveKey,
    subject: ArchiveSubject,
    progress: Progress,
) -> ArchiveMeta:
    """Store the volume under a key of its own, verified and committed. The volume only is read."""
    require_volume(volume)
    progress.begin("pack")
    sent = send(store, build_key(key), lambda put: _pack(volume, put, progress))
    return commit(store, key, subject, sent, progress)


def archive_nothing(
    store: ObjectStore, key: ArchiveKey, subject: ArchiveSubject, progress: Progress
) -> ArchiveMeta:
    """Store an empty archive: for a workspace that never had a volume."""
    progress.begin("pack")
    sent = send(store, build_key(key), _pack_nothing)
    return commit(store, key, subject, sent, progress)


def _pack(volume: Path, put: Callable[[memoryview], None], progress: Progress) -> Packed:
    guard = Guard(leave_out_devices=True)
    stream = TarStream(guard.admit)
    with pack(volume) as tar:
        try:
            while piece := tar.read():
                for part in stream.feed(piece):
                    put(part)
                progress.at(stream.passed, guard.entries)
            tar.finish()
            stream.finish()
        except ArchiveCorrupted as error:
            raise ActionFailed(f"the volume could not be restored from it: {error}") from error
        return Packed(stream.passed, guard.entries, guard.left_out + tar.sockets)


def _pack_nothing(put: Callable[[memoryview], None]) -> Packed:
    put(memoryview(END))
    return Packed(unpacked_bytes=len(END), entries=0, skipped=0)
