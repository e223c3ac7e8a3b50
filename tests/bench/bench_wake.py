"""From asleep to an answering port, beside `docker run` of the same image, in turns.

    python -m tests.bench.bench_wake [--runs 20] [--network NAME]

Ours is the whole way of a visit: the wish is written, a coordinator hears of it, claims the start
and carries it out. Theirs is the command until its container's port answers. Both are watched by
one observer: it hears of the container from the engine and asks its port until somebody answers.
Prints the medians, their ratio, and when the hub itself says that the workspace runs. `docker run`
uses the engine's default network; the same in the hub's own network, with its options, is a third:
an engine takes longer for any network but its default one (`--network bridge` leaves that out).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

import psycopg

from codehub.adapters.docker.labels import HUB, container_name
from codehub.embedded.redis import EmbeddedRedis
from codehub.model.access import Person
from codehub.model.people import Role
from codehub.model.states import DesiredState
from codehub.model.workspace import StartOn
from codehub.proxy.wake import waker
from codehub.store.pool import Pool
from tests.bench.goals import Goals
from tests.bench.hub import databases, load
from tests.contract.docker_engine import SOCKET, busybox_image, engine_client, remove_labelled
from tests.engine.live_hub import SERVE, LiveHub, live_hub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import docker

GOAL: Final = 1.3
PORT: Final = 8080
NAME: Final = "api"
ADMIN: Final = Person(UUID(int=1), "visitor", Role.ADMIN)
PATIENCE: Final = 60.0
REST: Final = 0.2
"""Seconds before each run: the engine tidies up for a while after it says that it is done."""
OPTIONS: Final = ("--init", "--cap-drop=ALL", "--security-opt=no-new-privileges")


@dataclass
class Taken:
    """Seconds of each run."""

    ours: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    """Until the hub says that it runs."""
    plain: list[float] = field(default_factory=list)
    alike: list[float] = field(default_factory=list)
    """`docker run` in the hub's network, with a volume and the hub's options."""

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.plain)

    @property
    def ratio_alike(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.alike)


class Observer:
    """Hears from the engine which containers start, and asks their ports."""

    def __init__(self, client: docker.APIClient) -> None:
        self._client = client
        self._started: Queue[str] = Queue()

    def listen(self, events: Any) -> None:
        for event in events:
            self._started.put(event["Actor"]["Attributes"]["name"])

    def until_answer(self, name: str) -> None:
        """Until the port of this container answers HTTP."""
        while self._started.get(timeout=PATIENCE) != name:
            pass
        ports = self._client.inspect_container(name)["NetworkSettings"]["Ports"]
        port = int(ports[next(iter(ports))][0]["HostPort"])
        deadline = time.monotonic() + PATIENCE
        while not _answers(port):
            assert time.monotonic() < deadline, f"{name} never answered"
            time.sleep(0.001)


@contextmanager
def observer() -> Iterator[Observer]:
    """One that listens already; it hears of all containers of the machine."""
    with engine_client() as client, engine_client() as other:
        found = Observer(client)
        events = other.events(filters={"type": ["container"], "event": ["start"]}, decode=True)
        thread = threading.Thread(target=found.listen, args=(events,), daemon=True)
        thread.start()
        try:
            yield found
        finally:
            events.close()
            thread.join(PATIENCE)


def _answers(port: int) -> bool:
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        try:
            connection.request("GET", "/")
            return connection.getresponse().status > 0
        except (HTTPException, OSError):
            return False


class Bench:
    """A workspace that sleeps, and the same image for `docker run`."""

    def __init__(self, hub: LiveHub, image: str, command: Sequence[str]) -> None:
        self.hub = hub
        self.image = image
        self.command = command
        self.network = hub.settings.docker_network or f"codehub-{hub.hub_id}"

    def wake(self, watch: Observer, visit: Callable[[], None]) -> tuple[float, float]:
        """Until the port answers, and until the hub says so."""
        row = self.hub.rows()[NAME]
        with psycopg.connect(self.hub.database_url, autocommit=True) as conn:
            conn.execute("LISTEN ws_sse")
            began = time.perf_counter()
            visit()
            watch.until_answer(container_name(row.id))
            ours = time.perf_counter() - began
            while conn.execute("SELECT phase FROM workspaces").fetchone() != ("RUNNING",):
                assert list(conn.notifies(timeout=PATIENCE, stop_after=1)), "it never ran"
            return ours, time.perf_counter() - began

    def sleep(self) -> None:
        self.hub.until_settled(RUNNING=[NAME])
        self.hub.want(DesiredState.STANDBY, NAME)
        self.hub.until_settled(STANDBY=[NAME])

    def run(self, watch: Observer, *options: str) -> float:
        name = f"codehub-bench-{uuid4().hex[:12]}"
        publish = ("-p", f"127.0.0.1::{PORT}", "-e", f"PORT={PORT}", "-e", "HOME=/tmp")
        label = ("--label", f"{HUB}={self.hub.hub_id}-bench", "--name", name)
        began = time.perf_counter()
        _docker("run", "-d", *label, *publish, *options, self.image, *self.command)
        watch.until_answer(name)
        taken = time.perf_counter() - began
        _docker("rm", "-f", name)
        return taken


def _docker(*words: str) -> None:
    done = subprocess.run(
        ["docker", *words], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr


@contextmanager
def visitor(url: str) -> Iterator[Callable[[], None]]:
    """Visits as the front makes them."""
    with asyncio.Runner() as runner:
        pool = Pool(url)
        runner.run(pool.__aenter__())
        wake = waker(pool)

        def visit() -> None:
            assert runner.run(wake(NAME, ADMIN)).coming

        try:
            yield visit
        finally:
            runner.run(pool.__aexit__(None, None, None))


def measure(bench: Bench, runs: int) -> Taken:
    """In turns, each after each of the others; the first of each does not count."""
    taken = Taken()
    alike = ("--network", bench.network, "-v", f"codehub-bench-{bench.hub.hub_id}:/data", *OPTIONS)
    with observer() as watch, visitor(bench.hub.database_url) as visit:

        def wake() -> None:
            ours, told = bench.wake(watch, visit)
            taken.ours.append(ours)
            taken.told.append(told)
            bench.sleep()

        def run_plain() -> None:
            taken.plain.append(bench.run(watch))

        def run_alike() -> None:
            taken.alike.append(bench.run(watch, *alike))

        turns = [wake, run_plain, run_alike]
        for _ in range(runs + 1):
            for turn in turns:
                time.sleep(REST)
                turn()
            turns.reverse()
    return Taken(*(each[1:] for each in (taken.ours, taken.told, taken.plain, taken.alike)))


@contextmanager
def prepared(url: str, redis_url: str, path: Path, **settings: Any) -> Iterator[Bench]:
    """One workspace, asleep, on a hub with the settings as they come, but for these."""
    with ExitStack() as stack:
        image = stack.enter_context(busybox_image())
        client = stack.enter_context(engine_client())
        hub = stack.enter_context(live_hub(url, redis_url, path, f"unix://{SOCKET}", **settings))
        stack.callback(_tidy, client, hub)
        hub.declare([NAME], image, start_on=StartOn.VISIT)
        hub.until_settled(STANDBY=[NAME])
        yield Bench(hub, image, SERVE)


def _tidy(client: docker.APIClient, hub: LiveHub) -> None:
    hub.end()
    remove_labelled(client, f"{HUB}={hub.hub_id}-bench", f"{HUB}={hub.hub_id}")
    for each in client.volumes(filters={"name": f"codehub-bench-{hub.hub_id}"})["Volumes"] or []:
        client.remove_volume(each["Name"])


def show(taken: Taken) -> None:
    words = {
        "woken by a visit, until the port answers": taken.ours,
        "  until the hub says that it runs": taken.told,
        "docker run, until the port answers": taken.plain,
        "  in the hub's network, with its options": taken.alike,
    }
    for label, seconds in words.items():
        middle, worst = statistics.median(seconds), max(seconds)
        print(f"{label:<42} {1000 * middle:7.1f} ms, slowest {1000 * worst:7.1f} ms")
    print(f"{taken.ratio:.2f} times docker run")
    print(f"{taken.ratio_alike:.2f} times docker run in the hub's network", end="")
    print(f", which itself takes {taken.ratio / taken.ratio_alike:.2f} times as long")
    print(load(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--network", help="one of the operator's, instead of the hub's own")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as name, databases() as make:
        path = Path(name)
        path.chmod(0o755)
        with (
            EmbeddedRedis(path / "redis") as redis_url,
            prepared(make(), redis_url, path, docker_network=given.network) as bench,
        ):
            taken = measure(bench, given.runs)
    show(taken)
    goals = Goals()
    goals.at_most("times docker run", taken.ratio, GOAL)
    goals.finish()


if __name__ == "__main__":
    main()
