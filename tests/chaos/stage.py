"""A world in which runs take place one after the other: one database, one machine, one store."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codehub.adapters.localstore import LocalStore
from codehub.model.runtime import VolumeRef
from codehub.store.connect import connect
from codehub.store.workspaces import read_workspaces
from tests.chaos import clock, picture
from tests.chaos.connection import LentPool, Lines
from tests.chaos.picture import Picture
from tests.chaos.script import Script
from tests.chaos.seams import ScriptedMover, ScriptedRuntime, ScriptedSignals, ScriptedStore
from tests.chaos.work import ThreadMover, scripted_jobs
from tests.coordination.direct_mover import DirectMover
from tests.coordination.fast_runtime import FastRuntime
from tests.coordination.hub import HubWorld, Term
from tests.integration.ttl_world import MemorySignals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.runtime import EngineCopy
    from codehub.model.states import DesiredState
    from codehub.model.workspace import Workspace

DAY = 86400.0
FILE = "work.txt"
COLUMNS = """
phase, operation, op_id, home_store_key, home_ctx, archive_key, conditions, desired_state,
error_reason, error_message, error_count, retry_at, deleted_at, purged_at, desired_source,
standby_ttl_seconds
"""
VOLUMES, ARCHIVES, ELSEWHERE = "volumes", "archives", "elsewhere"


@dataclass
class Stage:
    """The world as it really is, and leaders that see it through a script.

    `work` is what somebody typed last into the home; `written` are the keys of the archive store
    in the order in which they came to be.
    """

    root: Path
    conn: AsyncConnection[DictRow]
    lines: Lines
    world: HubWorld
    runtime: FastRuntime
    store: LocalStore
    signals: MemorySignals = field(default_factory=MemorySignals)
    written: list[str] = field(default_factory=list)
    work: str | None = None
    begun_at: int = 0
    later: timedelta = timedelta(0)
    """How much time has passed by moving the past."""

    @asynccontextmanager
    async def term(self, script: Script | None = None) -> AsyncIterator[Term]:
        """A leader; without a script one to whom nothing happens.

        When it ends, whether well or in a crash, nothing of it is left that could do anything.
        """
        script = script or Script()
        tasks: set[asyncio.Task[Any]] = set()
        owner = _tasks.set(tasks)
        store = ScriptedStore(self.store, script, self.written)
        mover = ThreadMover(store, script)
        seen = replace(
            self.world,
            runtime=ScriptedRuntime(self.runtime, script),
            store=store,
            mover=ScriptedMover(mover, script),
            pool=LentPool(self.lines, script),
            signals=ScriptedSignals(self.signals, script),
        )
        try:
            async with seen.term(listing=DAY, clock=_hurried()) as term:
                try:
                    yield term
                finally:
                    script.kill()
                    await script.idle()
        finally:
            _tasks.reset(owner)
            await _end(tasks)
            await mover.close()

    async def settle(self) -> None:
        """A new leader brings everything to rest."""
        async with self.term() as term:
            await term.settle()

    async def want(self, state: DesiredState) -> None:
        await self.world.want("api", state)

    async def rest_in(self, state: DesiredState) -> None:
        await self.want(state)
        await self.settle()

    async def row(self) -> Workspace:
        """The one workspace, deleted or not."""
        (found,) = await read_workspaces(self.conn)
        return found

    async def look(self) -> DictRow:
        """What is stored of it and matters here."""
        row = await (await self.conn.execute(f"SELECT {COLUMNS} FROM workspaces")).fetchone()
        assert row is not None
        return row

    async def type(self, text: str) -> None:
        """Somebody works in the home that is there."""
        row = await self.row()
        path = self.runtime.path(VolumeRef(row.id, row.status.home_generation))
        (path / FILE).write_text(text)
        self.work = text

    def expect_stranger(self) -> None:
        """In a container that is none of the hub's, and only the engine reaches the home."""
        self.runtime.remote = True
        self.runtime.let_in = self._let_in

    def _let_in(self, copy: EngineCopy) -> None:
        self.runtime.strangers[copy.container] = "an admin's own"
        self.work = "typed by a stranger"
        (Path(copy.directory) / FILE).write_text(self.work)

    def hide(self, home: str) -> None:
        """Its disk is away, or somebody moved it by hand."""
        (self.root / ELSEWHERE).mkdir(exist_ok=True)
        (self.runtime.root / home).rename(self.root / ELSEWHERE / home)

    def hidden(self) -> list[str]:
        """The homes that are away."""
        place = self.root / ELSEWHERE
        return sorted(each.name for each in place.iterdir()) if place.is_dir() else []

    def bring_back(self, home: str) -> None:
        (self.root / ELSEWHERE / home).rename(self.runtime.root / home)

    async def pass_time(self, by: timedelta) -> None:
        """Everything that is stored anywhere happened so much longer ago."""
        self.later += by
        self.runtime.ahead = self.later
        self.signals.pass_time(by)
        await clock.move_rows(self.conn, by, self.begun_at)
        clock.move_files(self.root / ARCHIVES, by)

    def now(self) -> datetime:
        """A moment that later ones can be compared with, however time passes in between."""
        return datetime.now(UTC) + self.later

    async def time_out_transactions(self) -> None:
        """What the server does after a minute: nobody holds its locks while asleep."""
        pids = self.lines.in_transaction()
        await self.conn.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM unnest(%s::int[]) AS pid", (pids,)
        )

    async def take_picture(self) -> Picture:
        rows, operations = await picture.take_rows(self.conn, self.begun_at)
        files, times = picture.take_files(self.root)
        return Picture(
            rows,
            files,
            times,
            dict(self.runtime.containers),
            self.signals.sentinel,
            operations,
            beside=tuple(self.runtime.beside),
            mounts=tuple(self.runtime.mounts),
            written=tuple(self.written),
            strangers=dict(self.runtime.strangers),
            sightings=dict(self.signals.members),
            remote=self.runtime.remote,
            expects_stranger=self.runtime.let_in is not None,
        )

    async def put_back(
        self, kept: Picture, work: str | None, *, keep_uploads: bool = False
    ) -> None:
        """The world as it was, with nothing of the runs in between."""
        self.begun_at = await picture.put_rows(self.conn, kept.rows)
        picture.put_files(self.root, kept, keep_uploads=keep_uploads)
        self.runtime.containers = dict(kept.containers)
        self.runtime.beside = [*kept.beside]
        self.runtime.strangers = dict(kept.strangers)
        self.runtime.remote = kept.remote
        self.runtime.let_in = self._let_in if kept.expects_stranger else None
        self.signals.begin_with(kept.sentinel, kept.sightings)
        self.runtime.failing.clear()
        self.runtime.mounts.clear()
        self.runtime.away = False
        self.written.clear()
        self.work = work


def _hurried() -> Callable[[], float]:
    """A clock by which whatever is to be tried again soon is due at the next look."""
    ticks = count(step=60)
    return lambda: next(ticks)


_tasks: ContextVar[set[asyncio.Task[Any]] | None] = ContextVar("tasks", default=None)
"""Where the tasks of the current leader are gathered."""


def _gather(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    """A task factory: what a leader begins, and all that follows from it, is its own."""
    task = asyncio.Task(work, loop=loop, **options)
    tasks = _tasks.get()
    if tasks is not None:
        tasks.add(task)
        task.add_done_callback(_look_at)
    return task


def _look_at(task: asyncio.Task[Any]) -> None:
    """What a dead leader's tasks raise is nobody's business."""
    if not task.cancelled():
        task.exception()


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    """What still sleeps or waits, of a leader whose every further call would crash."""
    left = {task for task in tasks if not task.done()} - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)


@asynccontextmanager
async def open_stage(url: str, root: Path) -> AsyncIterator[Stage]:
    """A machine and a store in a directory of their own; the rows are what they are."""
    for name in (VOLUMES, ARCHIVES):
        (root / name).mkdir()
    runtime, store = FastRuntime(root / VOLUMES), LocalStore(root / ARCHIVES)
    store.claim()
    lines = Lines(url)
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    # Thousands of faults are injected here; what is told of each would be all that one sees.
    logging.getLogger("codehub.coordinator").setLevel(logging.CRITICAL)
    with scripted_jobs():
        async with await connect(url) as conn:
            await picture.prepare(conn)
            await clock.prepare(conn)
            world = HubWorld(url, runtime, store, conn, DirectMover(store))
            loop.set_task_factory(_gather)
            try:
                yield Stage(root, conn, lines, world, runtime, store)
            finally:
                logging.getLogger("codehub.coordinator").setLevel(logging.NOTSET)
                loop.set_task_factory(before)
                await lines.close()
