"""What happened in a window: spans without gaps, hours that add up, and what a TTL has saved."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.core.recount import MOST_TIMELINES, recount
from codehub.model.events import EventKind
from codehub.model.history import Move, Opening, Past, Span
from codehub.model.states import Phase
from codehub.model.workspace import Status, Workspace
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from codehub.model.history import History

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
START = NOW - 7 * DAY
SLEPT = Opening(told=True, asleep=True)


def at(hours: float) -> datetime:
    """So many hours after the window has begun; it has 168."""
    return START + hours * HOUR


def word(hours: float, new: str, source: str, *, number: int = 1, old: str = "RUNNING") -> Move:
    return Move(UUID(int=number), at(hours), EventKind.DESIRED, old, new, source)


def step(hours: float, old: str, new: str, *, number: int = 1) -> Move:
    return Move(UUID(int=number), at(hours), EventKind.PHASE, old, new, "controller")


def there(
    phase: Phase = Phase.RUNNING, name: str = "api", number: int = 1, **fields: Any
) -> Workspace:
    found = workspace(name, number=number, status=Status(phase))
    return replace(found, **({"created_at": NOW - 30 * DAY} | fields))


def counted(
    *moves: Move, of: tuple[Workspace, ...] = (), opening: Opening | None = None, **fields: Any
) -> History:
    """The week of one workspace, or of these."""
    openings = {UUID(int=1): opening} if opening else {}
    return recount(Past(START, NOW, moves, openings, **fields), of or (there(),))


# Spans


def test_one_without_moves_was_all_the_time_where_it_is() -> None:
    history = counted(of=(there(Phase.STANDBY),))
    assert history.timelines[0].spans == (Span(Phase.STANDBY, START, NOW),)
    assert (history.since, history.until, history.run) == (START, NOW, 0)


def test_the_first_phase_it_left_tells_where_it_was_before() -> None:
    history = counted(step(10, "STANDBY", "RUNNING"), step(12, "RUNNING", "ERROR"))
    assert history.timelines[0].spans == (
        Span(Phase.STANDBY, START, at(10)),
        Span(Phase.RUNNING, at(10), at(12)),
        Span(Phase.ERROR, at(12), NOW),
    )
    assert history.run == 2


def test_words_do_not_divide_a_span() -> None:
    history = counted(word(10, "STANDBY", "ttl"), word(11, "RUNNING", "ttl"))
    assert history.timelines[0].spans == (Span(Phase.RUNNING, START, NOW),)


def test_a_younger_one_begins_with_itself() -> None:
    young = there(created_at=at(100))
    history = counted(step(101, "PENDING", "RUNNING"), of=(there(name="old", number=2), young))
    assert history.since == START
    assert history.timelines[0].spans[0] == Span(Phase.PENDING, at(100), at(101))


def test_the_window_of_a_young_hub_begins_with_its_first_workspace() -> None:
    assert counted(of=(there(created_at=at(150)),)).since == at(150)


def test_a_window_is_an_hour_at_least() -> None:
    history = counted(of=(there(created_at=NOW - timedelta(minutes=1)),))
    assert history.since == NOW - HOUR
    assert history.run == pytest.approx(1 / 60)


def test_an_empty_hub_has_a_window_with_nothing_in_it() -> None:
    history = recount(Past(START, NOW), ())
    assert history.timelines == ()
    assert all(not each.hours for each in history.mix)


def test_what_was_purged_counts_for_as_long_as_it_was_there() -> None:
    gone = step(10, "RUNNING", "DELETED", number=9)
    history = counted(gone, of=(there(Phase.STANDBY),))
    assert history.run == 10
    assert [each.name for each in history.timelines] == ["api"]


def test_what_came_and_was_purged_within_the_window_begins_with_its_first_word() -> None:
    moves = (
        word(5, "RUNNING", "spec", number=9, old=""),
        step(6, "PENDING", "RUNNING", number=9),
        step(8, "RUNNING", "DELETED", number=9),
    )
    history = counted(*moves, of=(there(Phase.STANDBY),))
    assert history.run == 2
    assert sum(each.hours.get(Phase.PENDING, 0) for each in history.mix) == 1


def test_one_that_came_back_was_nowhere_before() -> None:
    history = counted(step(10, "", "ARCHIVED"), of=(there(Phase.ARCHIVED),))
    assert history.timelines[0].spans[0] == Span(Phase.DELETED, START, at(10))
    assert sum(each.hours[Phase.ARCHIVED] for each in history.steps if each.hours) == 158


def test_times_out_of_order_make_no_span_go_backwards() -> None:
    history = counted(step(10, "STANDBY", "RUNNING"), step(9.99, "RUNNING", "STANDBY"))
    assert history.timelines[0].spans == (Span(Phase.STANDBY, START, NOW),)
    assert history.usage[UUID(int=1)].changes == 2


def test_a_move_after_the_end_belongs_to_the_next_report() -> None:
    history = counted(step(168.01, "RUNNING", "STANDBY"), of=(there(Phase.STANDBY),))
    assert history.timelines[0].spans == (Span(Phase.RUNNING, START, NOW),)


# Saved


def test_rest_that_a_ttl_asked_for_is_saved_until_it_runs_again() -> None:
    history = counted(
        word(10, "STANDBY", "ttl"),
        step(10, "RUNNING", "STANDBY"),
        word(34, "ARCHIVED", "ttl"),
        step(34, "STANDBY", "ARCHIVED"),
        word(50, "RUNNING", "visit"),
        step(51, "ARCHIVED", "STANDBY"),
        step(52, "STANDBY", "RUNNING"),
    )
    assert history.saved == 40
    assert history.run == 10 + 168 - 52
    assert history.lowered == 2


def test_what_a_person_stopped_is_not_saved_even_if_a_ttl_archives_it() -> None:
    history = counted(
        word(10, "STANDBY", "cli"),
        step(10, "RUNNING", "STANDBY"),
        word(34, "ARCHIVED", "ttl"),
        step(34, "STANDBY", "ARCHIVED"),
        of=(there(Phase.ARCHIVED),),
    )
    assert history.saved == 0


@pytest.mark.parametrize(("state", "source"), [("ARCHIVED", "cli"), ("RUNNING", "visit")])
def test_somebody_elses_word_ends_it(state: str, source: str) -> None:
    history = counted(
        word(10, "STANDBY", "ttl"), step(10, "RUNNING", "STANDBY"), word(20, state, source)
    )
    assert history.saved == 10


def test_a_ttl_that_takes_its_word_back_has_saved_nothing() -> None:
    history = counted(
        word(10, "STANDBY", "ttl"), word(11, "RUNNING", "ttl"), step(12, "RUNNING", "STANDBY")
    )
    assert (history.saved, history.lowered) == (0, 1)


def test_one_that_broke_down_by_itself_is_not_saved() -> None:
    assert counted(step(10, "RUNNING", "STANDBY")).saved == 0


def test_time_in_error_is_not_saved_but_what_follows_is() -> None:
    history = counted(
        word(10, "STANDBY", "ttl"), step(10, "RUNNING", "ERROR"), step(30, "ERROR", "STANDBY")
    )
    assert history.saved == 138


def test_one_that_slept_before_the_window_is_saved_from_its_start() -> None:
    asleep = there(Phase.ARCHIVED)
    assert counted(of=(asleep,), opening=SLEPT).saved == 168
    assert counted(of=(asleep,)).saved == 0


def test_one_that_was_told_to_rest_before_the_window_is_saved_once_it_does() -> None:
    told = Opening(told=True, asleep=False)
    history = counted(step(1, "RUNNING", "STANDBY"), opening=told)
    assert (history.run, history.saved) == (1, 167)


# Which timelines


def test_those_that_changed_most_have_a_timeline_and_the_others_are_counted() -> None:
    fleet = tuple(there(name=f"w{number:02}", number=number) for number in range(1, 31))
    moves = [
        step(hour, "RUNNING", "STANDBY", number=number)
        for number in range(1, 31)
        for hour in range(number)
    ]
    moves.sort(key=lambda each: each.at)
    history = counted(*moves, of=fleet)
    assert len(history.timelines) == MOST_TIMELINES
    assert [each.name for each in history.timelines] == [f"w{each:02}" for each in range(11, 31)]
    assert history.more == 10
    assert len(history.usage) == 30


def test_deleted_ones_have_no_timeline() -> None:
    history = counted(step(5, "RUNNING", "DELETED"), of=(there(Phase.DELETED),))
    assert (history.timelines, history.more, history.run) == ((), 0, 5)


def test_that_it_was_cut_is_passed_on() -> None:
    assert counted(cut=True).cut


# What holds whatever happened

STATES = ("RUNNING", "STANDBY", "ARCHIVED")
PHASES = (*STATES, "PENDING", "ERROR", "DELETING", "DELETED")


@st.composite
def pasts(draw: st.DrawFn) -> tuple[Past, tuple[Workspace, ...]]:
    """Any moves of a few workspaces, some of which are there, in the order of their times."""
    moves: list[Move] = []
    for number in range(1, draw(st.integers(1, 4)) + 1):
        phase = draw(st.sampled_from(PHASES))
        for minute in sorted(draw(st.lists(st.integers(0, 7 * 24 * 60), max_size=8))):
            if draw(st.booleans()):
                new = draw(st.sampled_from(PHASES))
                moves.append(step(minute / 60, phase, new, number=number))
                phase = new
            else:
                source = draw(st.sampled_from(("ttl", "visit", "cli")))
                state = draw(st.sampled_from(STATES))
                moves.append(word(minute / 60, state, source, number=number))
    fleet = tuple(
        there(
            Phase(draw(st.sampled_from(PHASES))),
            f"w{number}",
            number,
            created_at=at(draw(st.integers(-100, 160))),
        )
        for number in range(1, draw(st.integers(0, 4)) + 1)
    )
    openings = {each.id: SLEPT for each in fleet if draw(st.booleans())}
    return Past(START, NOW, tuple(sorted(moves, key=lambda each: each.at)), openings), fleet


@given(pasts())
@settings(max_examples=60)
def test_spans_divide_the_time_from_the_beginning_to_the_end_without_gaps(
    found: tuple[Past, tuple[Workspace, ...]],
) -> None:
    past, fleet = found
    history = recount(past, fleet)
    for each in history.timelines:
        assert history.since <= each.spans[0].since
        assert each.spans[-1].until == history.until
        for one, other in pairwise(each.spans):
            assert one.until == other.since
            assert one.phase is not other.phase
        assert all(span.since < span.until for span in each.spans)


@given(pasts())
@settings(max_examples=60)
def test_slices_divide_the_window_and_add_up_to_the_same_hours(
    found: tuple[Past, tuple[Workspace, ...]],
) -> None:
    past, fleet = found
    history = recount(past, fleet)
    for slices in (history.mix, history.steps):
        assert (slices[0].since, slices[-1].until) == (history.since, history.until)
        for one, other in pairwise(slices):
            assert one.until == other.since
        ran = sum(each.hours.get(Phase.RUNNING, 0.0) for each in slices)
        assert ran == pytest.approx(history.run)
        assert sum(each.saved for each in slices) == pytest.approx(history.saved)
        for each in slices:
            rest = sum(each.hours.get(phase, 0.0) for phase in (Phase.STANDBY, Phase.ARCHIVED))
            assert -1e-9 <= each.saved <= rest + 1e-9
            assert Phase.DELETED not in each.hours


@given(pasts())
@settings(max_examples=60)
def test_the_mix_of_a_slice_is_the_number_of_those_that_were_there(
    found: tuple[Past, tuple[Workspace, ...]],
) -> None:
    past, fleet = found
    fleet = tuple(replace(each, created_at=START - DAY) for each in fleet)
    moves = tuple(each for each in past.moves if "DELETED" not in (each.old, each.new))
    ids = {each.workspace_id for each in moves if each.kind is EventKind.PHASE}
    fleet = tuple(
        each for each in fleet if each.id in ids or each.status.phase is not Phase.DELETED
    )
    known = {each.id for each in fleet}
    moves = tuple(each for each in moves if each.workspace_id in known)
    history = recount(replace(past, moves=moves), fleet)
    for each in history.mix:
        length = (each.until - each.since) / HOUR
        assert sum(each.hours.values()) == pytest.approx(len(fleet) * length)


@given(pasts(), st.integers(1, 7 * 24 * 60 - 61))
@settings(max_examples=60)
def test_two_windows_in_a_row_say_what_one_says(
    found: tuple[Past, tuple[Workspace, ...]], minutes: int
) -> None:
    past, fleet = found
    fleet = tuple(replace(each, created_at=START - DAY) for each in fleet)
    known = {each.id for each in fleet}
    moves = tuple(each for each in past.moves if each.workspace_id in known)
    middle = START + timedelta(minutes=minutes)
    earlier = tuple(each for each in moves if each.at < middle)
    later = tuple(each for each in moves if each.at >= middle)
    openings = {
        each.id: _stood(each, earlier, past.openings.get(each.id, Opening(False, False)))
        for each in fleet
    }
    whole = recount(replace(past, moves=moves), fleet)
    first = recount(replace(past, moves=earlier, until=middle), _as_of(fleet, moves, middle))
    second = recount(
        replace(past, since=middle, moves=later, openings=openings),
        _as_of(fleet, moves, NOW + DAY),
    )
    assert first.run + second.run == pytest.approx(whole.run)
    assert first.saved + second.saved == pytest.approx(whole.saved)


def _as_of(
    fleet: tuple[Workspace, ...], moves: tuple[Move, ...], moment: datetime
) -> tuple[Workspace, ...]:
    """The fleet as it was then, by these moves."""
    found = []
    for each in fleet:
        mine = [
            move for move in moves if move.workspace_id == each.id and move.kind is EventKind.PHASE
        ]
        before = [move for move in mine if move.at < moment]
        phase = before[-1].new if before else mine[0].old if mine else each.status.phase
        found.append(replace(each, status=Status(Phase(phase))))
    return tuple(found)


def _stood(one: Workspace, moves: tuple[Move, ...], opening: Opening) -> Opening:
    """How it stands after these moves, told once more in other words."""
    told, asleep = opening.told, opening.asleep
    for move in moves:
        if move.workspace_id != one.id:
            continue
        if move.kind is EventKind.DESIRED:
            told = move.source == "ttl" and move.new != "RUNNING"
            asleep = asleep and told
        elif move.old == "RUNNING":
            asleep = told and move.new != "RUNNING"
        elif move.new == "RUNNING":
            asleep = False
    return Opening(told, asleep)
