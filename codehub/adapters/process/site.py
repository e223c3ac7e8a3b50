"""The parts that live below one data root, and the looks at them that several steps share."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from codehub.adapters.process import spawn
from codehub.adapters.process.find import scan
from codehub.adapters.process.occupants import occupants
from codehub.adapters.process.records import Records
from codehub.adapters.process.root import DataRoot
from codehub.adapters.process.translate import acting
from codehub.adapters.process.volumes import Volumes
from codehub.errors import CodeHubError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from uuid import UUID

    from codehub.adapters.process.find import Process, Table
    from codehub.adapters.process.occupants import Occupant
    from codehub.adapters.process.records import Record
    from codehub.model.runtime import VolumeRef

P = ParamSpec("P")
T = TypeVar("T")


class Site:
    """Root, records and volumes of one hub on this machine."""

    def __init__(self, path: Path, hub_id: str) -> None:
        self.root = DataRoot(path, hub_id)
        self.records = Records(self.root.records)
        self.volumes = Volumes(self.root)

    def log(self, workspace_id: UUID) -> Path:
        return self.root.logs / f"{workspace_id}.log"

    def look(self) -> Table:
        """All processes, now; our own dead children are reaped on the way."""
        spawn.collect()
        return scan(self.root.hub_id)

    def members(self, workspace_id: UUID) -> tuple[Process, ...]:
        """Every living process of this workspace, now."""
        record = self.records.read(workspace_id)
        return self.look().members(workspace_id, record)

    def occupants(self, ref: VolumeRef) -> Iterator[Occupant]:
        """Who is in this home or writes to it, known or not."""
        return occupants(self.volumes.path(ref), self.look().processes.values())

    def note_exit(self, record: Record, table: Table) -> Record:
        """Write down that the leader has ended, how if it was our child, and whether all left.

        Best effort: a full disk must not hide the listing in which this is noticed.
        """
        deserted = not table.session(record)
        if record.leader is None or (record.exited and record.deserted == deserted):
            return record
        try:
            with self.root.locked():
                current = self.records.read(record.workspace_id)
                if current is None or current.token != record.token:
                    return replace(record, exited=True)
                return self._write_exit(current, deserted=deserted)
        except (OSError, CodeHubError):
            return replace(record, exited=True, exit_code=_exit_code(record))

    def _write_exit(self, record: Record, *, deserted: bool) -> Record:
        # It may have ended after the look that reaped, and still be unread.
        spawn.collect()
        # And one look can miss what is forked meanwhile by a process that ends.
        deserted = record.deserted or (deserted and not self.look().session(record))
        noted = replace(record, exited=True, exit_code=_exit_code(record), deserted=deserted)
        if noted != record:
            self.records.write(noted)
        spawn.forget_exit(record.leader)
        return noted

    def withdraw(self, record: Record) -> None:
        """Remove a record of ours that led to nothing; what somebody else wrote since stays."""
        with suppress(OSError, CodeHubError), self.root.locked():
            current = self.records.read(record.workspace_id)
            if current and current.token == record.token:
                self.records.remove(record.workspace_id)

    async def act(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking step in a thread, with its OSErrors translated."""
        with acting(self.root.path):
            return await asyncio.to_thread(step, *args, **kwargs)


def _exit_code(record: Record) -> int | None:
    return record.exit_code if record.exited else spawn.peek_exit(record.leader)
