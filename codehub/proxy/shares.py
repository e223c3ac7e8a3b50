"""How much of the web application one visitor may have at once, so that others get to it too.

It is one upstream for everybody, also for those whom nobody knows yet: whoever could fill all its
connections would shut everybody out of the dashboard and the API.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from codehub.proxy.counting import count_down

if TYPE_CHECKING:
    from codehub.proxy.networks import Networks


class Shares:
    """Requests under way, by who asks; `uncapped` are those who speak for many."""

    def __init__(self, most: int, uncapped: Networks) -> None:
        self._most = most
        self._uncapped = uncapped
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many have something under way."""
        return len(self._taken)

    def take(self, asker: str) -> bool:
        """One request more; False where there are too many already."""
        if self._taken[asker] >= self._most and asker not in self._uncapped:
            return False
        self._taken[asker] += 1
        return True

    def give(self, asker: str) -> None:
        """One is done."""
        count_down(self._taken, asker)
