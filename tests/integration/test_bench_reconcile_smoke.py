"""The benchmarks of the coordinator run; what they count holds at any size, on any machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codehub.store.connect import connect
from tests.bench import bench_reconcile, bench_starts, bench_ttl
from tests.bench.fleet import MIXED
from tests.bench.hub import fill

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


async def test_passes_over_what_rests_write_nothing_and_ask_as_much_of_few_as_of_many(
    make_database_url: Callable[[], str],
) -> None:
    measured = []
    for count in (30, 300):
        url = make_database_url()
        await fill(url, count, MIXED)
        measured.append(await bench_reconcile.measure(url, count, passes=2))
    few, many = measured
    assert (few.written, many.written) == (0, 0)
    assert {each.listings for each in (many.first, *many.steady)} == {1}
    assert few.first.statements == many.first.statements <= 3
    assert {each.statements for each in (*few.steady, *many.steady)} == {few.first.statements}


async def test_a_write_would_be_counted(database_url: str) -> None:
    await fill(database_url, 30, MIXED)
    async with await connect(database_url) as conn:
        await conn.execute("UPDATE workspaces SET conditions = '{}' WHERE name IN ('ws-1', 'ws-7')")
    assert (await bench_reconcile.measure(database_url, 30, passes=1)).written >= 2


async def test_each_start_costs_the_same_however_many_there_are(
    make_database_url: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    for count in (20, 80):
        url = make_database_url()
        await fill(url, count, bench_starts.ASLEEP)
        starts = await bench_starts.measure(url, count, actions=4, start_seconds=0.01)
        bench_starts.show(starts)
        # A claim, a completion, and a look at the fence before the act; then what a pass asks.
        assert starts.spent.statements <= 3 * count + 6 * starts.spent.listings
    assert re.search(r"80 starts: .* ms each .* statements each", capsys.readouterr().out)


async def test_with_nothing_due_the_ttl_statements_go_by_their_indexes(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill(database_url, 6000, MIXED)
    for each in await bench_ttl.measure(database_url, runs=2):
        bench_ttl.show(each, 6000)
        assert (each.found, each.reads_all) == (0, False)
        assert each.indexes
    printed = capsys.readouterr().out
    for name in ("lower to STANDBY", "lower to ARCHIVED", "remind"):
        assert re.search(rf"^{name} .* ms, slowest .* by workspaces_", printed, re.MULTILINE)


def test_the_command_prints_both_kinds_of_passes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.bench_reconcile", "--counts", "20", "--passes", "1"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for label in ("first pass", "usual pass"):
        assert re.search(rf"20 workspaces, {label}: +\d+\.\d+ s +cpu", done.stdout)
    assert re.search(r"rows written 0 +peak \d+ MiB", done.stdout)
