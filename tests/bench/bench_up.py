"""How long people wait for a new hub, and for another leader when one is killed.

    python -m tests.bench.bench_up [--runs 3]

Everything is real: `codehub up` in an empty directory with the example specs, and two coordinators
of which the leading one is ended with `kill -9`. Prints the medians beside the goals.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from tests.bench.goals import Goals
from tests.end_to_end.coordinators import Coordinators
from tests.end_to_end.hub import a_hub, until
from tests.end_to_end.visits import visit

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = {"playground": "RUNNING", "payments-api": "STANDBY", "nightly-report": "STANDBY"}


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds: from the command to a page, from there to settled examples, and to a new leader."""

    served: Sequence[float]
    settled: Sequence[float]
    taken_over: Sequence[float]


def bench(runs: int) -> Figures:
    starts = [_start() for _ in range(runs)]
    served, settled = zip(*starts, strict=True)
    return Figures(served, settled, [_take_over() for _ in range(runs)])


def _start() -> tuple[float, float]:
    with a_hub() as hub:
        hub.tell("init")
        began = time.monotonic()
        hub.start()
        until(lambda: visit(hub.port, "/").status == 200, "the page")
        served = time.monotonic()
        hub.until_settled(**EXAMPLES)
        return served - began, time.monotonic() - served


def _take_over() -> float:
    with a_hub() as hub:
        hub.tell("init")
        return Coordinators(hub).kill_leader()


def show(figures: Figures) -> None:
    for label, values, _ in _kinds(figures):
        print(f"{label:<46} median {median(values):5.2f} s, worst {max(values):5.2f} s")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)


def judge(figures: Figures) -> Goals:
    goals = Goals()
    for label, values, goal in _kinds(figures):
        goals.at_most(f"{label}, worst", max(values), goal, " s")
    return goals


def _kinds(figures: Figures) -> list[tuple[str, Sequence[float], int]]:
    return [
        ("codehub up until a page is served", figures.served, 10),
        ("from there until the examples are settled", figures.settled, 10),
        ("kill -9 of the leader until another one leads", figures.taken_over, 5),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=3)
    figures = bench(parser.parse_args().runs)
    show(figures)
    judge(figures).finish()


if __name__ == "__main__":
    main()
