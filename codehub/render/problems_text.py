"""Problems in the specs as a person reads them: the place, what is wrong, the line, a caret.

specs/a.yaml:12:8: spec.ttl: unknown policy "interactve", did you mean "interactive"?
   12 |   ttl: interactve
      |        ^
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

from codehub.model.problem import in_order
from codehub.render.words import clean, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.model.problem import Problem

WIDTH: Final = 96
"""Columns of a line that are shown; of a longer one, those around the caret."""
GUTTER: Final = 6


def problems_text(problems: Sequence[Problem], hint: str | None = None) -> str:
    """All problems in the order of their places, then how many there are and what to do next."""
    shown = "".join(problem_text(each) for each in in_order(problems))
    return f"{shown}\n{_count(problems)}" + (f"  {hint}\n" if hint else "")


def problem_text(problem: Problem) -> str:
    """One problem, with its line below where that is known."""
    return clean(str(problem)) + "\n" + _excerpt(problem)


def _count(problems: Sequence[Problem]) -> str:
    """How many, and in how many files; a problem without a line may be of a whole directory."""
    total = counted(len(problems), "problem")
    if not all(each.place.line for each in problems):
        return f"{total}.\n"
    return f"{total} in {counted(len({each.place.file for each in problems}), 'file')}.\n"


def _excerpt(problem: Problem) -> str:
    if problem.excerpt is None or not problem.excerpt.strip():
        return ""
    line, caret = _window(problem.excerpt.rstrip(), max(problem.place.column - 1, 0))
    number = str(problem.place.line or "").rjust(GUTTER - 1)
    shown = f"{number} | {line}\n"
    if not problem.place.column:
        return shown
    return f"{shown}{' ' * (GUTTER - 1)} | {' ' * caret}^\n"


def _window(excerpt: str, column: int) -> tuple[str, int]:
    """The part of a line to show, and how many columns stand before the caret in it."""
    first = 0
    if len(excerpt) > WIDTH:
        first = min(max(0, column - WIDTH // 2), len(excerpt) - WIDTH)
    before = _plain(excerpt[first:column])
    after = _plain(excerpt[max(first, column) : first + WIDTH])
    opening = "…" if first else ""
    closing = "…" if first + WIDTH < len(excerpt) else ""
    return f"{opening}{before}{after}{closing}", len(opening) + _columns(before)


def _plain(text: str) -> str:
    return clean(text.replace("\t", " "))


def _columns(text: str) -> int:
    """The columns a terminal gives a text: wide characters two, combining marks none."""
    widths = (0 if unicodedata.combining(each) else _width(each) for each in text)
    return sum(widths)


def _width(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
