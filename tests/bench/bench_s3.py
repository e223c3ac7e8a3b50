"""Archiving a home into a bucket beside `tar | zstd | rclone rcat`, whole processes, in turns.

    python -m tests.bench.bench_s3 [--mb 1024] [--runs 3]

Both go to one `rclone serve s3` on loopback. Ours also hashes, sends checksums of every part, reads
the object back and commits it. Prints both speeds, their ratio, and the memory each took.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from codehub.core.keys import build_key
from codehub.jobs.arguments import STORE_URL, archive_command, restore_command
from codehub.model.archive import ArchiveKey
from tests.bench.bench_archive import SUBJECT, write_home
from tests.bench.goals import Goals
from tests.bench.measure import Measured, measure, median
from tests.contract.s3_server import S3Server, find_rclone
from tests.integration.jobs import HUB, OPERATION, WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Mapping

GOAL = 0.7


@dataclass(frozen=True, slots=True)
class Figures:
    """The medians of all runs."""

    pipe: Measured
    ours: Measured
    restored: Measured


def bench(root: Path, megabytes: int, runs: int) -> Figures:
    home = root / "home"
    home.mkdir()
    # In another process: the kernel counts our own peak memory to that of our children.
    writing = get_context("spawn").Process(target=write_home, args=(home, megabytes))
    writing.start()
    writing.join()
    assert writing.exitcode == 0
    os.sync()
    pipe, ours, restored = [], [], []
    with S3Server(root / "s3") as server:
        for run in range(runs):
            pipe.append(_pipe(server, root, home))
            archived, back = _circle(server, root, home, str(run))
            ours.append(archived)
            restored.append(back)
    return Figures(median(pipe), median(ours), median(restored))


def _pipe(server: S3Server, root: Path, home: Path) -> Measured:
    """What somebody would write by hand; rclone finds the server in its environment."""
    bucket = server.make_bucket()
    pack = f"tar -C {shlex.quote(str(home))} -cf - . | zstd -q -3 -T0"
    send = f"{shlex.quote(str(find_rclone()))} --config=/dev/null rcat hub:{bucket}/home.tar.zst"
    measured = measure(["sh", "-c", f"{pack} | {send}"], cwd=root, env=_remote(server))
    shutil.rmtree(server.root / bucket)
    return measured


def _remote(server: S3Server) -> Mapping[str, str]:
    return {
        "RCLONE_CONFIG_HUB_TYPE": "s3",
        "RCLONE_CONFIG_HUB_PROVIDER": "Rclone",
        "RCLONE_CONFIG_HUB_ENDPOINT": server.url,
        "RCLONE_CONFIG_HUB_ACCESS_KEY_ID": server.key,
        "RCLONE_CONFIG_HUB_SECRET_ACCESS_KEY": server.secret,
    }


def _circle(server: S3Server, root: Path, home: Path, run: str) -> tuple[Measured, Measured]:
    bucket = server.make_bucket()
    environment = {**server.environment, STORE_URL: server.address(bucket)}
    key = ArchiveKey(HUB, WORKSPACE, OPERATION, run)
    ours = measure(archive_command(home, key, SUBJECT), cwd=root, env=environment)
    volume = root / "volume"
    volume.mkdir()
    restored = measure(restore_command(volume, build_key(key)), cwd=root, env=environment)
    shutil.rmtree(volume)
    shutil.rmtree(server.root / bucket)
    return ours, restored


def show(figures: Figures, megabytes: int) -> None:
    for label, one in (
        ("tar | zstd | rclone rcat", figures.pipe),
        ("codehub archive", figures.ours),
        ("codehub restore", figures.restored),
    ):
        print(
            f"{label:<25} {one.seconds:7.2f} s {megabytes / one.seconds:7.0f} MB/s"
            f"  cpu {one.cpu_seconds:6.2f} s  peak {one.peak_mib:4.0f} MiB"
        )
    ratio = figures.pipe.seconds / figures.ours.seconds
    print(f"ratio to tar | zstd | rclone rcat: {ratio:.2f}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)


WHOLE = 512
"""Megabytes from which on a run is judged: below, starting the processes is most of it."""


def judge(figures: Figures) -> Goals:
    goals = Goals()
    ratio = figures.pipe.seconds / figures.ours.seconds
    goals.at_least("archive to tar | zstd | rclone rcat", ratio, GOAL)
    goals.at_most("memory", max(figures.ours.peak_mib, figures.restored.peak_mib), 256, " MiB")
    return goals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    os.dup2(os.pipe()[0], 0)  # jobs end with their input: give them one that stays open
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as directory:
        figures = bench(Path(directory), options.mb, options.runs)
    show(figures, options.mb)
    if options.mb >= WHOLE:
        judge(figures).finish()


if __name__ == "__main__":
    main()
