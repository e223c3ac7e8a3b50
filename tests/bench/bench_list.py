"""The first page of a long list, asked for again and again while a controller is at work.

    python -m tests.bench.bench_list [--count 10000] [--rate 20] [--seconds 30] [--pause 1]

All workspaces are where they should be, a third each in RUNNING, STANDBY and ARCHIVED; a controller
in a process of its own passes over all of them, and begins again after a pause (in a hub at rest
that is 15 seconds). Requests begin at their times, whether the one before is answered or not, and
their time counts from there. Prints it for an admin's list and for an owner's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codehub.embedded.redis import EmbeddedRedis
from codehub.store.connect import connect
from tests.bench.fleet import MIXED
from tests.bench.goals import Goals
from tests.bench.hub import HOUR, databases, fill, fleet_hub, load
from tests.bench.proxies.processes import PATIENCE
from tests.bench.web import admins, percentile, request, serving_web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from multiprocessing.synchronize import Event

PATHS: Final = {
    "everything": "/api/v1/workspaces?limit=100",
    "one owner's": "/api/v1/workspaces?limit=100&owner=alice",
    "what runs": "/api/v1/workspaces?limit=100&phase=RUNNING",
}
WARM: Final = 10
IDLE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Listed:
    """Seconds for each request of one kind, and how many passes went on meanwhile."""

    kind: str
    count: int
    seconds: list[float]
    passes: int


class Connection:
    """Kept alive; one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def get(self, path: str, shown: str) -> Any:
        self._writer.write(request(path, shown))
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        if not head.startswith("http/1.1 200"):
            raise RuntimeError(f"{path} was answered with {head}")
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        return await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()


class Connections:
    """As many as are in use at once; one that was idle for long may have been closed there."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[float, Connection]] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Connection]:
        since, connection = self._idle.pop() if self._idle else (0.0, None)
        if connection is None or time.perf_counter() - since > IDLE:
            connection = Connection(*await asyncio.open_connection("127.0.0.1", self._port))
        yield connection
        self._idle.append((time.perf_counter(), connection))

    def close(self) -> None:
        for _, each in self._idle:
            each.close()


async def ask(
    connections: Connections, path: str, shown: str, *, rate: float, seconds: float
) -> list[float]:
    """What each of so many requests a second took."""
    taken: list[float] = []

    async def one(due: float) -> None:
        async with connections.one() as connection:
            await connection.get(path, shown)
        taken.append(time.perf_counter() - due)

    async with connections.one() as connection:
        for _ in range(WARM):
            page = json.loads(await connection.get(path, shown))
            assert page["items"], "there is nothing to list"
    begin, number = time.perf_counter(), max(1, round(rate * seconds))
    tasks: list[asyncio.Task[None]] = []
    for index in range(number):
        due = begin + index / rate
        await asyncio.sleep(due - time.perf_counter())
        tasks.append(asyncio.create_task(one(due)))
    await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
    return taken


async def measure(
    url: str, port: int, count: int, rate: float, seconds: float, passes: Any
) -> list[Listed]:
    async with await connect(url) as conn:
        (shown,) = await admins(conn, 1)
    connections, found = Connections(port), []
    for kind, path in PATHS.items():
        before = passes.value
        taken = await ask(connections, path, shown, rate=rate, seconds=seconds)
        found.append(Listed(kind, count, taken, passes.value - before))
    connections.close()
    return found


async def _pass_over(
    url: str, count: int, pause: float, begun: Event, ended: Event, passes: Any
) -> None:
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as root:
        async with (
            fleet_hub(url, Path(root), count, MIXED) as hub,
            hub.world.term(listing=HOUR) as term,
        ):
            while not ended.is_set():
                await term.controller.tick()
                passes.value += 1
                begun.set()
                await asyncio.to_thread(ended.wait, pause)
            assert not term.failures.counts, term.failures.counts


def _controller(*given: Any) -> None:
    asyncio.run(_pass_over(*given))


@contextmanager
def passing_over(url: str, count: int, pause: float) -> Iterator[Any]:
    """A controller at work until the block ends; how many passes it has made, in `value`."""
    context = multiprocessing.get_context("spawn")
    begun, ended, passes = context.Event(), context.Event(), context.Value("i", 0)
    process = context.Process(target=_controller, args=(url, count, pause, begun, ended, passes))
    process.start()
    try:
        if not begun.wait(PATIENCE):
            raise RuntimeError("the controller makes no pass")
        yield passes
    finally:
        ended.set()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
    if process.exitcode:
        raise RuntimeError(f"the controller ended with {process.exitcode}")


def show(listed: Listed) -> None:
    times = [
        f"{name} {percentile(listed.seconds, part) * 1000:.1f} ms"
        for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("slowest", 1.0))
    ]
    print(
        f"{listed.count:>9,} workspaces, first page of {listed.kind}: {'  '.join(times)}"
        f"  ({len(listed.seconds)} requests, {listed.passes} passes)",
        flush=True,
    )


def bench(count: int, rate: float, seconds: float, pause: float) -> list[Listed]:
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as name, databases() as make:
        Path(name).chmod(0o755)
        with EmbeddedRedis(Path(name) / "redis") as redis_url:
            url = make()
            asyncio.run(fill(url, count, MIXED))
            with (
                serving_web(url, redis_url) as web,
                passing_over(url, count, pause) as passes,
            ):
                found = asyncio.run(measure(url, web.port, count, rate, seconds, passes))
    for each in found:
        show(each)
    print(load())
    return found


def judge(found: list[Listed]) -> Goals:
    goals = Goals()
    for each in found:
        slow = 1000 * percentile(each.seconds, 0.99)
        goals.at_most(f"p99 of the first page of {each.kind}", slow, 100, " ms")
    return goals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--pause", type=float, default=1)
    given = parser.parse_args()
    judge(bench(given.count, given.rate, given.seconds, given.pause)).finish()


if __name__ == "__main__":
    main()
