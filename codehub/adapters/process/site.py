"""The parts that live below one data root, and the looks at them that several steps share."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from codehub.adapters.process import spawn
from codehub.adapters.process.find import scan
from codehub.adapters.process.records import Records
from codehub.adapters.process.root import DataRoot
from codehub.adapters.process.translate import acting
from codehub.adapters.process.volumes import Volumes
from codehub.errors import CodeHubError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from codehub.adapters.process.find import Process, Table
    from codehub.adapters.process.records import Record

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

    def note_exit(self, record: Record) -> Record:
        """Write down that the leader has ended, and how if it was our child.

        Best effort: a full disk must not hide the listing in which this is noticed.
        """
        if record.leader is None or record.exited:
            return record
        try:
            with self.root.locked():
                current = self.records.read(record.workspace_id)
                if current is None or current.token != record.token:
                    return replace(record, exited=True)
                return current if current.exited else self._write_exit(current)
        except (OSError, CodeHubError):
            return replace(record, exited=True, exit_code=spawn.peek_exit(record.leader))

    def _write_exit(self, record: Record) -> Record:
        # It may have ended after the look that reaped, and still be unread.
        spawn.collect()
        code = spawn.peek_exit(record.leader)
        noted = replace(record, exited=True, exit_code=code)
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
