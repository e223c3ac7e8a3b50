"""Whether a workspace works without a person in it: told by the CPU time between two looks."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

    from codehub.model.runtime import Stats


class Work(Enum):
    """What two looks say; UNKNOWN when they say nothing."""

    BUSY = auto()
    QUIET = auto()
    UNKNOWN = auto()


def judge_work(
    earlier: Stats | None, later: Stats, percent: int, *, shortest: timedelta, longest: timedelta
) -> Work:
    """BUSY above so many percent of one core, between looks neither too close nor too far apart.

    Too close, a keystroke looks like a build; too far, a build that just began looks like nothing.
    CPU time that went down belongs to other processes than before.
    """
    if earlier is None:
        return Work.UNKNOWN
    elapsed, spent = later.at - earlier.at, later.cpu_seconds - earlier.cpu_seconds
    if not shortest <= elapsed <= longest or spent < 0:
        return Work.UNKNOWN
    busy = spent * 100 > percent * elapsed.total_seconds()
    return Work.BUSY if busy else Work.QUIET


def too_soon(earlier: Stats, later: Stats, *, shortest: timedelta) -> bool:
    """Whether the earlier look stays the one to compare with."""
    same = earlier.cpu_seconds <= later.cpu_seconds
    return same and earlier.at <= later.at < earlier.at + shortest
