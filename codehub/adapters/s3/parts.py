"""How large the parts of an upload are. Nobody knows before its end how long an object becomes.

S3 takes 10,000 parts. The first half of them have one size, because some servers insist: with 8 MiB
that is enough for 39 GiB. From there on the size doubles every 500 parts. So 5 TiB fit, which is
what S3 takes as one object, and a usual home needs no more memory for that.
"""

from __future__ import annotations

from typing import Final

MOST_PARTS: Final = 10_000
EVEN: Final = 5_000
"""So many have the size of the first."""
STEP: Final = 500
"""So many have each further size."""
LARGEST_PART: Final = 5 * 1024**3
"""What S3 takes as a part."""


def part_size(number: int, first: int) -> int:
    """Bytes in the part with this number, counted from 1; `first` is the size of the first."""
    doublings = max(0, -(-(number - EVEN) // STEP))
    return min(first << doublings, LARGEST_PART)


def parts_at_once(size: int, first: int, threads: int) -> int:
    """How many parts of this size may be under way: they have the memory of `threads` first ones.

    One alone may be larger than that.
    """
    return max(1, threads * first // size)
