"""How long to wait before trying again: doubling, capped, and spread."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

FIRST: Final = timedelta(seconds=2)
LIMIT: Final = timedelta(seconds=60)
_DOUBLINGS: Final = 30
"""Beyond so many, every sensible cap is reached; it keeps the power small."""


def backoff(
    attempt: int, jitter: float, *, first: timedelta = FIRST, limit: timedelta = LIMIT
) -> timedelta:
    """The wait before try number `attempt` + 1; `jitter` in [0, 1) takes off up to a half.

    Half of the wait is certain, so that a failing engine gets rest; the other half is spread, so
    that what failed together does not come back together.
    """
    if attempt < 1:
        return timedelta(0)
    whole = min(limit, first * (1 << min(attempt - 1, _DOUBLINGS)))
    return whole * (1 - jitter / 2)
