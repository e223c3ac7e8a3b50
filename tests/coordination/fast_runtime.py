"""A runtime whose containers are entries in a table: everything real but the processes.

Volumes are directories, so homes hold files that can be lost, and archives are made of them by the
real job code. It outlives the coordinators that use it, as a machine does.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from codehub.errors import ActionFailed, Unreachable, VolumeInUse
from codehub.model.runtime import (
    ContainerSeen,
    EngineCopy,
    Listing,
    Stats,
    Upstream,
    VolumeRef,
    VolumeSeen,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path
    from uuid import UUID

    from codehub.model.runtime import StartRequest


class FastRuntime:
    """`codehub.ports.Runtime` over a directory and a table.

    `failing` makes every start of a workspace fail, `away` makes the whole runtime give no answer,
    `strangers` are containers that are not the hub's, by the volume that they have. `beside` are
    containers that run though another one has their name, or nobody: as on a real machine, nothing
    but the steps of a start prevents them. `ahead` is how far its clock is from ours. One that is
    `remote` gives out no paths: homes are reached through copies; `let_in` is told, once, of the
    first that is given back.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.containers: dict[UUID, ContainerSeen] = {}
        self.beside: list[ContainerSeen] = []
        self.strangers: dict[str, str] = {}
        self.mounts: list[str] = []
        self.starts: list[UUID] = []
        self.failing: dict[UUID, str] = {}
        self.away = False
        self.remote = False
        self.let_in: Callable[[EngineCopy], None] | None = None
        self.ahead = timedelta(0)
        self.lists = 0

    async def list(self) -> Listing:
        self._require_answer()
        self.lists += 1
        return Listing((*self.containers.values(), *self.beside), tuple(self._volumes()))

    async def create_volume(self, ref: VolumeRef) -> None:
        self._require_answer()
        self.path(ref).mkdir(parents=True, exist_ok=True)

    async def start(self, request: StartRequest, confirm: Callable[[], Awaitable[None]]) -> None:
        """In the steps of the real one: reserve, confirm, launch if it is still ours to launch."""
        self._require_answer()
        if self._runs_already(request):
            return
        reserved = self._reserve(request)
        try:
            await confirm()
            self._launch(request, reserved)
        except Exception:
            if self.containers.get(request.workspace_id) is reserved:
                del self.containers[request.workspace_id]
            raise
        if request.workspace_id in self.failing:
            raise ActionFailed(self.failing[request.workspace_id])

    def _runs_already(self, request: StartRequest) -> bool:
        """What runs for this operation is done; what runs for another one is in the way."""
        there = self.containers.get(request.workspace_id)
        if there is None or not there.running:
            return False
        if there.op_id != request.op_id:
            raise ActionFailed(f"{request.name} already runs from an earlier start")
        return True

    def _reserve(self, request: StartRequest) -> ContainerSeen:
        self._require_volume(request.volume)
        before = self.containers.get(request.workspace_id)
        if before is not None and before.running:
            self.beside.append(before)
        reserved = ContainerSeen(
            request.workspace_id,
            running=False,
            op_id=request.op_id,
            template_digest=request.template_digest,
            volume=request.volume.name,
            started_at=datetime.now(UTC),
        )
        self.containers[request.workspace_id] = reserved
        return reserved

    def _launch(self, request: StartRequest, reserved: ContainerSeen) -> None:
        self._require_answer()
        self._require_reserved(request, reserved)
        self._require_volume(request.volume)
        self.starts.append(request.workspace_id)
        self.mounts.append(request.volume.name)
        launched = replace(reserved, running=request.workspace_id not in self.failing)
        if self.containers.get(request.workspace_id) is reserved:
            self.containers[request.workspace_id] = launched
        else:
            self.beside.append(launched)

    def _require_reserved(self, request: StartRequest, reserved: ContainerSeen) -> None:
        if self.containers.get(request.workspace_id) is not reserved:
            raise ActionFailed(f"{request.name} was stopped or started by another meanwhile")

    def _require_volume(self, ref: VolumeRef) -> None:
        if not self.path(ref).is_dir():
            raise ActionFailed(f"the volume {ref.name} is not there")

    async def stop(self, workspace_id: UUID, grace: timedelta) -> None:
        """The one that has the name: an engine knows no other by it."""
        self._require_answer()
        self.containers.pop(workspace_id, None)

    async def delete_volume(self, ref: VolumeRef) -> None:
        await self.require_unused(ref)
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path(ref))

    async def volume_path(self, ref: VolumeRef) -> Path | None:
        self._require_answer()
        path = self.path(ref)
        return path if path.is_dir() and not self.remote else None

    async def require_unused(self, ref: VolumeRef) -> None:
        self._require_answer()
        own = self.containers.get(ref.workspace_id)
        used = any(each and each.volume == ref.name for each in (own, *self.beside))
        user = f"ws-{ref.workspace_id}" if used else self.strangers.get(ref.name)
        if user is not None:
            raise VolumeInUse(f"the volume {ref.name} is in use by the container {user}")

    async def open_copy(self, ref: VolumeRef) -> EngineCopy:
        self._require_answer()
        self._require_volume(ref)
        return EngineCopy("here", ref.name, str(self.path(ref)))

    async def close_copy(self, copy: EngineCopy) -> None:
        self._require_answer()
        let_in, self.let_in = self.let_in, None
        if let_in is not None:
            let_in(copy)

    async def upstream(self, workspace_id: UUID) -> Upstream | None:
        return Upstream("127.0.0.1", 1) if workspace_id in self.containers else None

    async def logs(self, workspace_id: UUID, *, lines: int, follow: bool) -> AsyncIterator[bytes]:
        yield b""

    async def stats(self, workspace_id: UUID) -> Stats | None:
        at = datetime.now(UTC) + self.ahead
        return Stats(0.0, 0, at) if workspace_id in self.containers else None

    async def events(self) -> AsyncIterator[UUID]:
        return
        yield

    async def close(self) -> None:
        pass

    def path(self, ref: VolumeRef) -> Path:
        return self.root / ref.name

    def crash(self, workspace_id: UUID) -> None:
        """The container ends by itself."""
        self.containers[workspace_id] = replace(self.containers[workspace_id], running=False)

    def _volumes(self) -> Iterator[VolumeSeen]:
        for path in sorted(self.root.iterdir()):
            ref = parse_volume(path.name)
            yield VolumeSeen(ref.workspace_id, ref.name, ref.generation)

    def _require_answer(self) -> None:
        if self.away:
            raise Unreachable("the runtime gives no answer")


def parse_volume(name: str) -> VolumeRef:
    from uuid import UUID

    workspace_id, _, generation = name.removeprefix("ws-").partition("-home-g")
    return VolumeRef(UUID(workspace_id), int(generation))
