"""Our proxy beside configurable-http-proxy, nginx and Caddy: same upstream, same load, in turns.

    python -m tests.bench.bench_proxy [--seconds 5] [--runs 3] [--idle 5000] [--gate MODULE:NAME]

Ours is as users have it: it routes by the database, knows the visitor by a cookie, and records
activity. `--gate` puts something else in that place (see tests/bench/proxies/gates.py).

Prints medians: requests/s of 1 KiB answers and of 1 MiB answers on 32 connections, echo round
trips/s on 32 WebSockets, the latency that one more hop adds; the processor time that each took,
which says more on a busy machine; then what idle WebSockets cost ours. All runs on loopback.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.bench.goals import Goals
from tests.bench.proxies.loads import (
    allow_files,
    downloads,
    has_wrk,
    idle_websockets,
    requests,
    round_trips,
)
from tests.bench.proxies.peers import Started, find_caddy, find_chp, find_nginx, ours
from tests.bench.proxies.processes import (
    assign_cores,
    cpu_seconds,
    free_port,
    resident_mib,
    running,
)
from tests.bench.proxies.whole import whole_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.bench.proxies.peers import Peer
    from tests.bench.proxies.processes import Cores

CONNECTIONS = 32
DIRECT = "no proxy"
SMALL, LARGE, ECHO, LATENCY = "1 KiB", "1 MiB", "WebSocket", "p50 ms"

Figures = dict[str, dict[str, list[float]]]
"""By proxy and by kind of load, one figure for each run."""


@dataclass(frozen=True, slots=True)
class Place:
    """A proxy, once in front of the HTTP upstream and once in front of the echo."""

    name: str
    http: Started
    echo: Started


@dataclass(frozen=True, slots=True)
class Idle:
    """What all idle WebSockets took together: memory, and the share of a core."""

    mib: float
    share: float


RATIOS = {
    ("configurable-http-proxy", SMALL): 4.0,
    ("configurable-http-proxy", LARGE): 3.0,
    ("configurable-http-proxy", ECHO): 0.8,
    ("nginx", SMALL): 0.5,
    ("nginx", LARGE): 1.0,
    ("caddy", SMALL): 1.0,
}
"""At least so many times the figure of each."""


def bench(
    peers: Sequence[Peer], seconds: float, runs: int, idle: int, gate: str | None = None
) -> tuple[Figures, Idle]:
    """Measure, and print what came out."""
    allow_files()
    cores = assign_cores()
    print(f"{cores}; load average before: {os.getloadavg()[0]:.1f}; {runs} runs of {seconds} s")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        root = Path(scratch)
        http, echo = (_upstream(stack, kind, root, cores) for kind in ("http", "echo"))
        places = [Place(DIRECT, Started(http, 0), Started(echo, 0))]
        own = ours(gate) if gate else stack.enter_context(whole_proxy())
        for peer in (own, *peers):
            started = [
                stack.enter_context(peer.start(root, port, cores.proxy)) for port in (http, echo)
            ]
            places.append(Place(peer.name, *started))
        figures, costs = _measure(places, seconds, runs, cores)
        _print(figures)
        _print_costs(costs)
        rest = _idle(places[1].echo, idle, seconds, root, cores)
    print(f"load average after: {os.getloadavg()[0]:.1f}")
    return figures, rest


def _upstream(stack: ExitStack, kind: str, root: Path, cores: Cores) -> int:
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.proxies.upstream", kind, str(port)]
    stack.enter_context(running(command, port, cores.upstream, root / f"upstream-{kind}.log"))
    return port


def _measure(
    places: list[Place], seconds: float, runs: int, cores: Cores
) -> tuple[Figures, Figures]:
    """In turns, so that whatever else the machine does hits all alike."""
    figures: Figures = defaultdict(lambda: defaultdict(list))
    costs: Figures = defaultdict(lambda: defaultdict(list))
    loads = _loads(seconds, cores)
    for _ in range(runs):
        for kind, load in loads.items():
            for place in places:
                pid = (place.echo if kind == ECHO else place.http).pid
                before, begin = cpu_seconds(pid), time.perf_counter()
                found = load(place)
                count = found * min(max(1, seconds), time.perf_counter() - begin)
                figures[place.name][kind].append(found)
                costs[place.name][kind].append((cpu_seconds(pid) - before) / count * 1e6)
    return figures, costs


def _loads(seconds: float, cores: Cores) -> dict[str, Callable[[Place], float]]:
    core = cores.load
    sockets: dict[str, Callable[[Place], float]] = {
        ECHO: lambda place: round_trips(place.echo, CONNECTIONS, seconds, core)
    }
    if not has_wrk():
        print("wrk is not installed: no requests are measured")
        return sockets
    return {
        SMALL: lambda place: requests(place.http, "small", CONNECTIONS, seconds, core)[0],
        LARGE: lambda place: downloads(place.http, "large", CONNECTIONS, seconds, core),
        LATENCY: lambda place: requests(place.http, "small", 1, seconds, core)[1],
        **sockets,
    }


def _print(figures: Figures) -> None:
    kinds = [kind for kind in (SMALL, LARGE, ECHO, LATENCY) if kind in figures[DIRECT]]
    print(f"{'':26}" + "".join(f"{kind:>12}" for kind in kinds))
    middles = {
        name: {kind: median(found[kind]) for kind in kinds} for name, found in figures.items()
    }
    for name, found in middles.items():
        print(f"{name:26}" + "".join(_number(kind, found[kind]) for kind in kinds))
    own = next(name for name in middles if name != DIRECT)
    for name, found in middles.items():
        if name not in (DIRECT, own):
            ratios = [kind for kind in kinds if kind != LATENCY]
            parts = (f"{middles[own][kind] / found[kind]:>11.2f}x" for kind in ratios)
            print(f"{own} to {name:15}"[:26].ljust(26) + "".join(parts))
    if LATENCY in kinds:
        added = middles[own][LATENCY] - middles[DIRECT][LATENCY]
        print(f"latency added by {own}: {added:.3f} ms at the median")


def _print_costs(costs: Figures) -> None:
    """Processor time for each request or round trip."""
    for name, found in costs.items():
        kinds = [kind for kind in (SMALL, LARGE, ECHO) if kind in found]
        if name != DIRECT:
            parts = ", ".join(f"{median(found[kind]):.0f} µs ({kind})" for kind in kinds)
            print(f"{name} took {parts}")


def _number(kind: str, value: float) -> str:
    return f"{value:>12.3f}" if kind == LATENCY else f"{value:>12,.0f}"


def _idle(place: Started, count: int, seconds: float, root: Path, cores: Cores) -> Idle:
    """What WebSockets cost that do nothing."""
    if not count:
        return Idle(0.0, 0.0)
    before = resident_mib(place.pid)
    with idle_websockets(place, count, root / "ready", cores.load):
        after = resident_mib(place.pid)
        used, begin = cpu_seconds(place.pid), time.perf_counter()
        time.sleep(seconds)
        share = (cpu_seconds(place.pid) - used) / (time.perf_counter() - begin)
        grown = max(after, resident_mib(place.pid)) - before
    print(f"{count} idle WebSockets: {grown:.1f} MiB more memory, {share:.1%} of a core")
    return Idle(grown, share)


def find_peers(scratch: Path) -> list[Peer]:
    """Those that can be had here; a line for each that cannot."""
    found = []
    for name, find in (
        ("configurable-http-proxy", find_chp),
        ("nginx", find_nginx),
        ("caddy", find_caddy),
    ):
        peer = find(scratch)
        if peer is None:
            print(f"{name} is not here and cannot be fetched: left out")
        else:
            found.append(peer)
    return found


def judge(figures: Figures, idle: Idle) -> Goals:
    goals = Goals()
    own = next(name for name in figures if name != DIRECT)
    for (peer, kind), least in RATIOS.items():
        if kind in figures.get(peer, {}):
            ratio = median(figures[own][kind]) / median(figures[peer][kind])
            goals.at_least(f"{kind}, times {peer}", ratio, least)
    if LATENCY in figures[own]:
        added = median(figures[own][LATENCY]) - median(figures[DIRECT][LATENCY])
        goals.at_most("added latency at the median", added, 1, " ms")
    goals.at_most("memory of all idle WebSockets", idle.mib, 100, " MiB")
    goals.at_most("their share of a core", 100 * idle.share, 5, " %")
    return goals


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--idle", type=int, default=5000)
    parser.add_argument("--gate", help="what decides in ours, in place of a whole hub")
    parser.add_argument("--peers", type=Path, help="where to keep what is fetched")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        kept = arguments.peers or Path(scratch)
        kept.mkdir(parents=True, exist_ok=True)
        peers = find_peers(kept)
        found = bench(peers, arguments.seconds, arguments.runs, arguments.idle, arguments.gate)
    judge(*found).finish()


if __name__ == "__main__":
    main()
