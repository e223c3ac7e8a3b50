"""A hub for tests of the controller: terms of leadership that can be ended and begun at will."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from codehub.adapters.localstore import LocalStore
from codehub.coordinator.acts import Acts
from codehub.coordinator.archives import Archives
from codehub.coordinator.controller import WorkspaceController
from codehub.coordinator.hints import Hints
from codehub.coordinator.lead import Lead
from codehub.coordinator.lookout import World
from codehub.coordinator.marker import meet_store
from codehub.coordinator.pace import Failures, attempt
from codehub.coordinator.pulls import Pulls
from codehub.coordinator.rhythm import Rhythm
from codehub.coordinator.shelf import Shelf
from codehub.coordinator.steps import Tools
from codehub.model.decision import Rules
from codehub.model.workspace import Runtime
from codehub.service.limits import LimitDefaults
from codehub.store.connect import connect
from codehub.store.fence import take_epoch
from codehub.store.hubs import ensure_hub_id
from codehub.store.pool import Pool
from codehub.store.status import Idleness
from tests.coordination.direct_mover import DirectMover
from tests.coordination.fast_runtime import FastRuntime
from tests.integration.stored import apply, live
from tests.make import declaration, spec_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.coordinator.ttl import TtlRunner
    from codehub.model.states import DesiredState
    from codehub.model.workspace import Declaration, Workspace
    from codehub.ports import Mover, ObjectStore, Signals
    from codehub.ports import Runtime as RuntimePort

QUICK = Rules(backoff_first=timedelta(0), backoff_limit=timedelta(0))
"""Failures are tried again at once, so that no test waits."""


@dataclass
class Term:
    """One leader's time: the controller, and what tests look at."""

    lead: Lead
    world: World
    store: ObjectStore
    controller: WorkspaceController
    acts: Acts
    hints: Hints
    failures: Failures
    conn: AsyncConnection[DictRow]
    """The test's own connection, beside those of the leader."""
    signals: Signals | None = None
    pulls: Pulls = field(default_factory=Pulls)
    idleness: TtlRunner | None = None
    """The one look for idleness of this term, where there is one: it remembers who worked."""

    async def settle(self, passes: int = 60) -> None:
        """Pass after pass, acts carried to their ends in between, until nothing moves any more."""
        before = None
        for _ in range(passes):
            await self.controller.tick()
            await self.acts.quiet()
            after = (self.acts.ended, await self._versions())
            if after == before:
                return
            before = after
        raise AssertionError("it does not settle")

    async def pass_once(self) -> None:
        """A pass as the controller makes it by itself: one that fails is counted, and that is all.

        Ends by FenceLost when another one leads.
        """
        await attempt("controller", self.controller.tick, self.failures)
        await self.acts.quiet()

    async def _versions(self) -> object:
        query = "SELECT array_agg(xmin::text ORDER BY id) AS versions FROM workspaces"
        row = await (await self.conn.execute(query)).fetchone()
        assert row is not None
        return row["versions"]


@dataclass
class HubWorld:
    """Database, machine and store; they stay while leaders come and go."""

    url: str
    runtime: RuntimePort
    store: ObjectStore
    conn: AsyncConnection[DictRow]
    mover: Mover
    rules: Rules = QUICK
    limits: LimitDefaults = LimitDefaults(100, 1000)
    options: dict[str, Any] = field(default_factory=dict)
    pool: Pool | None = None
    """Connections that outlive the leaders; without it each leader opens its own."""
    signals: Signals | None = None
    kind: Runtime = Runtime.PROCESS
    """What `runtime` is called in declarations."""

    @asynccontextmanager
    async def term(self, **options: Any) -> AsyncIterator[Term]:
        """A new leader: the epochs of all before it are void."""
        async with self._pool() as pool:
            fence = await take_epoch(self.conn, "coordinator", "test")
            lead = Lead(await ensure_hub_id(self.conn), fence, pool)
            hints, failures = Hints(), Failures()
            await attempt("archive store", lambda: meet_store(lead, self.store), failures)
            shelf = Shelf(self.store, lead.hub_id)
            runtimes = {self.kind: self.runtime}
            pulls, secrets = Pulls(), options.get("secrets")
            acts = Acts(
                Tools(lead, runtimes, self.mover, shelf, timedelta(0), secrets, pulls),
                hints,
                actions=options.get("actions", 8),
                data_moves=options.get("data_moves", 2),
            )
            archives = Archives(
                shelf,
                interval=options.get("listing", 0.0),
                clock=options.get("clock") or asyncio.get_running_loop().time,
                on_listed=lambda: None,
            )
            world = World(runtimes, archives, self.rules, self.limits, Idleness(600, 30.0, 10.0))
            rhythm = options.get("rhythm") or Rhythm(0.05, 0.02, 1.0)
            on_pass = options.get("on_pass", lambda: None)
            controller = WorkspaceController(
                lead, world, acts, hints, rhythm, failures, on_pass=on_pass
            )
            try:
                yield Term(
                    lead,
                    world,
                    self.store,
                    controller,
                    acts,
                    hints,
                    failures,
                    self.conn,
                    self.signals,
                    pulls,
                )
            finally:
                await acts.close()
                await archives.close()
                shelf.close()

    def _pool(self) -> AbstractAsyncContextManager[Pool]:
        return (
            nullcontext(self.pool) if self.pool else Pool(self.url, **self.options.get("pool", {}))
        )

    async def declare(self, *declarations: Declaration) -> None:
        """Load these specs; what is not among them is pruned."""
        digest = repr(declarations)
        await apply(self.conn, spec_set(*declarations, digest=digest), immediately=True)

    async def want(self, name: str, state: DesiredState, source: str = "cli") -> None:
        await self.conn.execute(
            "UPDATE workspaces SET desired_state = %s, desired_source = %s, desired_at = now()"
            " WHERE name = %s AND deleted_at IS NULL",
            (state.value, source, name),
        )

    async def look(self, name: str = "api") -> Workspace:
        return await live(self.conn, name)

    async def id_of(self, name: str = "api") -> UUID:
        return (await self.look(name)).id


@asynccontextmanager
async def hub_world(url: str, path: Path) -> AsyncIterator[HubWorld]:
    """A hub with one workspace declared: `api`, desired RUNNING."""
    (path / "volumes").mkdir()
    runtime = FastRuntime(path / "volumes")
    store = LocalStore(path / "archives")
    store.claim()
    async with await connect(url) as conn:
        world = HubWorld(url, runtime, store, conn, DirectMover(store))
        await world.declare(declaration())
        yield world
