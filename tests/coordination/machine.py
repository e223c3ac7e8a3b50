"""A hub on this very machine: real processes, real storage jobs, a store on the disk."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from subprocess import run
from typing import TYPE_CHECKING, Any

from codehub.adapters.localstore import LocalStore
from codehub.adapters.process import ProcessRuntime
from codehub.adapters.process.find import is_alive, scan
from codehub.adapters.process.records import Records
from codehub.jobs.mover import JobMover
from codehub.model.runtime import VolumeRef
from codehub.model.states import DesiredState, IntentSource, Phase, RecoverMode
from codehub.service.intent import request_recover
from codehub.store.connect import connect
from codehub.store.hubs import ensure_hub_id
from tests.conftest import require
from tests.contract.runtime_world import eventually
from tests.coordination.hub import HubWorld
from tests.make import declaration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from codehub.model.workspace import Declaration, Workspace
    from tests.coordination.hub import Term

LISTEN = """
import os, socket
server = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
while True:
    server.accept()[0].close()
"""


def python(program: str) -> tuple[str, ...]:
    """A command that starts quickly."""
    return (sys.executable, "-I", "-S", "-c", program)


SERVE = python(LISTEN)


def shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def declared(name: str = "api", **fields: Any) -> Declaration:
    fields.setdefault("command", SERVE)
    return declaration(name, **fields)


@dataclass
class Machine:
    """Where everything is, and hands that reach behind the hub's back."""

    world: HubWorld
    runtime: ProcessRuntime
    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def archives(self) -> Path:
        return self.path / "archives"

    def home(self, workspace: Workspace) -> Path:
        assert workspace.status.home_store_key is not None
        return self.data / "volumes" / workspace.status.home_store_key

    def homes(self) -> list[str]:
        """What lies where homes are, trash and all, beside the marker."""
        return sorted(path.name for path in (self.data / "volumes").iterdir() if path.is_dir())

    def pid(self, workspace: Workspace) -> int | None:
        """The process that runs it, if one does."""
        record = Records(self.data / "records").read(workspace.id)
        if record is None or record.leader is None or not is_alive(record.leader):
            return None
        return record.leader.pid

    async def kill(self, workspace: Workspace) -> None:
        """As a person would, by hand."""
        pid = self.pid(workspace)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        async def dead() -> bool:
            return self.pid(workspace) is None

        await eventually(dead, f"{pid} dies")

    async def look(self, name: str = "api") -> Workspace:
        return await self.world.look(name)

    async def recover(self, mode: RecoverMode = RecoverMode.PLAIN) -> None:
        """As `codehub recover api` asks for it."""
        await request_recover(self.world.conn, "api", mode, by="alice", source=IntentSource.CLI)

    async def housed(self, term: Term, content: bytes = b"mine") -> Workspace:
        """`api` asleep, with a file in its home."""
        await self.world.declare(declared())
        api = await self.wanted(term, DesiredState.STANDBY)
        (self.home(api) / "notes.txt").write_bytes(content)
        return api

    async def packed(self, term: Term, content: bytes = b"mine") -> Workspace:
        """`api` in the archive, and nowhere else."""
        await self.housed(term, content)
        api = await self.wanted(term, DesiredState.ARCHIVED)
        assert api.status.phase is Phase.ARCHIVED, api.status
        return api

    async def wanted(self, term: Term, state: DesiredState) -> Workspace:
        """What becomes of `api` when somebody wants this of it."""
        await self.world.want("api", state)
        await term.settle()
        return await self.look()

    async def recovered(self, term: Term, mode: RecoverMode = RecoverMode.PLAIN) -> Workspace:
        await self.recover(mode)
        await term.settle()
        return await self.look()

    def notes(self, workspace: Workspace) -> bytes:
        """The file that `housed` put into its home."""
        return (self.home(workspace) / "notes.txt").read_bytes()

    def stored(self, workspace: Workspace) -> Path:
        """The file that holds its archive."""
        assert workspace.status.archive_key is not None
        return self.archives / workspace.status.archive_key

    async def until(self, term: Term, check: Callable[[Workspace], bool], what: str) -> Workspace:
        """Passes, whatever acts are doing, until the row is as it must become."""

        async def as_wanted() -> bool:
            await term.controller.tick()
            return check(await self.look())

        await eventually(as_wanted, what)
        return await self.look()


@asynccontextmanager
async def machine(url: str, path: Path) -> AsyncIterator[Machine]:
    """Nothing is declared yet; whatever is started here has ended afterwards."""
    async with await connect(url) as conn:
        hub_id = str(await ensure_hub_id(conn))
        runtime = ProcessRuntime(path / "data", hub_id)
        await runtime.claim()
        store = LocalStore(path / "archives")
        store.claim()
        mover = JobMover(f"file://{path / 'archives'}", os.environ)
        world = HubWorld(url, runtime, store, conn, mover)
        try:
            yield Machine(world, runtime, path)
        finally:
            for each in {*Records(path / "data" / "records").read_all(), *scan(hub_id).marked()}:
                await runtime.stop(each, timedelta(0))


def in_error(workspace: Workspace) -> bool:
    return workspace.status.phase is Phase.ERROR


def volume(workspace: Workspace, generation: int) -> str:
    return VolumeRef(workspace.id, generation).name


def patient(world: HubWorld) -> HubWorld:
    """The same hub, where a failure is tried again in an hour."""
    hour = timedelta(hours=1)
    return replace(world, rules=replace(world.rules, backoff_first=hour, backoff_limit=hour))


@contextmanager
def swapped(path: Path) -> Iterator[None]:
    """Inside, what lies here is elsewhere; what was put in its place goes when it comes back."""
    away = path.with_name(f"{path.name}.away")
    path.rename(away)
    try:
        yield
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
        away.rename(path)


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Callable[[str], None]]:
    """A disk of its own at `path`; what it gives sets its size. Skips where none can be made."""
    path.mkdir(exist_ok=True)
    made = _call("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    require("mount", not made, f"no disk can be made here: {made}")

    def resize(new: str) -> None:
        assert not _call("mount", "-o", f"remount,size={new}", str(path))

    try:
        yield resize
    finally:
        assert not _call("umount", str(path))


def _call(*command: str) -> str:
    """What it complains of, if it fails."""
    try:
        done = run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return str(error)
    return (done.stderr.strip() or f"{command[0]} failed") if done.returncode else ""
