"""What the TTLRunner asks of Postgres at every tick, over a million workspaces with nothing due.

    python -m tests.bench.bench_ttl [--count 1000000] [--runs 20]

A third runs, a third sleeps, a third is archived; half of them have TTLs of their own. Prints each
statement's usual and slowest time and the indexes it goes by. There are enough runs for Postgres to
plan it anew without looking at the values, as it does for statements that come again and again.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from codehub.store import ttl
from codehub.store.clock import read_now
from codehub.store.connect import connect
from codehub.store.fence import take_epoch
from codehub.store.pool import Pool
from tests.bench.counted import counting
from tests.bench.fleet import MIXED
from tests.bench.goals import Goals
from tests.bench.hub import databases, fill, load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.store.fence import Fence

    Conn = AsyncConnection[DictRow]

STANDBY: Final = 600
ARCHIVE: Final = 1800
FLUSH: Final = 30.0
SLACK: Final = 10.0
REMINDER: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Asked:
    """One statement: how long each run took, how many workspaces it found, how it was planned."""

    name: str
    seconds: Sequence[float]
    found: int
    plan: str

    @property
    def indexes(self) -> list[str]:
        return sorted(set(re.findall(r"workspaces_\w+_due\w*|workspaces_reconcile", self.plan)))

    @property
    def reads_all(self) -> bool:
        return "Seq Scan on workspaces" in self.plan


async def measure(url: str, runs: int) -> list[Asked]:
    """Each statement of a tick, on one connection of the pool."""
    statements = Counter[str]()
    async with (
        await connect(url) as conn,
        Pool(url, size=1, connection_class=counting(statements)) as pool,
    ):
        fence = await take_epoch(conn, "coordinator", "bench")
        now = await read_now(conn)
        bounds = ttl.Bounds(now, now - timedelta(days=1), STANDBY, ARCHIVE)
        values = _values(bounds, fence)
        asked = []
        for name, ask in _questions(fence, bounds).items():
            statements.clear()
            async with pool.connection() as pooled:
                seconds, found = await _time(pooled, ask, runs)
            plan = await _plan(conn, next(iter(statements)), values)
            asked.append(Asked(name, seconds, found, plan))
        return asked


def _questions(
    fence: Fence, bounds: ttl.Bounds
) -> dict[str, Callable[[Conn], Awaitable[Sequence[object]]]]:
    soon = bounds.horizon + timedelta(minutes=2)
    return {
        "lower to STANDBY": lambda conn: ttl.lower_to_standby(conn, fence, bounds, ()),
        "lower to ARCHIVED": lambda conn: ttl.lower_to_archived(conn, fence, bounds),
        "remind": lambda conn: ttl.remind(conn, fence, bounds, REMINDER),
        "whose work to watch": lambda conn: ttl.read_watched(conn, bounds, soon),
        "bring back": lambda conn: ttl.bring_back(
            conn, fence, standby=STANDBY, flush=FLUSH, slack=SLACK
        ),
    }


async def _time(
    conn: Conn, ask: Callable[[Conn], Awaitable[Sequence[object]]], runs: int
) -> tuple[list[float], int]:
    seconds, found = [], 0
    for _ in range(runs):
        began = time.perf_counter()
        found += len(await ask(conn))
        seconds.append(time.perf_counter() - began)
    return seconds, found


def _values(bounds: ttl.Bounds, fence: Fence) -> dict[str, Any]:
    return {
        **bounds.values,
        **fence.values,
        "quiet": [],
        "reminder": REMINDER,
        "soon": bounds.horizon,
        "flush": FLUSH,
        "slack": SLACK,
    }


async def _plan(conn: Conn, statement: str, values: Mapping[str, Any]) -> str:
    found = await conn.execute(f"EXPLAIN {statement}", values)
    return "\n".join(row["QUERY PLAN"] for row in await found.fetchall())


def show(asked: Asked, count: int) -> None:
    usual, slowest = statistics.median(asked.seconds), max(asked.seconds)
    way = "reads them all" if asked.reads_all else f"by {', '.join(asked.indexes)}"
    print(
        f"{asked.name:<20} {count:>9,} workspaces: {1000 * usual:7.2f} ms, slowest"
        f" {1000 * slowest:7.2f} ms  {asked.found} found  {way}",
        flush=True,
    )


def bench(count: int, runs: int) -> Sequence[Asked]:
    with databases() as make:
        url = make()
        asyncio.run(fill(url, count, MIXED))
        asked = asyncio.run(measure(url, runs))
    for each in asked:
        show(each, count)
    print(load())
    return asked


def judge(asked: Sequence[Asked]) -> Goals:
    goals = Goals()
    for each in asked:
        goals.at_most(each.name, 1000 * statistics.median(each.seconds), 100, " ms")
        goals.exactly(f"{each.name}, by an index", not each.reads_all, True)
    return goals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    judge(bench(given.count, given.runs)).finish()


if __name__ == "__main__":
    main()
