"""How long to wait before trying again."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.core.backoff import FIRST, LIMIT, backoff


def test_it_doubles_up_to_the_limit() -> None:
    waits = [backoff(attempt, 0).total_seconds() for attempt in range(8)]
    assert waits == [0, 2, 4, 8, 16, 32, 60, 60]


def test_first_and_limit_are_settings() -> None:
    one, ten = timedelta(seconds=1), timedelta(seconds=10)
    assert [backoff(n, 0, first=one, limit=ten) for n in (1, 3, 9)] == [one, 4 * one, ten]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_at_least_half_of_the_wait_is_certain(attempt: int, jitter: float) -> None:
    whole = backoff(attempt, 0)
    assert whole / 2 <= backoff(attempt, jitter) <= whole
    assert FIRST <= whole <= LIMIT
