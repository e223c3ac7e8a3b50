"""What a pass of the controller costs when many containers run, and what it asks of the engine.

    python -m tests.bench.bench_docker [--containers 200] [--passes 20]

The containers are real workspaces that a controller has started, so filling takes some minutes.
Passes over all of them are timed on the engine's own socket, and counted on a socket in between.
Prints the times of the first pass of a leader and of the usual ones, and the calls of one pass.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.adapters.docker import DockerRuntime
from codehub.adapters.docker.labels import HUB
from codehub.adapters.localstore import LocalStore
from codehub.model.workspace import Runtime
from codehub.store.connect import connect
from codehub.store.hubs import ensure_hub_id
from tests.bench.goals import Goals
from tests.bench.hub import HOUR, NO_LIMITS, databases, load
from tests.contract.docker_engine import busybox_image, engine_client, remove_labelled
from tests.contract.docker_proxy import Asked, engine_proxy
from tests.coordination.direct_mover import DirectMover
from tests.coordination.hub import HubWorld
from tests.integration.stored import apply
from tests.make import declaration, spec_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.contract.docker_proxy import Proxy

GOAL: Final = 1.0
SERVE: Final = ("sh", "-c", "exec httpd -f -p $PORT -h $HOME")
RUNNING: Final = "SELECT count(*) AS n FROM workspaces WHERE phase = 'RUNNING'"


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of the passes, and what each of the counted ones asked of the engine."""

    containers: int
    first: float
    usual: list[float]
    asked: list[Counter[Asked]]


@dataclass(frozen=True, slots=True)
class DockerHub:
    """A hub on the machine's engine; `counted` is the same with a socket in between."""

    world: HubWorld
    counted: HubWorld
    proxy: Proxy
    image: str

    async def fill(self, containers: int) -> None:
        """Start so many workspaces, as a controller does, unless they run already."""
        declared = [
            declaration(f"ws-{number}", runtime=Runtime.DOCKER, image=self.image, command=SERVE)
            for number in range(containers)
        ]
        await apply(self.world.conn, spec_set(*declared, digest=f"{containers} containers"))
        async with self.world.term(listing=HOUR) as term:
            await term.settle(passes=10 * containers + 60)
        row = await (await self.world.conn.execute(RUNNING)).fetchone()
        assert row == {"n": containers}

    async def measure(self, passes: int) -> Measured:
        """All of them rest: whatever a pass costs, it is for looking."""
        async with self.world.term(listing=HOUR) as term:
            first, *usual = [await _timed(term.controller.tick) for _ in range(passes + 1)]
        asked = []
        async with self.counted.term(listing=HOUR) as term:
            for _ in range(passes + 1):
                self.proxy.asked.clear()
                await term.controller.tick()
                asked.append(Counter(self.proxy.asked))
        row = await (await self.world.conn.execute(RUNNING)).fetchone()
        assert row is not None
        # The first one also asks for the engine's version.
        return Measured(row["n"], first, usual, asked[1:])


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


@asynccontextmanager
async def docker_hub(url: str, path: Path) -> AsyncIterator[DockerHub]:
    """A hub of its own, with nothing declared; what it made is removed in the end."""
    store = LocalStore(path / "archives")
    store.claim()
    with engine_client() as client, busybox_image() as image, engine_proxy() as proxy:
        async with await connect(url) as conn:
            hub_id = str(await ensure_hub_id(conn))
            plain, counted = DockerRuntime(hub_id), DockerRuntime(hub_id, base_url=proxy.base_url)
            await plain.claim(expects_data=False)
            world = HubWorld(
                url, plain, store, conn, DirectMover(store), limits=NO_LIMITS, kind=Runtime.DOCKER
            )
            try:
                yield DockerHub(world, replace(world, runtime=counted), proxy, image)
            finally:
                await counted.close()
                await plain.close()
                remove_labelled(client, f"{HUB}={hub_id}")


def show(measured: Measured) -> None:
    count, middle = measured.containers, statistics.median(measured.usual)
    print(
        f"{count} containers: first pass {1000 * measured.first:.0f} ms, usual pass"
        f" {1000 * middle:.0f} ms, slowest {1000 * max(measured.usual):.0f} ms"
    )
    for asked, times in sorted(measured.asked[0].items(), key=str):
        alike = "" if all(each == measured.asked[0] for each in measured.asked) else ", not always"
        print(f"each pass asks {times} time(s) for {asked.method} {asked.path}{alike}")
    print(load(), flush=True)


def judge(measured: Measured) -> Goals:
    goals = Goals()
    slowest = max(measured.first, statistics.median(measured.usual))
    goals.at_most("a pass", 1000 * slowest, 1000 * GOAL, " ms")
    most = max(times for each in measured.asked for times in each.values())
    goals.exactly("calls of each kind in a pass", most, 1)
    return goals


async def bench(url: str, path: Path, containers: int, passes: int) -> Measured:
    async with docker_hub(url, path) as hub:
        began = time.perf_counter()
        await hub.fill(containers)
        print(f"{containers} workspaces started in {time.perf_counter() - began:.0f} s", flush=True)
        measured = await hub.measure(passes)
    show(measured)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--containers", type=int, default=200)
    parser.add_argument("--passes", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as name, databases() as make:
        measured = asyncio.run(bench(make(), Path(name), given.containers, given.passes))
    judge(measured).finish()


if __name__ == "__main__":
    main()
