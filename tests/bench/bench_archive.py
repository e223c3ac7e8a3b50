"""Archiving a home beside `tar | zstd`, and restoring beside `zstd -d | tar x`, in turns.

    python -m tests.bench.bench_archive [--mb 1024] [--runs 3]

Ours also hashes, makes everything durable, reads the object back and commits it. Prints the speeds
and the ratios, once against the plain pipe and once against one that is made durable too. A first
round is not counted.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from uuid import UUID

from codehub.adapters.localstore import LocalStore
from codehub.core.keys import build_key
from codehub.jobs.arguments import STORE_URL, archive_command, restore_command
from codehub.model.archive import ArchiveKey, ArchiveSubject
from tests.bench.goals import Goals
from tests.bench.measure import Measured, measure, median

SUBJECT = ArchiveSubject("bench", "bench", 1, datetime(2026, 11, 1, tzinfo=UTC))
KIB = 1024
TEXTS_PER_MB = 8


@dataclass(frozen=True, slots=True)
class Figures:
    """The medians of all runs."""

    plain: Measured
    durable: Measured
    ours: Measured
    unpacked: Measured
    unpacked_durable: Measured
    restored: Measured


def write_home(home: Path, megabytes: int) -> None:
    """Of each megabyte: small texts, a larger one, and a quarter that does not compress."""
    source = random.Random(1)
    words = [source.randbytes(source.randint(1, 5)).hex().encode() for _ in range(20_000)]
    texts = b" ".join(source.choices(words, k=4_000_000))

    def text(size: int) -> bytes:
        begin = source.randrange(len(texts) - size)
        return texts[begin : begin + size]

    for number in range(megabytes):
        folder = home / f"project-{number // 16}" / f"part-{number}"
        folder.mkdir(parents=True)
        for index in range(TEXTS_PER_MB):
            (folder / f"source-{index}").write_bytes(text(48 * KIB))
        (folder / "log").write_bytes(text(384 * KIB))
        (folder / "image").write_bytes(source.randbytes(256 * KIB))


def bench(root: Path, megabytes: int, runs: int) -> Figures:
    home, store = root / "home", root / "store"
    home.mkdir()
    _write_apart(home, megabytes)
    LocalStore(store).claim()
    os.sync()
    environment = {STORE_URL: f"file://{store}"}
    plain, durable, ours = [], [], []
    unpacked, unpacked_durable, restored = [], [], []
    for run in range(runs + 1):
        _warm(root, megabytes)
        plain.append(_pipe(root, home, "true"))
        key = ArchiveKey(UUID(int=1), UUID(int=2), UUID(int=3), str(run))
        _warm(root, megabytes)
        ours.append(measure(archive_command(home, key, SUBJECT), cwd=root, env=environment))
        _warm(root, megabytes)
        durable.append(_pipe(root, home, "sync plain.tar.zst"))
        _warm(root, megabytes)
        unpacked.append(_unpack(root, store / build_key(key), "true"))
        volume = root / f"volume-{run}"
        volume.mkdir()
        command = restore_command(volume, build_key(key))
        _warm(root, megabytes)
        restored.append(measure(command, cwd=root, env=environment))
        shutil.rmtree(volume)
        _warm(root, megabytes)
        unpacked_durable.append(_unpack(root, store / build_key(key), "sync -f plain"))
        (store / build_key(key)).unlink()
    rounds = (plain, durable, ours, unpacked, unpacked_durable, restored)
    return Figures(*(median(each[1:]) for each in rounds))


def _warm(root: Path, megabytes: int) -> None:
    """Use the memory that comes next: a virtual machine's is slow where it was not used lately.

    Whoever comes first would pay for it, and the others would not.
    """
    piece = bytes(KIB * KIB)
    with (root / "warm").open("wb") as file:
        for _ in range(megabytes):
            file.write(piece)
    (root / "warm").unlink()
    os.sync()


def _write_apart(home: Path, megabytes: int) -> None:
    """In another process: the kernel counts our own peak memory to that of our children."""
    writing = get_context("spawn").Process(target=write_home, args=(home, megabytes))
    writing.start()
    writing.join()
    assert writing.exitcode == 0


def _pipe(root: Path, home: Path, then: str) -> Measured:
    pipe = f"tar -C {shlex.quote(str(home))} -cf - . | zstd -q -T0 -3 -f -o plain.tar.zst && {then}"
    measured = measure(["sh", "-c", pipe], cwd=root)
    (root / "plain.tar.zst").unlink()
    return measured


def _unpack(root: Path, archive: Path, then: str) -> Measured:
    place = root / "plain"
    place.mkdir()
    pipe = f"zstd -q -dc {shlex.quote(str(archive))} | tar -C plain -xf - && {then}"
    measured = measure(["sh", "-c", pipe], cwd=root)
    shutil.rmtree(place)
    os.sync()
    return measured


def show(figures: Figures, megabytes: int) -> None:
    for label, one in (
        ("tar | zstd", figures.plain),
        ("tar | zstd, then sync", figures.durable),
        ("codehub archive", figures.ours),
        ("zstd -d | tar x", figures.unpacked),
        ("zstd -d | tar x, sync", figures.unpacked_durable),
        ("codehub restore", figures.restored),
    ):
        speed = megabytes / one.seconds
        print(
            f"{label:<22} {one.seconds:7.2f} s {speed:7.0f} MB/s  cpu {one.cpu_seconds:6.2f} s"
            f"  peak {one.peak_mib:4.0f} MiB"
        )
    print(f"ratio to tar | zstd:            {figures.plain.seconds / figures.ours.seconds:.2f}")
    print(f"ratio to tar | zstd, then sync: {figures.durable.seconds / figures.ours.seconds:.2f}")
    restored = figures.restored.seconds
    print(f"ratio to zstd -d | tar x:       {figures.unpacked.seconds / restored:.2f}")
    print(f"ratio to zstd -d | tar x, sync: {figures.unpacked_durable.seconds / restored:.2f}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)


WHOLE = 512
"""Megabytes from which on a run is judged: below, starting the processes is most of it."""


def judge(figures: Figures) -> Goals:
    goals = Goals()
    ours, restored = figures.ours, figures.restored
    goals.at_least("archive to tar | zstd", figures.plain.seconds / ours.seconds, 0.8)
    goals.at_least("restore to zstd -d | tar x", figures.unpacked.seconds / restored.seconds, 0.8)
    goals.at_most("memory", max(ours.peak_mib, restored.peak_mib), 256, " MiB")
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
