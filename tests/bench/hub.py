"""A hub of a fleet to be measured: its server, its database, and a counted controller."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

import psycopg

from codehub.coordinator.marker import create_marker
from codehub.embedded.postgres import EmbeddedPostgres
from codehub.service.limits import LimitDefaults
from codehub.store.connect import connect
from codehub.store.hubs import ensure_hub_id
from codehub.store.schema import upgrade
from tests.bench.counted import counting
from tests.bench.fleet import Fleet, TableRuntime, TableStore
from tests.coordination.direct_mover import DirectMover
from tests.coordination.hub import HubWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator

    from codehub.model.states import Phase

P = ParamSpec("P")
T = TypeVar("T")

HOUR: Final = 3600.0
NO_LIMITS: Final = LimitDefaults(10**9, 10**9)


@dataclass(frozen=True, slots=True)
class Spent:
    """What something took. The CPU time is this process's alone; Postgres works beside it."""

    seconds: float
    cpu_seconds: float
    statements: int
    listings: int


@dataclass(frozen=True, slots=True)
class FleetHub:
    """A hub whose statements and listings are counted."""

    world: HubWorld
    runtime: TableRuntime
    statements: Counter[str]

    async def spend(self, work: Callable[[], Awaitable[object]]) -> Spent:
        asked, listed = self.statements.total(), self.runtime.lists
        began, cpu = time.perf_counter(), time.process_time()
        await work()
        return Spent(
            time.perf_counter() - began,
            time.process_time() - cpu,
            self.statements.total() - asked,
            self.runtime.lists - listed,
        )


async def fill(url: str, count: int, mix: tuple[Phase, ...]) -> None:
    """Put a fleet into an empty database."""
    async with await connect(url) as conn:
        await Fleet(await ensure_hub_id(conn), count, mix).fill(conn)


@asynccontextmanager
async def fleet_hub(
    url: str, root: Path, count: int, mix: tuple[Phase, ...], **pool: Any
) -> AsyncIterator[FleetHub]:
    """The hub whose database was filled with this fleet; `root` is an empty directory."""
    async with await connect(url) as conn:
        fleet = Fleet(await ensure_hub_id(conn), count, mix)
        store = TableStore(fleet, root / "archives")
        store.claim()
        await create_marker(store, fleet.hub_id)
        runtime, statements = TableRuntime(fleet, root), Counter[str]()
        options = {"pool": {"connection_class": counting(statements), **pool}}
        mover = DirectMover(store)
        world = HubWorld(url, runtime, store, conn, mover, limits=NO_LIMITS, options=options)
        yield FleetHub(world, runtime, statements)


@contextmanager
def databases(*options: str) -> Iterator[Callable[[], str]]:
    """A server as `codehub up` starts one; each call makes a database with the newest schema.

    `options` are for the server: ("-c", "fsync=off") leaves the disk out of what is measured.
    """
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as name:
        Path(name).chmod(0o755)
        with EmbeddedPostgres(Path(name) / "postgres", options=options) as server:
            made: list[str] = []

            def make() -> str:
                database = f"bench_{len(made)}"
                with psycopg.connect(server, autocommit=True) as conn:
                    conn.execute(f"CREATE DATABASE {database}")
                made.append(urlsplit(server)._replace(path=f"/{database}").geturl())
                upgrade(made[-1])
                return made[-1]

            yield make


def apart(work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run it in a new process, whose peak memory is nobody else's."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_run, partial(work, *args, **kwargs)).result()


def _run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(work())


def load() -> str:
    return f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
