"""The process runtime in a directory of its own, and hands that reach behind its back."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from codehub.adapters.process import ProcessRuntime
from codehub.adapters.process.find import Process, Table, read_process, scan
from codehub.adapters.process.records import Records
from tests.contract.runtime_world import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from codehub.adapters.process.records import Record
    from codehub.model.runtime import VolumeRef

MARKER = "codehub-root.json"


class ProcessWorld:
    """A data root of this test alone."""

    serve = f"{shlex.quote(sys.executable)} -m http.server --bind 127.0.0.1 --directory $HOME $PORT"

    image: str | None = None

    def __init__(self, root: Path) -> None:
        # Processes are found machine-wide by their hub's id: other tests may run beside this one.
        self.hub_id = f"hub-{uuid4()}"
        self.root = root
        self.records = Records(root / "records")
        asyncio.run(self.open().claim())

    def open(self) -> ProcessRuntime:
        return ProcessRuntime(self.root, self.hub_id)

    def home(self, ref: VolumeRef) -> Path:
        return self.root / "volumes" / ref.name

    def record(self, workspace_id: UUID) -> Record:
        record = self.records.read(workspace_id)
        assert record is not None
        return record

    def leader(self, workspace_id: UUID) -> int:
        leader = self.record(workspace_id).leader
        assert leader is not None
        return leader.pid

    def look(self) -> Table:
        return scan(self.hub_id)

    def members(self, workspace_id: UUID) -> tuple[Process, ...]:
        return self.look().members(workspace_id, self.records.read(workspace_id))

    async def foreign_volume(self, ref: VolumeRef) -> None:
        self.home(ref).mkdir()
        (self.home(ref) / "precious").write_text("theirs")

    async def foreign_is_intact(self, ref: VolumeRef) -> bool:
        return (self.home(ref) / "precious").read_text() == "theirs"

    async def kill(self, workspace_id: UUID) -> None:
        pid = self.leader(workspace_id)
        os.kill(pid, signal.SIGKILL)

        async def dead() -> bool:
            process = read_process(pid)
            return process is None or not process.alive

        await eventually(dead, f"{pid} dies")

    async def read(self, ref: VolumeRef, name: str) -> str | None:
        try:
            return (self.home(ref) / name).read_text()
        except FileNotFoundError:
            return None

    async def write(self, ref: VolumeRef, name: str, content: str) -> None:
        (self.home(ref) / name).write_text(content)

    @asynccontextmanager
    async def another_hub(self) -> AsyncIterator[None]:
        marker = self.root / MARKER
        ours = marker.read_bytes()
        marker.write_text('{"hub": "hub-2"}')
        try:
            yield
        finally:
            marker.write_bytes(ours)

    def end_everything(self) -> None:
        """By pid: whatever the test started and did not stop, known to a record or not."""
        known = set(self.records.read_all()) | set(self.look().marked())
        for workspace_id in known:
            asyncio.run(self.open().stop(workspace_id, timedelta(0)))
        assert not self.look().marked()
