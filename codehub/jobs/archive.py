"""Archiving: a home, or nothing at all, into the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.core.keys import build_key
from codehub.errors import ActionFailed, ArchiveCorrupted
from codehub.jobs.access import fidelity, pack, require_home
from codehub.jobs.guard import Guard
from codehub.jobs.tarheader import END
from codehub.jobs.tarstream import TarStream
from codehub.jobs.upload import Packed, commit, send

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.jobs.access import Home
    from codehub.jobs.progress import Progress
    from codehub.model.archive import ArchiveKey, ArchiveMeta, ArchiveSubject
    from codehub.ports import ObjectStore


def archive(
    store: ObjectStore,
    home: Home,
    key: ArchiveKey,
    subject: ArchiveSubject,
    progress: Progress,
) -> ArchiveMeta:
    """Store the home under a key of its own, verified and committed. The home only is read."""
    require_home(home)
    progress.begin("pack")
    sent = send(store, build_key(key), lambda put: _pack(home, put, progress))
    return commit(store, key, subject, sent, progress)


def archive_nothing(
    store: ObjectStore, key: ArchiveKey, subject: ArchiveSubject, progress: Progress
) -> ArchiveMeta:
    """Store an empty archive: for a workspace that never had a volume."""
    progress.begin("pack")
    sent = send(store, build_key(key), _pack_nothing)
    return commit(store, key, subject, sent, progress)


def _pack(home: Home, put: Callable[[memoryview], None], progress: Progress) -> Packed:
    guard = Guard(leave_out_devices=True)
    stream = TarStream(guard.admit)
    with pack(home) as tar:
        try:
            while piece := tar.read():
                for part in stream.feed(piece):
                    put(part)
                progress.at(stream.passed, guard.entries)
            tar.finish()
            stream.finish()
        except ArchiveCorrupted as error:
            raise ActionFailed(f"the volume could not be restored from it: {error}") from error
        skipped = guard.left_out + tar.sockets
        return Packed(stream.passed, guard.entries, skipped, fidelity(home))


def _pack_nothing(put: Callable[[memoryview], None]) -> Packed:
    put(memoryview(END))
    return Packed(unpacked_bytes=len(END), entries=0, skipped=0)
