"""Passes of the controller over many workspaces, all of them where they should be.

    python -m tests.bench.bench_reconcile [--counts 1000,10000,100000] [--passes 5]

A third runs, a third sleeps, a third is archived; the machine and the archive store are tables, all
else is real. Prints for each count, from a process of its own, a new leader's first pass and the
usual one: time, CPU time, statements; then rows written and the peak memory.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.counted import count_writes
from tests.bench.fleet import MIXED
from tests.bench.goals import Goals
from tests.bench.hub import HOUR, Spent, apart, databases, fill, fleet_hub, load

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Passes:
    """Over `count` workspaces: a new leader's first pass, and those that follow."""

    count: int
    first: Spent
    steady: Sequence[Spent]
    written: int
    peak_mib: float

    @property
    def usual(self) -> Spent:
        return sorted(self.steady, key=lambda each: each.seconds)[len(self.steady) // 2]


async def measure(url: str, count: int, passes: int) -> Passes:
    """What a new leader does with a database that holds the fleet."""
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as root:
        async with (
            fleet_hub(url, Path(root), count, MIXED, size=1) as hub,
            hub.world.term(listing=HOUR) as term,
        ):
            async with count_writes(hub.world.conn, term.lead.pool) as written:
                first = await hub.spend(term.controller.tick)
                steady = [await hub.spend(term.controller.tick) for _ in range(passes)]
            assert not term.failures.counts, term.failures.counts
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Passes(count, first, steady, written.rows, peak)


def show(passes: Passes) -> None:
    for label, one in (("first pass", passes.first), ("usual pass", passes.usual)):
        print(
            f"{passes.count:>9,} workspaces, {label}: {one.seconds:6.2f} s  cpu"
            f" {one.cpu_seconds:6.2f} s  {one.statements} statements  {one.listings} listing"
        )
    print(
        f"{passes.count:>9,} workspaces, {1 + len(passes.steady)} passes: rows written"
        f" {passes.written}  peak {passes.peak_mib:.0f} MiB",
        flush=True,
    )


def bench(counts: Sequence[int], passes: int) -> list[Passes]:
    found = []
    with databases() as make:
        for count in counts:
            url = make()
            asyncio.run(fill(url, count, MIXED))
            found.append(apart(measure, url, count, passes))
            show(found[-1])
    print(load())
    return found


def judge(found: Sequence[Passes]) -> Goals:
    goals = Goals()
    statements = {(each.first.statements, each.usual.statements) for each in found}
    goals.exactly("numbers of statements, whatever the count", len(statements), 1)
    goals.exactly("rows written", sum(each.written for each in found), 0)
    for each in found:
        slowest = max(each.first.seconds, each.usual.seconds)
        if each.count <= 10_000:
            goals.at_most(f"a pass over {each.count:,}", slowest, 1, " s")
        else:
            goals.at_most(f"a pass over {each.count:,}", slowest, each.count / 10_000, " s")
            goals.at_most(f"memory at {each.count:,}", each.peak_mib, 1024, " MiB")
    return goals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--counts", default="1000,10000,100000")
    parser.add_argument("--passes", type=int, default=5)
    given = parser.parse_args()
    judge(bench([int(each) for each in given.counts.split(",")], given.passes)).finish()


if __name__ == "__main__":
    main()
