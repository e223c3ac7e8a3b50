"""When the controller looks, and at how much: pure, with the clock as an argument.

A full pass every idle interval. Looks at what may need a step every active interval, while
something is under way and for some time after a hint. On a hint at once at those hinted at, but
never so densely that looking takes more time than acting.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codehub.coordinator.hints import Hinted

SPACING: Final = 0.02
"""Seconds between two looks at least; many hints in a row are answered together."""
LEISURE: Final = 4
"""A look at all that may need a step leaves so many times its own length to the quick ones."""


class Look(StrEnum):
    """How much a pass looks at."""

    FULL = "full"
    """All workspaces."""
    ACTIVE = "active"
    """Those under way, hinted at, or not where they should be."""
    QUICK = "quick"
    """Those under way, hinted at, or waiting for a free hand."""


@dataclass(slots=True)
class Rhythm:
    """The times of one controller; all of them on one monotonic clock."""

    idle: float
    active: float
    duration: float
    next_full: float = 0.0
    next_active: float = 0.0
    active_until: float = 0.0
    free_from: float = 0.0

    def choose(self, hinted: Hinted, now: float) -> Look | None:
        """What to look at now; None when nothing is due."""
        if hinted:
            self.active_until = now + self.duration
        if hinted.everything or now >= self.next_full:
            return Look.FULL
        if now < self.active_until and now >= self.next_active:
            return Look.ACTIVE
        return Look.QUICK if hinted else None

    def looked(self, look: Look, began: float, now: float, *, busy: bool) -> None:
        """A pass has ended; `busy` says that something is under way."""
        self.free_from = now + max(SPACING, now - began)
        if busy:
            self.active_until = max(self.active_until, now + self.duration)
        if look is Look.FULL:
            self.next_full = began + self.idle
        if look is not Look.QUICK:
            self.next_active = max(began + self.active, now + LEISURE * (now - began))

    def pause(self, now: float) -> float:
        """Seconds until the next look, should no hint come."""
        due = min(self.next_full, self.next_active) if now < self.active_until else self.next_full
        return max(due - now, 0.0)

    def spacing(self, now: float) -> float:
        """Seconds that even a hint waits, so that looks do not crowd out everything else."""
        return max(self.free_from - now, 0.0)
