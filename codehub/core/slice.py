"""Cut a window of time into slices, and gather in each the hours spent there.

Slices begin at full hours, days or weeks (UTC, weeks on Mondays), so that they do not move with
the clock from one report to the next; the first and the last one of a window may be shorter.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Final

from codehub.model.history import Slice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.model.states import Phase

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
WEEK: Final = timedelta(days=7)
# Up to what length a window is cut how finely, and how coarsely. A coarse slice is made of whole
# fine ones.
_STEPS: Final = (
    (2 * HOUR, timedelta(minutes=2), timedelta(minutes=10)),
    (12 * HOUR, timedelta(minutes=10), HOUR),
    (2 * DAY, timedelta(minutes=30), 3 * HOUR),
    (14 * DAY, 3 * HOUR, DAY),
    (31 * DAY, 12 * HOUR, DAY),
    (60 * DAY, 12 * HOUR, WEEK),
    (120 * DAY, DAY, WEEK),
)
_MONDAY: Final = datetime(1970, 1, 5, tzinfo=UTC)


def steps(length: timedelta) -> tuple[timedelta, timedelta]:
    """How long the fine and the coarse slices of such a window are."""
    for limit, fine, coarse in _STEPS:
        if length <= limit:
            return fine, coarse
    return WEEK, WEEK


class _Row:
    """Time in each slice: what was added to single ones, and how many covered whole ones.

    `whole` holds differences, so that a stay of a year costs no more than one of a minute.
    """

    __slots__ = ("parts", "whole")

    def __init__(self, count: int) -> None:
        self.parts = [timedelta(0)] * count
        self.whole = [0] * count


class Slicer:
    """Gathers stays within a window, in which they must lie."""

    def __init__(self, since: datetime, until: datetime) -> None:
        self._step, self._coarse = steps(until - since)
        self._base = since - (since - _MONDAY) % self._step
        count = max(1, -((self._base - until) // self._step))
        inner = (self._base + number * self._step for number in range(1, count))
        self._edges = [since, *inner, until]
        self._rows: dict[Phase | None, _Row] = {}

    def add(self, phase: Phase, since: datetime, until: datetime, *, saved: bool = False) -> None:
        """One workspace was in this phase for so long."""
        self._add(phase, since, until)
        if saved:
            self._add(None, since, until)

    def _add(self, key: Phase | None, since: datetime, until: datetime) -> None:
        row, last = self._row(key), len(self._edges) - 2
        first = min((since - self._base) // self._step, last)
        final = min((until - self._base) // self._step, last)
        if first == final:
            row.parts[first] += until - since
            return
        row.parts[first] += self._edges[first + 1] - since
        row.parts[final] += until - self._edges[final]
        row.whole[first + 1] += 1
        row.whole[final] -= 1

    def _row(self, key: Phase | None) -> _Row:
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row(len(self._edges) - 1)
        return row

    def fine(self) -> tuple[Slice, ...]:
        """The slices, one after the other; a phase that nobody was in is not told."""
        spent = {key: self._hours(row) for key, row in self._rows.items()}
        saved = spent.pop(None, None)
        return tuple(
            Slice(
                *edges,
                {phase: row[number] for phase, row in spent.items() if phase and row[number] > 0},
                saved[number] if saved else 0.0,
            )
            for number, edges in enumerate(pairwise(self._edges))
        )

    def _hours(self, row: _Row) -> list[float]:
        return [
            (part + count * (until - since)) / HOUR
            for part, count, (since, until) in zip(
                row.parts, accumulate(row.whole), pairwise(self._edges), strict=True
            )
        ]

    def coarse(self) -> tuple[Slice, ...]:
        """The same in fewer, longer slices."""
        grouped = groupby(self.fine(), key=lambda each: (each.since - _MONDAY) // self._coarse)
        return tuple(_joined(tuple(group)) for _, group in grouped)


def _joined(parts: Sequence[Slice]) -> Slice:
    hours: dict[Phase, float] = defaultdict(float)
    for part in parts:
        for phase, spent in part.hours.items():
            hours[phase] += spent
    return Slice(parts[0].since, parts[-1].until, dict(hours), sum(each.saved for each in parts))
