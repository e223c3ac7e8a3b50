"""The archive benchmark runs and prints what it promises; its figures are for quiet machines."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import require


def test_the_benchmark_prints_both_speeds_and_their_ratio() -> None:
    require("zstd", shutil.which("zstd") is not None, "it is not on this machine")
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.bench_archive", "--mb", "3", "--runs", "1"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for label in ("tar | zstd", "codehub archive", "codehub restore"):
        assert re.search(rf"^{re.escape(label)} .* MB/s", done.stdout, re.MULTILINE)
    assert re.search(r"^ratio to tar \| zstd: +\d+\.\d\d$", done.stdout, re.MULTILINE)
    peak = re.search(r"codehub archive.* peak +(\d+) MiB", done.stdout)
    assert peak is not None
    assert int(peak[1]) < 256
