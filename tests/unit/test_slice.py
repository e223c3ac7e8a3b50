"""Cutting a window: slices begin at round times, and what is put in comes out again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.core.slice import Slicer, steps
from codehub.model.states import Phase

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOON = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)  # a Monday


def test_a_week_is_cut_at_round_hours_and_days() -> None:
    slicer = Slicer(NOON - 7 * DAY, NOON)
    assert {each.since.hour % 3 for each in slicer.fine()} == {0}
    days = slicer.coarse()
    assert len(days) == 8
    assert [each.since.hour for each in days] == [12, 0, 0, 0, 0, 0, 0, 0]
    assert days[-1].until == NOON


def test_weeks_begin_on_mondays() -> None:
    weeks = Slicer(NOON - 200 * DAY, NOON).coarse()
    assert {each.since.weekday() for each in weeks[1:]} == {0}


def test_slices_stay_where_they_are_when_the_window_moves_on() -> None:
    first = Slicer(NOON - 7 * DAY, NOON).fine()
    second = Slicer(NOON - 7 * DAY + timedelta(seconds=5), NOON + timedelta(seconds=5)).fine()
    assert [each.since for each in first[1:]] == [each.since for each in second[1:-1]]


def test_a_stay_is_divided_among_the_slices_it_covers() -> None:
    slicer = Slicer(NOON - 7 * DAY, NOON)
    slicer.add(Phase.RUNNING, NOON - 2 * DAY, NOON - 11 * HOUR, saved=True)
    found = [(each.hours.get(Phase.RUNNING, 0), each.saved) for each in slicer.coarse()]
    assert found == [(0, 0)] * 5 + [(12, 12), (24, 24), (1, 1)]


def test_a_phase_that_nobody_was_in_is_not_told() -> None:
    slicer = Slicer(NOON - DAY, NOON)
    slicer.add(Phase.STANDBY, NOON - HOUR, NOON)
    assert slicer.fine()[0].hours == {}
    assert slicer.fine()[-1].hours == {Phase.STANDBY: 0.5}


@pytest.mark.parametrize("days", [1, 2, 3, 7, 14, 15, 30, 31, 32, 60, 61, 120, 121, 366])
def test_no_window_has_too_many_slices_or_too_few(days: int) -> None:
    slicer = Slicer(NOON - days * DAY, NOON)
    assert 14 <= len(slicer.fine()) <= 125
    assert 4 <= len(slicer.coarse()) <= 55


@pytest.mark.parametrize("hours", [1, 2, 3, 12, 13, 48, 49, 9000])
def test_coarse_slices_are_made_of_whole_fine_ones(hours: int) -> None:
    fine, coarse = steps(hours * HOUR)
    assert coarse % fine == timedelta(0)


MOMENTS = st.integers(0, 366 * 24 * 60 * 60 * 10)


@given(MOMENTS, MOMENTS, st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=5))
@settings(max_examples=60)
def test_whatever_is_added_comes_out_again(
    start: int, length: int, stays: list[tuple[float, float]]
) -> None:
    since = NOON - timedelta(days=400) + timedelta(seconds=start / 10)
    until = since + timedelta(hours=1, seconds=length / 10)
    slicer, total = Slicer(since, until), timedelta(0)
    for pair in stays:
        begin, end = (since + each * (until - since) for each in sorted(pair))
        slicer.add(Phase.RUNNING, begin, end)
        total += end - begin
    for slices in (slicer.fine(), slicer.coarse()):
        found = [each.hours.get(Phase.RUNNING, 0.0) for each in slices]
        assert sum(found) == pytest.approx(total / HOUR)
        assert (slices[0].since, slices[-1].until) == (since, until)
        assert all(one.until == other.since for one, other in pairwise(slices))
        for spent, each in zip(found, slices, strict=True):
            assert -1e-9 <= spent <= len(stays) * ((each.until - each.since) / HOUR) + 1e-9
