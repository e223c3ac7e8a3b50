"""When the controller looks, and at how much."""

from __future__ import annotations

from uuid import UUID

import pytest

from codehub.coordinator.hints import Hinted
from codehub.coordinator.rhythm import LEISURE, SPACING, Look, Rhythm

SILENCE = Hinted()
SOMEBODY = Hinted(ids=frozenset({UUID(int=1)}))
EVERYBODY = Hinted(everything=True)


def rhythm(**fields: float) -> Rhythm:
    """Every 15 s at rest, every second for 30 s when something moves; a look was just taken."""
    fields = {"next_full": 115.0, "next_active": 101.0, "free_from": 100.0} | fields
    return Rhythm(15.0, 1.0, 30.0, **fields)


def test_the_first_look_is_at_everything() -> None:
    assert Rhythm(15.0, 1.0, 30.0).choose(SILENCE, 100.0) is Look.FULL


def test_at_rest_nothing_is_due_until_the_next_full_pass() -> None:
    assert rhythm().choose(SILENCE, 114.9) is None
    assert rhythm().choose(SILENCE, 115.0) is Look.FULL


def test_a_hint_is_looked_at_at_once() -> None:
    assert rhythm().choose(SOMEBODY, 100.5) is Look.QUICK


def test_a_hint_at_everybody_is_a_full_pass() -> None:
    assert rhythm().choose(EVERYBODY, 100.5) is Look.FULL


def test_for_some_time_after_a_hint_what_may_need_a_step_is_looked_at() -> None:
    moved = rhythm(next_full=1000.0)
    moved.choose(SOMEBODY, 100.5)
    assert moved.choose(SILENCE, 100.9) is None
    assert moved.choose(SILENCE, 101.0) is Look.ACTIVE
    assert moved.choose(SILENCE, 130.4) is Look.ACTIVE
    assert moved.choose(SILENCE, 130.5) is None


def test_many_hints_do_not_keep_the_wider_looks_away() -> None:
    hinted = rhythm()
    assert hinted.choose(SOMEBODY, 101.0) is Look.ACTIVE
    assert hinted.choose(SOMEBODY, 115.0) is Look.FULL


@pytest.mark.parametrize(
    ("look", "next_full", "next_active"),
    [(Look.FULL, 125.0, 111.0), (Look.ACTIVE, 115.0, 111.0), (Look.QUICK, 115.0, 101.0)],
)
def test_a_look_puts_off_the_next_of_its_kind_and_below(
    look: Look, next_full: float, next_active: float
) -> None:
    looked = rhythm()
    looked.looked(look, 110.0, 110.1, busy=False)
    assert (looked.next_full, looked.next_active) == (next_full, next_active)


def test_a_wide_look_that_took_long_leaves_most_of_the_time_to_quick_ones() -> None:
    looked = rhythm()
    looked.looked(Look.ACTIVE, 110.0, 112.0, busy=True)
    assert looked.choose(SOMEBODY, 114.9) is Look.QUICK
    assert looked.next_active == 112.0 + LEISURE * 2.0


def test_while_something_is_under_way_it_stays_awake() -> None:
    busy, idle = rhythm(), rhythm()
    busy.looked(Look.FULL, 110.0, 110.5, busy=True)
    idle.looked(Look.FULL, 110.0, 110.5, busy=False)
    assert busy.choose(SILENCE, 140.4) is Look.FULL
    busy.looked(Look.FULL, 140.4, 140.5, busy=False)
    assert (busy.active_until, idle.active_until) == (140.5, 0.0)


def test_being_busy_never_shortens_what_a_hint_asked_for() -> None:
    moved = rhythm(active_until=500.0)
    moved.looked(Look.ACTIVE, 110.0, 110.5, busy=True)
    assert moved.active_until == 500.0


def test_the_pause_lasts_until_the_next_look_is_due() -> None:
    assert rhythm().pause(100.0) == 15.0
    assert rhythm(active_until=130.0).pause(100.0) == 1.0
    assert rhythm(active_until=130.0, next_active=200.0).pause(100.0) == 15.0


def test_what_is_overdue_is_not_waited_for() -> None:
    assert rhythm().pause(120.0) == 0.0


def test_a_look_that_took_long_is_followed_by_as_much_rest() -> None:
    looked = rhythm()
    looked.looked(Look.FULL, 110.0, 114.0, busy=True)
    assert looked.spacing(114.0) == 4.0
    assert looked.spacing(117.0) == 1.0
    assert looked.spacing(120.0) == 0.0


def test_even_quick_looks_are_some_way_apart() -> None:
    looked = rhythm()
    looked.looked(Look.QUICK, 110.0, 110.0, busy=True)
    assert looked.spacing(110.0) == pytest.approx(SPACING)
