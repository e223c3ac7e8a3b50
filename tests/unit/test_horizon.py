"""How far activity is surely known, when it is not, and what two looks at a CPU say."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.core.horizon import (
    STRANGERS_STAY,
    Seen,
    Watch,
    blindness,
    fingerprint,
    forgettable,
    horizon,
    longest_gap,
    newest,
)
from codehub.core.work import Work, judge_work, too_soon
from codehub.model.runtime import Stats
from codehub.model.signals import ActivityRead, Sighting
from tests.make import NOW

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
ONE, TWO = UUID(int=1), UUID(int=2)
GAP = longest_gap(MINUTE, 30 * SECOND)
SEEN = "mark@run-1"
GOOD = Watch(NOW - MINUTE, NOW - HOUR, SEEN)


def read(*sightings: Sighting, sentinel: str | None = "mark", run: str = "run-1") -> ActivityRead:
    return ActivityRead(NOW, sentinel, run, sightings)


# The horizon


def test_before_the_horizon_everything_is_known() -> None:
    assert horizon(NOW, 30 * SECOND, 10 * SECOND) == NOW - 40 * SECOND


def test_three_missed_ticks_are_a_pause() -> None:
    assert longest_gap(MINUTE, 30 * SECOND) == 3 * MINUTE + 30 * SECOND


# Blindness


def test_a_redis_that_shows_what_is_remembered_has_lost_nothing() -> None:
    assert blindness(GOOD, SEEN, NOW, GAP) is None
    assert blindness(GOOD, SEEN, NOW - MINUTE + GAP, GAP) is None


@pytest.mark.parametrize(
    ("watch", "shown", "why"),
    [
        (Watch(), SEEN, "activity was never read before"),
        (Watch(NOW, None, SEEN), SEEN, "activity was never read before"),
        (GOOD, "other@run-1", "Redis was out of reach, emptied, restarted or replaced"),
        (GOOD, "mark@run-2", "Redis was out of reach, emptied, restarted or replaced"),
        (GOOD, "", "Redis was out of reach, emptied, restarted or replaced"),
        (Watch(NOW, NOW, ""), SEEN, "Redis was out of reach, emptied, restarted or replaced"),
        (Watch(NOW, NOW, ""), "", "Redis was out of reach, emptied, restarted or replaced"),
        (Watch(NOW - 2 * HOUR, NOW, SEEN), SEEN, "activity was not read for 2h"),
        (Watch(NOW + SECOND, NOW, SEEN), SEEN, "the database's clock went back"),
    ],
)
def test_whatever_may_have_lost_something_is_blind(watch: Watch, shown: str, why: str) -> None:
    assert blindness(watch, shown, NOW, GAP) == why


def test_a_jump_of_the_clock_is_a_gap() -> None:
    assert blindness(GOOD, SEEN, NOW + 5 * HOUR, GAP) is not None


def test_the_fingerprint_tells_servers_and_their_runs_apart() -> None:
    shown = {fingerprint(read()), fingerprint(read(run="run-2")), fingerprint(read(sentinel="x"))}
    assert len(shown) == 3
    assert fingerprint(read(sentinel=None)) == fingerprint(read(sentinel="")) == ""


# What was read


def test_the_newest_sighting_counts_with_its_source_and_as_an_age() -> None:
    found = newest(
        read(
            Sighting(ONE, "traffic", NOW - HOUR),
            Sighting(ONE, "input", NOW - MINUTE),
            Sighting(TWO, "cpu", NOW + MINUTE),
            Sighting(ONE, "cpu", NOW - 2 * HOUR),
        )
    )
    assert found == {ONE: Seen(MINUTE, "input"), TWO: Seen(-MINUTE, "cpu")}


@given(
    st.lists(
        st.tuples(st.sampled_from([ONE, TWO]), st.sampled_from("abc"), st.integers(0, 99)),
        unique_by=lambda each: each[:2],
    )
)
def test_no_order_of_sightings_changes_the_newest(pairs: list[tuple[UUID, str, int]]) -> None:
    sightings = [Sighting(one, source, NOW - age * SECOND) for one, source, age in pairs]
    found = newest(read(*sightings))
    assert found == newest(read(*reversed(sightings)))
    for one, seen in found.items():
        assert seen.age == min(NOW - each.at for each in sightings if each.workspace_id == one)


def test_what_is_not_ours_is_left_for_a_day() -> None:
    ours = Sighting(ONE, "input", NOW)
    theirs = Sighting(TWO, "input", NOW - STRANGERS_STAY)
    nobodys = Sighting(TWO, "traffic", NOW - STRANGERS_STAY - SECOND)
    assert forgettable(read(ours, theirs, nobodys), {ONE}) == (ours, nobodys)


# Work


def judged(cpu: float, after: timedelta = MINUTE, *, before: float = 100.0) -> Work:
    earlier, later = Stats(before, 0, NOW), Stats(before + cpu, 0, NOW + after)
    return judge_work(earlier, later, 25, shortest=30 * SECOND, longest=3 * MINUTE)


def test_above_a_quarter_of_a_core_is_work() -> None:
    assert judged(15.1) is Work.BUSY
    assert judged(15.0) is Work.QUIET
    assert judged(0) is Work.QUIET
    assert judged(240) is Work.BUSY


@pytest.mark.parametrize(
    ("cpu", "after"),
    [(60, 29 * SECOND), (0, 29 * SECOND), (0, 181 * SECOND), (-1, MINUTE), (0, -MINUTE)],
    ids=["too soon", "too soon to be quiet", "too late", "other processes", "clock went back"],
)
def test_looks_that_say_nothing(cpu: float, after: timedelta) -> None:
    assert judged(cpu, after) is Work.UNKNOWN


def test_one_look_says_nothing() -> None:
    later = Stats(100, 0, NOW)
    assert judge_work(None, later, 25, shortest=SECOND, longest=MINUTE) is Work.UNKNOWN


def test_a_look_too_soon_does_not_replace_the_one_before() -> None:
    first = Stats(10, 0, NOW)
    assert too_soon(first, Stats(10, 0, NOW + 29 * SECOND), shortest=30 * SECOND)
    assert not too_soon(first, Stats(10, 0, NOW + 30 * SECOND), shortest=30 * SECOND)
    assert not too_soon(first, Stats(9, 0, NOW + SECOND), shortest=30 * SECOND)
    assert not too_soon(first, Stats(10, 0, NOW - SECOND), shortest=30 * SECOND)
