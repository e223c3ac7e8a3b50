"""The soak as a command: for so many minutes, one fault after the other, and at the end the count.

    python -m tests.soak [--minutes 10] [--workspaces 6] [--seed 1]

Everything is real and the soak's own: Postgres and Redis, `rclone serve s3`, a second Docker
engine (so it needs root), `codehub up` and a coordinator that stands by. People write in whatever
runs, workspaces are asked for other states, and some have TTLs of seconds. After every fault the
hub must come to rest, with nothing in ERROR; at the end every file that somebody was told is saved
must be there, by hash. Prints the faults, the kills, the files and the losses; exits with 1 if a
file is lost or the hub finds no rest.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.model.states import DesiredState
from tests.conftest import open_directory
from tests.contract.s3_server import S3Server
from tests.end_to_end.hub import until
from tests.end_to_end.moments import NEVER
from tests.end_to_end_docker.docker_hub import DockerHub, Ground, a_docker_hub
from tests.engine.second_engine import IMAGE, SecondEngine, second_engine
from tests.soak.faults import Faults
from tests.soak.people import AWAY, Crowd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end.hub import Row

PATIENCE = 180
HASTY = "ttl: {standby: 8s, archive: 12s}, wakeFrom: ARCHIVED"
SETTINGS = {
    # Faults come so often here that each would count as one more of the same workspace's.
    "OPERATION_SETTLED_SECONDS": "0",
    "OPERATION_RETRIES": "100",
    "COORDINATOR_TTL_INTERVAL": "2",
    "ACTIVITY_FLUSH_INTERVAL": "1",
    "DOCKER_LOOK_TIMEOUT": "2",
}
STATES = [DesiredState.RUNNING, DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.ARCHIVED]
OPERATIONS = """
SELECT new, count(*) FROM workspace_events WHERE kind = 'operation' AND new <> 'NONE' GROUP BY new
"""


@dataclass(frozen=True)
class Result:
    """What a soak comes to."""

    faults: dict[str, int]
    operations: dict[str, int]
    kills: int
    written: int
    doubted: int
    lost: list[str]


@contextmanager
def soaking(count: int) -> Iterator[tuple[DockerHub, SecondEngine, list[str]]]:
    """A hub on an engine of its own with so many workspaces; every other one with short TTLs."""
    names = [f"desk-{number}" for number in range(count)]
    with (
        second_engine() as engine,
        engine.client() as client,
        open_directory() as directory,
        S3Server(directory / "s3") as s3,
    ):
        ground = Ground(client, IMAGE, s3, "", "", "")
        with a_docker_hub(ground, DOCKER_HOST=engine.base_url, **SETTINGS) as hub:
            declare(hub, names[::2], names[1::2])
            yield hub, engine, names


def soak(
    hub: DockerHub, engine: SecondEngine, names: list[str], rounds: Iterator[str], seed: int
) -> Result:
    """Strike once a round and wait for rest; at the end, look for every file."""
    chance = random.Random(seed)
    faults = Faults(hub, engine, chance)
    faults.begin()
    hub.until_settled(**dict.fromkeys(names[::2], "RUNNING"))
    with Crowd(hub, names, random.Random(seed + 1)) as crowd:
        for number, fault in enumerate(rounds, 1):
            move(hub, names, chance)
            time.sleep(chance.uniform(0, 2))
            faults.strike(fault)
            rest(hub)
            say(f"{number:4}  {fault:32} {crowd.written} files, {crowd.doubted} in doubt")
    declare(hub, names, [])
    for name in names:
        hub.want(name, DesiredState.STANDBY)
    hub.until_settled(**dict.fromkeys(names, "STANDBY"))
    lost = [f"{each.name}/{file}" for each in crowd.people.values() for file in each.lost(hub)]
    operations = {str(name): int(count) for name, count in hub.ask(OPERATIONS)}
    return Result(
        dict(faults.counted), operations, faults.kills, crowd.written, crowd.doubted, lost
    )


def declare(hub: DockerHub, calm: list[str], hasty: list[str]) -> None:
    terms = {**dict.fromkeys(calm, NEVER), **dict.fromkeys(hasty, HASTY)}
    hub.declare(**{name: hub.ground.served(more) for name, more in terms.items()})


def move(hub: DockerHub, names: list[str], chance: random.Random) -> None:
    """Ask for another state of some of them, as people do; what is busy refuses."""
    for name in chance.sample(names, k=max(1, len(names) // 2)):
        with suppress(*AWAY):
            hub.want(name, chance.choice(STATES))


def rest(hub: DockerHub) -> None:
    """Until everything is where it is wanted; an ERROR is nothing that passes."""

    rows: list[Row] = []

    def rests() -> bool:
        nonlocal rows
        rows = list(hub.rows().values())
        errors = [f"{row.name}: {row.error_reason}" for row in rows if row.phase == "ERROR"]
        if errors:
            raise SystemExit(f"these need a person: {errors}")
        return all((row.phase, row.operation) == (row.desired, "NONE") for row in rows)

    try:
        until(rests, "rest", PATIENCE)
    except AssertionError:
        raise SystemExit(f"there is no rest: {rows}") from None


def rounds_until(ends: float, every: list[str], chance: random.Random) -> Iterator[str]:
    """Each fault once in an order of chance, then again, until the time is over."""
    while True:
        for fault in chance.sample(every, len(every)):
            if time.monotonic() > ends:
                return
            yield fault


def show(result: Result) -> None:
    for name, count in sorted(result.faults.items()):
        say(f"{count:6}  {name}")
    told = ", ".join(f"{count} {name}" for name, count in sorted(result.operations.items()))
    say(f"operations: {told}")
    say(f"{result.kills} kills, {result.written} files written, {result.doubted} in doubt")
    say(f"losses: {len(result.lost)}{' ' if result.lost else ''}{', '.join(result.lost)}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill everything, again and again; lose nothing.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--workspaces", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with soaking(asked.workspaces) as (hub, engine, names):
        every = list(Faults(hub, engine, random.Random()).every)
        ends = time.monotonic() + asked.minutes * 60
        rounds = rounds_until(ends, every, random.Random(asked.seed))
        result = soak(hub, engine, names, rounds, asked.seed)
    show(result)
    return 1 if result.lost else 0


if __name__ == "__main__":
    sys.exit(main())
