"""What counts as somebody working."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.core.engage import (
    ALIVE_SECONDS,
    MOST_PATHS,
    REPEATS_SECONDS,
    LivingPages,
    Polls,
    frame_counts,
    judged_by_input,
    request_succeeded,
    tell_seconds,
)
from codehub.model.workspace import NEVER, ActivityPolicy


@pytest.mark.parametrize("status", [200, 201, 204, 206, 299, 304])
def test_an_answered_request_counts(status: int) -> None:
    assert request_succeeded(status)


@pytest.mark.parametrize(
    "status", [100, 101, 301, 302, 303, 307, 308, 400, 401, 404, 429, 500, 503]
)
def test_redirects_and_errors_are_nobodys_work(status: int) -> None:
    assert not request_succeeded(status)


@pytest.mark.parametrize(
    ("opcode", "length", "first", "counts"),
    [
        (1, 5, b"hello", True),
        (2, 5, b"hello", True),
        (0, 5, b"hello", True),
        (8, 2, b"", False),
        (9, 0, b"", False),
        (10, 4, b"ping", False),
        (2, 13, b"\x09rest of it", False),
        (2, 13, b"\x03rest of it", False),
        (2, 13, b"\x01rest of it", True),
        (1, 13, b"\x09rest of it", True),
        (2, 14, b"\x09rest of it", True),
        (2, 13, b"", True),
    ],
)
def test_frames(opcode: int, length: int, first: bytes, counts: bool) -> None:
    """Only VS Code's bare keepalive is data that nobody sent; in doubt it counts."""
    assert frame_counts(opcode, length, first) is counts


def test_a_page_that_polls_repeats_itself() -> None:
    polls = Polls()
    assert not polls.is_repeated(b"GET", b"/api/kernels", 0)
    assert polls.is_repeated(b"GET", b"/api/kernels", 10)
    assert polls.is_repeated(b"GET", b"/api/kernels", 10 + REPEATS_SECONDS - 1)
    assert not polls.is_repeated(b"GET", b"/api/kernels", 9 + 2 * REPEATS_SECONDS)


def test_other_paths_and_other_methods_do_not() -> None:
    polls = Polls()
    for number in range(5):
        assert not polls.is_repeated(b"GET", b"/file/%d" % number, number)
        assert not polls.is_repeated(b"POST", b"/save", number)


@given(st.lists(st.tuples(st.integers(0, 2000), st.floats(0, 1000)), max_size=60))
def test_it_never_calls_the_first_of_its_kind_a_repetition(asked: list[tuple[int, float]]) -> None:
    polls, seen, now = Polls(), set(), 0.0
    for path, wait in asked:
        now += wait
        repeated = polls.is_repeated(b"GET", b"/%d" % path, now)
        assert not (repeated and path not in seen)
        seen.add(path)


def test_its_memory_is_bounded_and_forgets_the_oldest_first() -> None:
    polls = Polls()
    for number in range(MOST_PATHS + 1):
        polls.is_repeated(b"GET", b"/%d" % number, 0)
    assert not polls.is_repeated(b"GET", b"/0", 1)
    assert polls.is_repeated(b"GET", b"/%d" % MOST_PATHS, 1)
    assert not polls.is_old(2)
    assert polls.is_old(2 + REPEATS_SECONDS)


def test_a_page_lives_as_long_as_it_tells() -> None:
    pages = LivingPages()
    assert not pages.lives("me", 0)
    pages.tell("me", 0)
    assert pages.lives("me", ALIVE_SECONDS - 1)
    assert not pages.lives("you", 1)
    assert not pages.lives("me", ALIVE_SECONDS)
    pages.tell("you", ALIVE_SECONDS)
    pages.forget_gone(ALIVE_SECONDS + 1)
    assert len(pages) == 1


@pytest.mark.parametrize(
    ("ttl", "seconds"), [(NEVER, 20), (1, 1), (4, 1), (30, 7), (79, 19), (80, 20), (86400, 20)]
)
def test_input_is_told_several_times_within_the_time_that_would_stop_it(
    ttl: int, seconds: int
) -> None:
    assert tell_seconds(ttl) == seconds


def test_only_auto_is_judged_by_input_and_only_while_a_page_lives() -> None:
    judged = {
        (policy, lives): judged_by_input(policy, page_lives=lives)
        for policy in ActivityPolicy
        for lives in (True, False)
    }
    assert [key for key, value in judged.items() if value] == [(ActivityPolicy.AUTO, True)]
