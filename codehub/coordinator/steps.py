"""What each operation does in the world: one coroutine each, safe to repeat after any crash.

State first in the database, then the world, then observe: an act that returned is not done, its
effect is complete when a pass sees it. Before anything destructive the leader confirms that it
still leads. What goes wrong is raised; the controller makes a retry or an ERROR of it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from codehub.cancelling import heed
from codehub.coordinator.figures import moved
from codehub.coordinator.marker import meet_store
from codehub.coordinator.pulls import Pulls
from codehub.coordinator.seen import Things, index, is_stray, may_go, stray_volumes
from codehub.core.audit import stray_removed
from codehub.errors import ActionFailed, CodeHubError, VolumeInUse
from codehub.model.archive import ArchiveKey, ArchiveSubject
from codehub.model.runtime import StartRequest, VolumeRef
from codehub.model.states import Operation
from codehub.service.secrets import read_secrets
from codehub.store.status import renew_home, save_archive, save_restored, tell, write_progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from datetime import datetime, timedelta
    from pathlib import Path
    from uuid import UUID

    from codehub.coordinator.lead import Lead
    from codehub.coordinator.shelf import Shelf
    from codehub.model.archive import ArchiveMeta
    from codehub.model.runtime import EngineCopy, VolumeSeen
    from codehub.model.workspace import Runtime as RuntimeName
    from codehub.model.workspace import Workspace
    from codehub.ports import Mover, Runtime

PROGRESS_SECONDS: Final = 1.0
"""Progress goes into the database at most so often."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What acts work with; `told` are the strays whose removal was told of and is not over."""

    lead: Lead
    runtimes: Mapping[RuntimeName, Runtime]
    mover: Mover
    shelf: Shelf
    stop_grace: timedelta
    secrets: Path | None = None
    pulls: Pulls = field(default_factory=Pulls)
    told: set[str] = field(default_factory=set)

    def runtime(self, workspace: Workspace) -> Runtime:
        return self.runtimes[workspace.declaration.runtime]


@dataclass(frozen=True, slots=True)
class Job:
    """One act: the workspace as it was claimed, what was seen of it, and at what time.

    `again` says that an earlier try of this operation may have left something half done.
    """

    workspace: Workspace
    things: Things
    now: datetime
    again: bool = False

    @property
    def home(self) -> VolumeRef:
        status = self.workspace.status
        if status.home_store_key is None:
            raise ActionFailed("there is no home to work on")
        generation = _generation(status.home_store_key)
        return VolumeRef(self.workspace.id, generation, self.workspace.name)

    @property
    def op_id(self) -> UUID:
        op_id = self.workspace.status.op_id
        assert op_id is not None  # operations are claimed with one
        return op_id


async def provision(tools: Tools, job: Job) -> None:
    await _remove_volumes(tools, job)
    await tools.lead.confirm()
    await tools.runtime(job.workspace).create_volume(job.home)


async def start(tools: Tools, job: Job) -> None:
    seen = job.things.container
    if seen is not None and (not seen.running or seen.op_id != job.op_id):
        await _stop(tools, job)
    request = await _request(tools, job)
    async with _Reports(tools, job) as report:
        with tools.pulls.heard(job.workspace.id, report):
            await tools.runtime(job.workspace).start(request, tools.lead.confirm)


async def stop(tools: Tools, job: Job) -> None:
    await _stop(tools, job)


async def archive(tools: Tools, job: Job) -> None:
    """Stream, commit, record and retire together, then delete.

    What an earlier try committed is not taken over: nobody knows who used the home since.
    """
    if job.workspace.status.home_store_key is not None:
        if job.things.container is not None:
            await _stop(tools, job)
        meta = await _archive_home(tools, job)
        await _require_untouched(tools, job, meta)
        # The home goes for it: an archive in another hub's store, or a lost one's, is none.
        await meet_store(tools.lead, tools.shelf.store)
        async with tools.lead.pool.connection() as conn:
            if not await save_archive(conn, tools.lead.fence, job.workspace, meta):
                return  # the operation is another one by now: nothing of this may go on
    await delete(tools, job)


async def archive_nothing(tools: Tools, job: Job) -> None:
    meta = await tools.shelf.committed(job.workspace.id, job.op_id)
    if meta is None:
        await meet_store(tools.lead, tools.shelf.store)
        key, subject = _key(tools, job), _subject(job, 0)
        meta = await tools.mover.archive_nothing(key, subject)
        moved(Operation.CREATE_EMPTY_ARCHIVE, meta.bytes)
    async with tools.lead.pool.connection() as conn:
        await save_archive(conn, tools.lead.fence, job.workspace, meta)


async def restore(tools: Tools, job: Job) -> None:
    """Into a new generation; what an earlier try left is retired and goes first."""
    if _is_restored(job.workspace):
        return
    await _remove_volumes(tools, job)
    if job.again:
        renewed = await _renew(tools, job)
        if renewed is None:
            return
        # Part of this operation, however often it is tried: no stray that is worth a word.
        await _remove_volume(tools, job, job.home)
        job = renewed
    status, runtime = job.workspace.status, tools.runtime(job.workspace)
    assert status.archive_key is not None  # RESTORING is claimed from ARCHIVED alone
    await tools.lead.confirm()
    await runtime.create_volume(job.home)
    async with _home(tools, job) as home, _Reports(tools, job) as report:
        await tools.mover.restore(home, status.archive_key, status.archive_sha256, report)
    moved(Operation.RESTORING, status.archive_bytes or 0)
    async with tools.lead.pool.connection() as conn:
        await save_restored(conn, tools.lead.fence, job.workspace, status.archive_key)


async def delete(tools: Tools, job: Job) -> None:
    """Remove what is left: the container, then every volume that is no home."""
    things = await _look(tools, job)
    if things.container is not None:
        await _stop(tools, job)
    for each in things.volumes:
        if _may_go(job, each):
            stray = each.name != job.workspace.status.home_store_key
            remove = _remove_stray if stray else _remove_volume
            await remove(tools, job, VolumeRef(each.workspace_id, each.generation))


def _may_go(job: Job, volume: VolumeSeen) -> bool:
    """Not the home of a workspace that is deleted while it is missing.

    After an archive was saved the home may go, though the job's own picture still names it.
    """
    status = job.workspace.status
    if status.operation is Operation.DELETING and volume.name == status.home_store_key:
        return False
    return may_go(job.workspace, volume)


async def clean(tools: Tools, job: Job) -> None:
    """Remove strays of a workspace at rest: a container on another volume, volumes of the past."""
    if is_stray(job.workspace, job.things.container):
        await _stop(tools, job)
    await _remove_volumes(tools, job)


async def stop_leftover(tools: Tools, job: Job) -> None:
    """End what a failed start left running: it never answered, so nobody works in it."""
    await _stop(tools, job)
    await _remove_volumes(tools, job)


STEPS: Final[dict[Operation, Callable[[Tools, Job], Awaitable[None]]]] = {
    Operation.PROVISIONING: provision,
    Operation.CREATE_EMPTY_ARCHIVE: archive_nothing,
    Operation.RESTORING: restore,
    Operation.STARTING: start,
    Operation.STOPPING: stop,
    Operation.ARCHIVING: archive,
    Operation.DELETING: delete,
}


async def _stop(tools: Tools, job: Job) -> None:
    await tools.lead.confirm()
    await tools.runtime(job.workspace).stop(job.workspace.id, tools.stop_grace)


async def _remove_volumes(tools: Tools, job: Job) -> None:
    for each in stray_volumes(job.workspace, job.things):
        await _remove_stray(tools, job, VolumeRef(each.workspace_id, each.generation))


async def _remove_stray(tools: Tools, job: Job, ref: VolumeRef) -> None:
    """Told before it goes, so that none goes untold; once, where it has to be tried again."""
    if ref.name not in tools.told:
        async with tools.lead.pool.connection() as conn:
            await tell(conn, tools.lead.fence, job.workspace, stray_removed(ref.name))
        tools.told.add(ref.name)
    await _remove_volume(tools, job, ref)
    tools.told.discard(ref.name)


async def _remove_volume(tools: Tools, job: Job, ref: VolumeRef) -> None:
    await tools.lead.confirm()
    await tools.runtime(job.workspace).delete_volume(ref)


async def _look(tools: Tools, job: Job) -> Things:
    listing = await tools.runtime(job.workspace).list()
    return index(listing).get(job.workspace.id, Things())


async def _request(tools: Tools, job: Job) -> StartRequest:
    workspace, declared = job.workspace, job.workspace.declaration
    secrets = await asyncio.to_thread(read_secrets, tools.secrets, declared.secret_env)
    return StartRequest(
        workspace_id=workspace.id,
        name=workspace.name,
        volume=job.home,
        op_id=job.op_id,
        template_digest=workspace.template_digest,
        command=declared.command,
        env={**declared.env, **secrets},
        port=declared.port,
        image=declared.image,
        resources=declared.resources,
        base_path=f"/w/{workspace.name}/",
    )


async def _archive_home(tools: Tools, job: Job) -> ArchiveMeta:
    """The store may have been away when this term began: it is met before it holds anything."""
    await meet_store(tools.lead, tools.shelf.store)
    await _require_unused(tools, job)
    async with _home(tools, job) as home, _Reports(tools, job) as report:
        meta = await tools.mover.archive(
            home, _key(tools, job), _subject(job, job.home.generation), report
        )
    moved(Operation.ARCHIVING, meta.bytes)
    return meta


async def _require_unused(tools: Tools, job: Job) -> None:
    """By anybody: a container that was renamed, or that an admin made, writes as ours does."""
    await tools.lead.confirm()
    await tools.runtime(job.workspace).require_unused(job.home)


async def _require_untouched(tools: Tools, job: Job, meta: ArchiveMeta) -> None:
    """An archive of a home that was in use meanwhile is no complete copy of it.

    It can be taken back whoever leads by now: nobody else ever records what this act made.
    """
    try:
        await _require_unused(tools, job)
    except VolumeInUse:
        await tools.shelf.withdraw(meta.key)
        raise


async def _renew(tools: Tools, job: Job) -> Job | None:
    async with tools.lead.pool.connection() as conn:
        generation = await renew_home(conn, tools.lead.fence, job.workspace)
    if generation is None:
        return None
    name = VolumeRef(job.workspace.id, generation).name
    status = replace(job.workspace.status, home_generation=generation, home_store_key=name)
    return replace(job, workspace=replace(job.workspace, status=status), things=Things())


@asynccontextmanager
async def _home(tools: Tools, job: Job) -> AsyncIterator[Path | EngineCopy]:
    """Its directory where there is one for us, else held by the engine while the job works."""
    runtime = tools.runtime(job.workspace)
    path = await runtime.volume_path(job.home)
    if path is not None:
        yield path
        return
    await tools.lead.confirm()
    copy = await runtime.open_copy(job.home)
    try:
        yield copy
    finally:
        # What is left of it is removed with the next use of the volume.
        with suppress(CodeHubError):
            await runtime.close_copy(copy)


def _key(tools: Tools, job: Job) -> ArchiveKey:
    return ArchiveKey(tools.lead.hub_id, job.workspace.id, job.op_id, token_hex(8))


def _subject(job: Job, generation: int) -> ArchiveSubject:
    declared = job.workspace.declaration
    return ArchiveSubject(declared.name, declared.owner, generation, job.now)


def _is_restored(workspace: Workspace) -> bool:
    status = workspace.status
    marker = status.home_ctx.restore_marker
    return marker is not None and marker == status.archive_key


def _generation(volume: str) -> int:
    return int(volume.rpartition("-g")[2])


class _Reports:
    """Takes a job's progress and writes the latest of it into the row, now and then."""

    def __init__(self, tools: Tools, job: Job) -> None:
        self._tools = tools
        self._job = job
        self._latest: Mapping[str, object] | None = None
        self._writer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Callable[[Mapping[str, object]], None]:
        self._writer = asyncio.create_task(self._write())
        return self._take

    async def __aexit__(self, *_: Any) -> None:
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait({self._writer})

    def _take(self, progress: Mapping[str, object]) -> None:
        self._latest = progress

    async def _write(self) -> None:
        while True:
            latest, self._latest = self._latest, None
            if latest is not None:
                # Nothing rests on it but the time limit, and the next report comes soon.
                with suppress(CodeHubError):
                    await self._write_one(latest)
                heed()  # the end of the job may have been lost to a connection that died with it
            await asyncio.sleep(PROGRESS_SECONDS)

    async def _write_one(self, progress: Mapping[str, object]) -> None:
        async with self._tools.lead.pool.connection() as conn:
            await write_progress(conn, self._tools.lead.fence, self._job.workspace, progress)
