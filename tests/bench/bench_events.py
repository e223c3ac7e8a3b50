"""An update to many who follow, all on one process of the web application.

    python -m tests.bench.bench_events [--clients 1000] [--updates 20] [--workspaces 10]

Each client is an admin with a login of their own, so that everybody gets every update. The update
is a row that changes; a coordinator's listener tells of it. Prints the time from before the write
until each client has it, and until the last one has; what one client takes of the process's memory;
and the connections to the database with one client and with all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.coordinator.hints import Hints
from codehub.coordinator.listen import EventListener
from codehub.coordinator.pace import Failures
from codehub.embedded.redis import EmbeddedRedis
from codehub.proxy.server import new_event_loop
from codehub.store.connect import connect
from tests.bench.fleet import MIXED
from tests.bench.goals import Goals
from tests.bench.hub import databases, fill, load
from tests.bench.proxies.processes import PATIENCE, cpu_seconds, resident_mib
from tests.bench.web import Web, admins, connections, percentile, request, serving_web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.bench.web import Conn

PATH: Final = "/api/v1/events"
BURST: Final = 30
OPENING: Final = 100
"""Streams that are opened at once."""
PAUSE: Final = 0.2
QUIET: Final = 3.0


@dataclass(slots=True)
class Told:
    """What all clients wait for, and when each of them had it."""

    marker: bytes = b""
    at: list[float] = field(default_factory=list)
    all_told: asyncio.Event = field(default_factory=asyncio.Event)
    clients: int = 0

    def expect(self, marker: bytes, clients: int) -> None:
        self.marker, self.clients, self.at = marker, clients, []
        self.all_told.clear()

    def note(self) -> None:
        self.at.append(time.perf_counter())
        if len(self.at) == self.clients:
            self.all_told.set()


class Follower(asyncio.Protocol):
    """A client that reads all it gets and looks for the marker in it."""

    def __init__(self, told: Told, shown: str) -> None:
        self._told = told
        self._shown = shown
        self._tail = b""
        self._had = b""
        self.ready = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(request(PATH, self._shown))

    def data_received(self, data: bytes) -> None:
        text = self._tail + data
        marker = self._told.marker
        if not self.ready.done() and b'"last":true' in text:
            self.ready.set_result(None)
        if marker and marker != self._had and marker in text:
            self._had = marker
            self._told.note()
        self._tail = text[-100:]

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(RuntimeError(f"a stream ended: {self._tail!r} {error}"))


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds for each client and update; then seconds until the last client had each update."""

    clients: int
    delays: list[float]
    complete: list[float]
    opening: float
    kib_each: float
    cpu_ms: float
    connections: tuple[int, int]


@asynccontextmanager
async def telling(url: str, redis_url: str) -> AsyncIterator[None]:
    """A coordinator's listener."""
    signals, listens = RedisSignals(redis_url), asyncio.Event()
    listener = EventListener(
        url,
        signals,
        Hints(),
        Settings(),
        Failures(),
        on_request=listens.set,
        on_change=lambda: None,
    )
    task = asyncio.create_task(listener.run())
    try:
        await asyncio.wait_for(listens.wait(), PATIENCE)
        yield
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)
        await signals.close()


async def open_streams(port: int, told: Told, shown: list[str]) -> list[Follower]:
    """A stream for each login; all have their snapshot when this returns."""
    opened: list[Follower] = []
    loop = asyncio.get_running_loop()
    for begin in range(0, len(shown), OPENING):
        some = shown[begin : begin + OPENING]
        made = await asyncio.gather(
            *(
                loop.create_connection(partial(Follower, told, each), "127.0.0.1", port)
                for each in some
            )
        )
        opened += [follower for _, follower in made]
        await asyncio.wait_for(asyncio.gather(*(each.ready for _, each in made)), PATIENCE)
    return opened


async def update(conn: Conn, told: Told, number: int, clients: int) -> list[float]:
    """Change a row; seconds until each client had it."""
    memo = f"update-{number}-of-many"
    told.expect(f'"memo":"{memo}"'.encode(), clients)
    began = time.perf_counter()
    await conn.execute("UPDATE workspaces SET memo = %s WHERE name = 'ws-1'", (memo,))
    await asyncio.wait_for(told.all_told.wait(), PATIENCE)
    return [at - began for at in told.at]


async def warm_up(port: int, shown: str) -> None:
    """As many requests at once as make the process take all connections that it ever will."""

    async def ask() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("/api/v1/workspaces?limit=100", shown))
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    for _ in range(3):
        await asyncio.gather(*(ask() for _ in range(BURST)))


async def measure(url: str, redis_url: str, web: Web, clients: int, updates: int) -> Figures:
    told = Told()
    async with await connect(url) as conn, telling(url, redis_url):
        shown = await admins(conn, clients)
        await warm_up(web.port, shown[0])
        followers = await open_streams(web.port, told, shown[:1])
        await update(conn, told, -1, 1)
        alone, memory = await connections(conn), resident_mib(web.pid)
        began = time.perf_counter()
        followers += await open_streams(web.port, told, shown[1:])
        opening = time.perf_counter() - began
        await asyncio.sleep(QUIET)
        kib_each = (resident_mib(web.pid) - memory) * 1024 / max(1, clients - 1)
        rounds, cpu = [], cpu_seconds(web.pid)
        for number in range(updates):
            rounds.append(await update(conn, told, number, clients))
            await asyncio.sleep(PAUSE)
        cpu_ms = (cpu_seconds(web.pid) - cpu) * 1000 / updates
        together = await connections(conn)
        for each in followers:
            each.transport.abort()
    delays = [delay for each in rounds for delay in each]
    complete = [max(each) for each in rounds]
    return Figures(clients, delays, complete, opening, kib_each, cpu_ms, (alone, together))


def show(figures: Figures) -> None:
    delays, complete = figures.delays, figures.complete
    print(
        f"{figures.clients:,} clients, {len(complete)} updates: an update has come to a client"
        f" after p50 {percentile(delays, 0.5) * 1000:.0f} ms, p99"
        f" {percentile(delays, 0.99) * 1000:.0f} ms; to all of them after at most"
        f" {max(complete) * 1000:.0f} ms (usually {percentile(complete, 0.5) * 1000:.0f} ms)"
    )
    print(
        f"memory for each client {figures.kib_each:.1f} KiB  cpu for each update"
        f" {figures.cpu_ms:.0f} ms  opening all {figures.opening:.1f} s"
    )
    alone, together = figures.connections
    print(
        f"connections to the database with 1 client {alone}, with {figures.clients:,} {together}",
        flush=True,
    )


def bench(clients: int, updates: int, workspaces: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as name, databases() as make:
        Path(name).chmod(0o755)
        with EmbeddedRedis(Path(name) / "redis") as redis_url:
            url = make()
            asyncio.run(fill(url, workspaces, MIXED))
            with (
                serving_web(url, redis_url, web_streams=str(2 * clients)) as web,
                asyncio.Runner(loop_factory=new_event_loop) as runner,
            ):
                figures = runner.run(measure(url, redis_url, web, clients, updates))
    show(figures)
    print(load())
    return figures


def judge(figures: Figures) -> Goals:
    goals = Goals()
    goals.at_most("an update until all have it", max(figures.complete), 1, " s")
    alone, together = figures.connections
    goals.at_most("more connections to the database", together - alone, 0)
    return goals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--workspaces", type=int, default=10)
    given = parser.parse_args()
    judge(bench(given.clients, given.updates, given.workspaces)).finish()


if __name__ == "__main__":
    main()
