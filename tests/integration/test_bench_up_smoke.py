"""The benchmark of a hub's start and of a takeover runs, so that its figures can be had."""

from __future__ import annotations

import re

import pytest

from tests.bench import bench_up


@pytest.mark.timeout(300)
def test_a_start_and_a_takeover_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    figures = bench_up.bench(runs=1)
    bench_up.show(figures)
    assert all(each > 0 for each in (*figures.served, *figures.settled, *figures.taken_over))
    assert len(re.findall(r"median +\d.*worst", capsys.readouterr().out)) == 3
