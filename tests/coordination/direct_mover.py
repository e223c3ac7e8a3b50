"""The job code without its process: archives and restores in a thread of the test."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from codehub.jobs.archive import archive, archive_nothing
from codehub.jobs.progress import Progress
from codehub.jobs.restore import Limits, restore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from codehub.model.archive import ArchiveKey, ArchiveMeta, ArchiveSubject
    from codehub.model.runtime import EngineCopy
    from codehub.ports import ObjectStore


class DirectMover:
    """`codehub.ports.Mover` with the store given as an object."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    async def archive(
        self,
        volume: Path | EngineCopy,
        key: ArchiveKey,
        subject: ArchiveSubject,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        progress = Progress(report, time.monotonic)
        return await asyncio.to_thread(archive, self.store, volume, key, subject, progress)

    async def archive_nothing(self, key: ArchiveKey, subject: ArchiveSubject) -> ArchiveMeta:
        progress = Progress(lambda _: None, time.monotonic)
        return await asyncio.to_thread(archive_nothing, self.store, key, subject, progress)

    async def restore(
        self,
        volume: Path | EngineCopy,
        key: str,
        sha256: str | None,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        progress, limits = Progress(report, time.monotonic), Limits(sha256=sha256)
        return await asyncio.to_thread(restore, self.store, volume, key, progress, limits)
