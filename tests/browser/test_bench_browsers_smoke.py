"""The benchmark of two browsers runs, so that its figure can be had at any time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.bench import bench_browsers

if TYPE_CHECKING:
    import pytest


def test_what_another_browser_shows_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    figures = bench_browsers.bench(tries=2)
    assert len(figures.delays) == 2
    assert min(figures.delays) > 0, "nobody sees what was not done yet"
    printed = capsys.readouterr().out
    assert re.search(r"2 browsers, 2 changes: .* \d+ ms at the median, \d+ ms at worst", printed)
