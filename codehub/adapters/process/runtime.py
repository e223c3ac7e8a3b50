"""The process runtime: `codehub.ports.Runtime` over one data root of this machine.

Nothing is kept in memory that a restarted hub would miss: records, labels and /proc say it all.
Steps that touch files run in threads.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from codehub.adapters.process import logs
from codehub.adapters.process.find import is_alive
from codehub.adapters.process.measure import measure
from codehub.adapters.process.probe import HOST
from codehub.adapters.process.site import Site
from codehub.adapters.process.start import start
from codehub.adapters.process.stop import stop
from codehub.adapters.process.surround import machine_environment
from codehub.adapters.process.sweep import begin_to_sweep
from codehub.adapters.process.translate import looking
from codehub.errors import ActionFailed, CodeHubError, VolumeInUse
from codehub.model.runtime import ContainerSeen, Listing, Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from datetime import timedelta
    from pathlib import Path
    from uuid import UUID

    from codehub.adapters.process.find import Table
    from codehub.adapters.process.records import Record
    from codehub.model.runtime import EngineCopy, StartRequest, Stats, VolumeRef

NOTICE: Final = (
    "The process runtime isolates nothing: workspaces run as the hub's user, see its files and "
    "each other's, and no limit on CPU, memory or processes is enforced."
)
"""To be shown wherever a hub with this runtime starts."""

EVENT_SECONDS: Final = 1.0
NAMED: Final = 3


class ProcessRuntime:
    """Workspaces as processes below `root`, which `claim` has made this hub's."""

    def __init__(
        self,
        root: Path,
        hub_id: str,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        machine: Mapping[str, str] | None = None,
    ) -> None:
        self._site = Site(root, hub_id)
        self._clock = clock
        self._machine = machine_environment() if machine is None else machine

    async def claim(self, *, expects_data: bool = False) -> None:
        """Make a new or empty root ours and begin to empty the trash; once, when the hub starts.

        `expects_data` says that the database records homes here: then an empty root is a disk
        that is not mounted, and stays as it is. Raises Unreachable.
        """
        root = self._site.root
        await self._site.act(root.claim, expects_data=expects_data)
        begin_to_sweep(self._site)

    async def list(self) -> Listing:
        return await asyncio.to_thread(self._list)

    async def create_volume(self, ref: VolumeRef) -> None:
        await self._site.act(self._create_volume, ref)

    async def start(self, request: StartRequest, confirm: Callable[[], Awaitable[None]]) -> None:
        await start(self._site, request, confirm, machine=self._machine, now=self._clock())

    async def stop(self, workspace_id: UUID, grace: timedelta) -> None:
        await self._site.act(self._site.root.check)
        await stop(self._site, workspace_id, grace.total_seconds())

    async def delete_volume(self, ref: VolumeRef) -> None:
        await self._site.act(self._discard_volume, ref)
        await self._site.act(self._site.volumes.empty_trash)

    async def volume_path(self, ref: VolumeRef) -> Path | None:
        return await asyncio.to_thread(self._volume_path, ref)

    async def require_unused(self, ref: VolumeRef) -> None:
        await asyncio.to_thread(self._require_unused, ref)

    async def open_copy(self, ref: VolumeRef) -> EngineCopy:
        """Every volume has a path here, unless it is gone."""
        raise ActionFailed(f"the volume {ref.name} is not there")

    async def close_copy(self, copy: EngineCopy) -> None:
        """None was ever given out."""

    async def upstream(self, workspace_id: UUID) -> Upstream | None:
        record = await asyncio.to_thread(self._running, workspace_id)
        return Upstream(HOST, record.port) if record else None

    async def logs(self, workspace_id: UUID, *, lines: int, follow: bool) -> AsyncIterator[bytes]:
        log = self._site.log(workspace_id)
        if follow:
            running = partial(self._running, workspace_id)
            async for chunk in logs.follow(log, lines, lambda: running() is not None):
                yield chunk
        elif text := (await asyncio.to_thread(logs.tail, log, lines))[0]:
            yield text

    async def stats(self, workspace_id: UUID) -> Stats | None:
        if await asyncio.to_thread(self._running, workspace_id) is None:
            return None
        members = await asyncio.to_thread(self._site.members, workspace_id)
        return measure(members, self._clock()) if members else None

    async def events(self) -> AsyncIterator[UUID]:
        """Looks once a second; a root that cannot be read gives no hints."""
        before: dict[UUID, object] | None = None
        while True:
            with suppress(CodeHubError):
                now = await asyncio.to_thread(self._pulse)
                for each in () if before is None else sorted(now.keys() | before.keys()):
                    if before is not None and now.get(each) != before.get(each):
                        yield each
                before = now
            await asyncio.sleep(EVENT_SECONDS)

    async def close(self) -> None:
        """Nothing is held open."""

    def _list(self) -> Listing:
        site = self._site
        with looking(site.root.path):
            site.root.check()
            # Records first: a leader that is recorded but not seen afterwards has ended.
            records = site.records.read_all()
            table = site.look()
            containers = tuple(
                self._seen(each, records.get(each), table)
                for each in sorted(records.keys() | table.marked().keys())
            )
            listing = Listing(containers, site.volumes.seen())
            self._trim_logs(records)
            site.root.check()
            return listing

    def _seen(self, workspace_id: UUID, record: Record | None, table: Table) -> ContainerSeen:
        """Without its leader a workspace does not run, even if children of it still do."""
        if record is None:
            mark = table.marked().get(workspace_id)
            return ContainerSeen(workspace_id, running=False, op_id=mark.op_id if mark else None)
        running = table.leader(record) is not None
        if not running:
            record = self._site.note_exit(record, table)
        return ContainerSeen(
            workspace_id,
            running=running,
            op_id=record.op_id,
            template_digest=record.template_digest,
            volume=record.volume,
            exit_code=record.exit_code,
            started_at=record.started_at,
            upstream=Upstream(HOST, record.port) if running else None,
        )

    def _create_volume(self, ref: VolumeRef) -> None:
        with self._site.root.locked():
            self._site.volumes.create(ref)

    def _discard_volume(self, ref: VolumeRef) -> None:
        site = self._site
        with site.root.locked():
            if site.volumes.is_ours(ref):
                self._refuse_if_used(ref)
            site.volumes.discard(ref)
            if not site.volumes.generations(ref.workspace_id):
                logs.remove(site.log(ref.workspace_id))

    def _require_unused(self, ref: VolumeRef) -> None:
        with looking(self._site.root.path):
            self._site.root.check()
            self._refuse_if_used(ref)

    def _refuse_if_used(self, ref: VolumeRef) -> None:
        if self._is_used(ref):
            raise VolumeInUse(
                f"the volume {ref.name} is in use by processes of its workspace",
                hint="stop the workspace first",
            )
        others = [str(each) for each in self._site.occupants(ref)]
        if others:
            raise VolumeInUse(
                f"the volume {ref.name} is in use by processes that are not known to the hub: "
                f"{_listed(others)}",
                hint=f"end them, or let them leave {self._site.volumes.path(ref)}",
            )

    def _is_used(self, ref: VolumeRef) -> bool:
        """By a record, even of one that has ended, or by a process of which no record says more."""
        records = self._site.records
        record = records.read(ref.workspace_id)
        if record is None and records.exists(ref.workspace_id):
            return True
        if record and record.volume == ref.name:
            return True
        marks = {each.mark for each in self._site.members(ref.workspace_id)} - {None}
        return any(mark and (record is None or mark.op_id != record.op_id) for mark in marks)

    def _volume_path(self, ref: VolumeRef) -> Path | None:
        with looking(self._site.root.path):
            self._site.root.check()
            return self._site.volumes.path(ref) if self._site.volumes.is_ours(ref) else None

    def _running(self, workspace_id: UUID) -> Record | None:
        with looking(self._site.root.path):
            self._site.root.check()
            record = self._site.records.read(workspace_id)
            return record if record and is_alive(record.leader) else None

    def _pulse(self) -> dict[UUID, object]:
        with looking(self._site.root.path):
            self._site.root.check()
            records = self._site.records.read_all()
            self._trim_logs(records)
            return {
                each: record and (record.token, is_alive(record.leader))
                for each, record in records.items()
            }

    def _trim_logs(self, records: Mapping[UUID, Record | None]) -> None:
        # A log that cannot be cut now, on a full disk perhaps, is cut at a later look.
        with suppress(OSError):
            for each in records:
                logs.trim(self._site.log(each))


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
