"""The benchmarks run, so that a figure can be had at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench import bench_plan

if TYPE_CHECKING:
    import pytest


def test_plan_and_apply_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    bench_plan.bench(files=4, large=8, runs=1)
    printed = capsys.readouterr().out
    for label in ("no-op plan of 4", "apply of 4 new", "no-op plan of 8", "of linear"):
        assert label in printed
