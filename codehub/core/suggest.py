"""Guess what somebody meant: the nearest known word to a misspelt one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST: Final = 64
"""No known word is longer; comparing is quadratic in the length."""


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """`, did you mean "x"?`, or "" when nothing is near."""
    best = nearest(word, choices)
    return f', did you mean "{best}"?' if best else ""


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice with the fewest slips, the first in the alphabet among equals."""
    plain = _plain(word)
    if not plain or len(plain) > LONGEST:
        return None
    allowed = min(3, max(1, len(plain) // 3))
    best: str | None = None
    for choice in sorted(choices):
        slips = _slips(plain, _plain(choice), allowed)
        if slips is not None:
            best, allowed = choice, slips - 1
        if allowed < 0:
            break
    return best


def _plain(word: str) -> str:
    """Case, '-', '_' and '.' are what people most often get wrong; they do not count."""
    return re.sub(r"[-_.\s]", "", word).casefold()


def _slips(one: str, other: str, allowed: int) -> int | None:
    """Letters to insert, drop, change or swap to make one of the other; None above `allowed`."""
    if abs(len(one) - len(other)) > allowed:
        return None
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > allowed:
            return None
    return row[-1] if row[-1] <= allowed else None
