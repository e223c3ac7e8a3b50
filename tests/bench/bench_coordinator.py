"""A coordinator's own memory while Docker volumes are archived to S3: it must not grow with them.

    python -m tests.bench.bench_coordinator [--mb 1,1024]

One hub, a real coordinator, a bucket of `rclone serve s3` on loopback. One volume after the other,
each of as many megabytes as asked for, is archived and restored; a small one comes first, so that
what any first archive takes is no part of the comparison. Prints the peak of the coordinator's
memory during each, as the kernel counted it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codehub.embedded.redis import EmbeddedRedis
from codehub.model.states import DesiredState
from tests.bench.bench_archive import write_home
from tests.bench.goals import Goals
from tests.bench.hub import databases, load
from tests.contract.docker_engine import busybox_image, engine_client
from tests.contract.s3_server import S3Server
from tests.end_to_end.hub import until
from tests.end_to_end.moments import NEVER
from tests.end_to_end_docker.docker_hub import DockerHub, Ground, a_docker_hub

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE = 900.0


@dataclass(frozen=True, slots=True)
class Move:
    """What one archive or restore took, and the coordinator's memory meanwhile."""

    what: str
    megabytes: int
    seconds: float
    peak_mib: float


def bench(hub: DockerHub, sizes: Sequence[int]) -> list[Move]:
    """The hub's workspaces are called by their sizes, and run."""
    leader = until(hub.leader, "a leader")
    found = []
    for size in sizes:
        name = name_of(size)
        hub.until_settled(**{name: "RUNNING"})
        write_home(hub.home(name), size)
        found.append(_move(hub, leader, name, size, DesiredState.ARCHIVED))
        found.append(_move(hub, leader, name, size, DesiredState.RUNNING))
    return found


def name_of(size: int) -> str:
    return f"home-{size}"


def _move(hub: DockerHub, leader: int, name: str, size: int, state: DesiredState) -> Move:
    # The kernel begins to count the peak anew.
    Path(f"/proc/{leader}/clear_refs").write_text("5")
    began = time.monotonic()
    hub.want(name, state)

    def there() -> bool:
        row = hub.rows()[name]
        assert row.error_reason is None, row
        return (row.phase, row.operation) == (state.value, "NONE")

    until(there, f"{name} {state}", PATIENCE)
    what = "archive" if state is DesiredState.ARCHIVED else "restore"
    return Move(what, size, time.monotonic() - began, _peak_mib(leader))


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def show(moves: Sequence[Move]) -> None:
    for each in moves:
        print(
            f"{each.what} of {each.megabytes:>5} MB: {each.seconds:6.1f} s,"
            f" the coordinator's peak {each.peak_mib:6.1f} MiB"
        )
    more = max(each.peak_mib for each in moves) - moves[0].peak_mib
    print(f"largest peak beyond that of the first archive: {more:.1f} MiB")
    print(load(), flush=True)


def judge(moves: Sequence[Move]) -> Goals:
    goals = Goals()
    more = max(each.peak_mib for each in moves) - moves[0].peak_mib
    goals.at_most("growth of the coordinator's memory", more, 16, " MiB")
    return goals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--mb", default="1,1024", help="sizes of the volumes, in this order")
    sizes = [int(each) for each in parser.parse_args().mb.split(",")]
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as name, ExitStack() as stack:
        path = Path(name)
        path.chmod(0o755)
        make = stack.enter_context(databases())
        redis_url = stack.enter_context(EmbeddedRedis(path / "redis"))
        s3 = stack.enter_context(S3Server(path / "s3"))
        client = stack.enter_context(engine_client())
        image = stack.enter_context(busybox_image())
        ground = Ground(client, image, s3, "", "", redis_url)
        settings = {"DATABASE_URL": make(), "REDIS_URL": redis_url}
        hub = stack.enter_context(a_docker_hub(ground, **settings))
        hub.declare(**{name_of(size): ground.served(NEVER) for size in sizes})
        hub.coordinate()
        moves = bench(hub, sizes)
    show(moves)
    judge(moves).finish()


if __name__ == "__main__":
    main()
