"""The benchmarks of the web application run, so that a figure can be had at any time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.bench import bench_events, bench_list
from tests.bench.web import percentile

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_streams_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvloop")
    figures = bench_events.bench(clients=5, updates=2, workspaces=6)
    assert len(figures.delays) == 10
    assert all(0 < each <= max(figures.complete) for each in figures.delays)
    assert figures.connections[1] <= figures.connections[0]
    printed = capsys.readouterr().out
    assert re.search(r"5 clients, 2 updates: .* p50 \d+ ms, p99 \d+ ms; to all", printed)
    assert "memory for each client" in printed
    assert "connections to the database with 1 client" in printed


def test_the_list_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    found = bench_list.bench(count=30, rate=10, seconds=0.3, pause=0.05)
    assert [len(each.seconds) for each in found] == [3, 3, 3]
    printed = capsys.readouterr().out
    for kind in bench_list.PATHS:
        assert re.search(rf"30 workspaces, first page of {kind}: p50 .* p99 .* passes", printed)


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [([1.0], 0.99, 1.0), ([3.0, 1.0, 2.0], 0.5, 2.0), ([1.0, 2.0], 0.5, 1.0)]
    + [([float(n) for n in range(1, 101)], part, 100 * part) for part in (0.5, 0.99, 1.0)],
)
def test_percentiles(values: Sequence[float], part: float, expected: float) -> None:
    assert percentile(list(values), part) == expected
