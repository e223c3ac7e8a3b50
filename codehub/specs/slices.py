"""Which lines belong to which field of a block mapping, comments included.

A comment above a field belongs to that field, and so does one at the end of its line. A comment
below a field that is indented deeper than the field belongs to it as well (a commented-out last
line of its value). What then is left at the end of a mapping stays at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.specs.outline import is_blank, is_comment, margin
from codehub.specs.unformatted import CannotFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.specs.outline import Part


@dataclass(frozen=True, slots=True)
class Slice:
    """One field: comments and blank lines from `lead`, itself from `start`, all before `end`."""

    key: Part
    value: Part
    lead: int
    start: int
    end: int


def column_of(mapping: Part) -> int:
    return mapping.children[0].start.column


def slices(lines: Sequence[str], mapping: Part, first: int, end: int) -> list[Slice]:
    """The fields of a block mapping whose lines are `first` to `end`, the latter excluded.

    Lines after the last slice, if any, are the mapping's footer.
    """
    column = column_of(mapping)
    starts = [key.start.line for key, _ in mapping.entries]
    found: list[Slice] = []
    lead = first
    for number, (key, value) in enumerate(mapping.entries):
        limit = starts[number + 1] if number + 1 < len(starts) else end
        after = max(key.last, value.last) + 1
        _require_gap(lines, after, limit)
        tail = _end_of_tail(lines, after, limit, column)
        found.append(Slice(key, value, lead, starts[number], tail))
        lead = tail
    return found


def _end_of_tail(lines: Sequence[str], after: int, limit: int, column: int) -> int:
    """Where the comments that are indented deeper than the field end."""
    tail = after
    for number in range(after, limit):
        if is_comment(lines[number]) and margin(lines[number]) > column:
            tail = number + 1
    return tail


def _require_gap(lines: Sequence[str], first: int, end: int) -> None:
    """Between two fields there are comments and blank lines; else the layout is not understood."""
    for number in range(first, end):
        if not (is_blank(lines[number]) or is_comment(lines[number])):
            raise CannotFormat(number, "this layout is not understood; write one field a line")


def leads_from(lines: Sequence[str], first: int, start: int) -> int:
    """The first line of the comments and blank lines that stand right above `start`."""
    lead = start
    while lead > first and (is_blank(lines[lead - 1]) or is_comment(lines[lead - 1])):
        lead -= 1
    return lead
