"""What is remembered of requests that repeat is small, however long their paths are."""

from __future__ import annotations

from sys import getsizeof

import pytest

from codehub.core.engage import LONG_PATH, MOST_PATHS, Polls


@pytest.mark.parametrize("length", [LONG_PATH - 1, LONG_PATH, LONG_PATH + 1, 32 * 1024])
def test_paths_of_every_length_are_known_again(length: int) -> None:
    polls = Polls()
    one, other = (b"/".ljust(length - 1, b"x") + end for end in (b"a", b"b"))
    assert not polls.is_repeated(b"GET", one, 0)
    assert not polls.is_repeated(b"GET", other, 0)
    assert polls.is_repeated(b"GET", one, 1)
    assert polls.is_repeated(b"GET", other, 1)


def test_long_paths_take_little_room() -> None:
    polls = Polls()
    for number in range(2 * MOST_PATHS):
        polls.is_repeated(b"GET", b"/%d" % number + b"x" * 32 * 1024, 0)
    kept = polls._last
    assert len(kept) == MOST_PATHS
    assert sum(getsizeof(each) for each in kept) < 128 * MOST_PATHS
