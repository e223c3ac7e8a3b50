"""Parts that wait in the middle of an act until a test lets them go on."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.coordination.direct_mover import DirectMover
from tests.coordination.fast_runtime import FastRuntime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from datetime import timedelta
    from pathlib import Path
    from uuid import UUID

    from codehub.model.archive import ArchiveKey, ArchiveMeta, ArchiveSubject
    from codehub.model.runtime import EngineCopy, StartRequest
    from codehub.ports import ObjectStore


class Gate:
    """Open at first; shut, it holds those who come. Counts who is inside."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self.inside = 0
        self.most = 0
        self.passed = 0
        self.given_up = 0

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def passing(self) -> None:
        with self._counted():
            await self._open.wait()
        self.passed += 1

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            yield
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        finally:
            self.inside -= 1


class HeldRuntime(FastRuntime):
    """Starts and stops pass a gate first; `crowd` is the most that ever ran at once."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.starting = Gate()
        self.stopping = Gate()
        self.crowd = 0

    async def start(self, request: StartRequest, confirm: Callable[[], Awaitable[None]]) -> None:
        await self.starting.passing()
        await super().start(request, confirm)
        self.crowd = max(self.crowd, sum(each.running for each in self.containers.values()))

    async def stop(self, workspace_id: UUID, grace: timedelta) -> None:
        await self.stopping.passing()
        await super().stop(workspace_id, grace)


class HeldMover(DirectMover):
    """Data moves pass a gate first."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.gate = Gate()

    async def archive(
        self,
        volume: Path | EngineCopy,
        key: ArchiveKey,
        subject: ArchiveSubject,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        await self.gate.passing()
        return await super().archive(volume, key, subject, report)

    async def restore(
        self,
        volume: Path | EngineCopy,
        key: str,
        sha256: str | None,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        await self.gate.passing()
        return await super().restore(volume, key, sha256, report)
