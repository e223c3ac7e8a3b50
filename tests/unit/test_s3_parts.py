"""The sizes of an upload's parts: what fits, what it costs in memory, and where they grow."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest

from codehub.adapters.s3.address import MIB, SMALLEST_PART, S3Options
from codehub.adapters.s3.parts import EVEN, LARGEST_PART, MOST_PARTS, part_size, parts_at_once

GIB = 1024 * MIB
USUAL = 60 * GIB
"""More than a home has, when it is compressed."""
OPTIONS = S3Options()
FIRST = OPTIONS.part_size


def sizes(first: int) -> list[int]:
    return [part_size(number, first) for number in range(1, MOST_PARTS + 1)]


def memory(size: int) -> int:
    """Those under way, and the one that is gathered meanwhile."""
    return size * (parts_at_once(size, FIRST, OPTIONS.upload_threads) + 1)


def test_whatever_s3_takes_as_an_object_fits() -> None:
    assert sum(sizes(FIRST)) > 5 * 1024 * GIB


@pytest.mark.parametrize("first", [SMALLEST_PART, FIRST, 100 * MIB, GIB])
def test_no_part_is_one_that_s3_refuses(first: int) -> None:
    every = sizes(first)
    assert every[:EVEN] == [first] * EVEN
    assert max(every) <= LARGEST_PART
    assert all(one <= next_one <= 2 * one for one, next_one in pairwise(every))
    assert sum(every) > 4.9 * 1024 * GIB


def test_a_usual_home_costs_no_more_memory_than_a_job_may_have() -> None:
    """256 MiB; it needs 150 MiB of them beside its parts."""
    ends = accumulate(sizes(FIRST))
    largest = max(size for size, end in zip(sizes(FIRST), ends, strict=True) if end <= USUAL)
    assert largest == 32 * MIB
    assert max(memory(size) for size in sizes(FIRST) if size <= largest) <= 64 * MIB


@pytest.mark.parametrize(
    ("size", "at_once"), [(FIRST, 4), (2 * FIRST, 2), (4 * FIRST, 1), (LARGEST_PART, 1)]
)
def test_of_larger_parts_fewer_are_under_way(size: int, at_once: int) -> None:
    assert parts_at_once(size, FIRST, 4) == at_once
