"""Many sleeping workspaces asked for at once, started by the controller's own loop.

    python -m tests.bench.bench_starts [--counts 1000,2000,4000] [--actions 8] [--start-seconds 0]

The machine is a table, so starting costs nothing and all that is measured is ours and Postgres's;
with `--start-seconds` a start takes its time, and the passes in between are measured too.
Prints the time of each, and how the whole grows with every step: linear is the ratio of counts.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.coordinator.rhythm import Rhythm
from codehub.model.states import Phase
from tests.bench.goals import Goals
from tests.bench.hub import HOUR, FleetHub, Spent, apart, databases, fill, fleet_hub, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.coordination.hub import Term

ASLEEP: Final = (Phase.STANDBY,)
PATIENCE: Final = 600.0

WAKE: Final = """
UPDATE workspaces SET desired_state = 'RUNNING', desired_source = 'visit', desired_at = now()
"""
LEFT: Final = """
SELECT count(*) AS n FROM workspaces WHERE phase <> 'RUNNING' OR operation <> 'NONE'
"""


@dataclass(frozen=True, slots=True)
class Starts:
    count: int
    spent: Spent

    @property
    def each(self) -> float:
        return self.spent.seconds / self.count


async def measure(url: str, count: int, actions: int, start_seconds: float) -> Starts:
    """From the moment they are asked for until all are seen to run, at the pace of the settings."""
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as root:
        async with (
            fleet_hub(url, Path(root), count, ASLEEP) as hub,
            hub.world.term(listing=HOUR, actions=actions, rhythm=Rhythm(15.0, 1.0, 30.0)) as term,
        ):
            hub.runtime.start_seconds = start_seconds
            await term.controller.tick()
            running = asyncio.create_task(term.controller.run())
            try:
                async with asyncio.timeout(PATIENCE):
                    spent = await hub.spend(lambda: _wake_all(hub, term))
            finally:
                running.cancel()
                await asyncio.wait({running})
            assert not term.failures.counts, term.failures.counts
            assert len(hub.runtime.running) == count
    return Starts(count, spent)


async def _wake_all(hub: FleetHub, term: Term) -> None:
    """Each is hinted at, as a listener does."""
    conn = hub.world.conn
    await conn.execute(WAKE)
    for each in hub.runtime.homes:
        term.hints.tell(each)
    while True:
        row = await (await conn.execute(LEFT)).fetchone()
        if row is not None and row["n"] == 0:
            return
        await asyncio.sleep(0.1)


def show(starts: Starts) -> None:
    spent, count = starts.spent, starts.count
    print(
        f"{count:>7,} starts: {spent.seconds:7.2f} s  cpu {spent.cpu_seconds:7.2f} s"
        f"  {1000 * starts.each:6.2f} ms each  {spent.statements / count:5.1f} statements each"
        f"  {spent.listings} passes",
        flush=True,
    )


def bench(counts: Sequence[int], actions: int, start_seconds: float) -> list[Starts]:
    measured = []
    with databases("-c", "fsync=off") as make:
        for count in counts:
            url = make()
            asyncio.run(fill(url, count, ASLEEP))
            measured.append(apart(measure, url, count, actions, start_seconds))
            show(measured[-1])
    for less, more in pairwise(measured):
        grown = more.spent.seconds / less.spent.seconds
        cpu = more.spent.cpu_seconds / less.spent.cpu_seconds
        times = more.count / less.count
        print(f"{times:.1f} times as many: {grown:.2f} times as long, {cpu:.2f} times the cpu")
    print(load())
    return measured


def judge(measured: Sequence[Starts]) -> Goals:
    """Linear, with room for a busy machine: quadratic growth would be twice the ratio of counts."""
    goals = Goals()
    for less, more in pairwise(measured):
        grown = (more.spent.seconds / less.spent.seconds) / (more.count / less.count)
        goals.at_most(f"growth from {less.count:,} to {more.count:,}, linear is 1", grown, 1.5)
    return goals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--counts", default="1000,2000,4000")
    parser.add_argument("--actions", type=int, default=8)
    parser.add_argument("--start-seconds", type=float, default=0.0)
    given = parser.parse_args()
    counts = [int(each) for each in given.counts.split(",")]
    judge(bench(counts, given.actions, given.start_seconds)).finish()


if __name__ == "__main__":
    main()
