"""Two columns of indentation for every level, comments moved along.

Only the white space a line starts with changes; what a multi-line value holds is moved as one
piece. Lists stand two columns inside the field they belong to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.specs.outline import LINE_ENDS, is_blank, is_comment, margin, outline, split_lines
from codehub.specs.slices import column_of, leads_from, slices

if TYPE_CHECKING:
    from codehub.specs.outline import Part

STEP: Final = 2


def indent(text: str) -> str:
    """The same text with canonical indentation and no white space at the ends of lines."""
    lines = split_lines(text)
    page = _Page(lines)
    for document in outline(text):
        root = document.root
        if root is None:
            continue
        page.protect_scalars(root)
        if root.is_block_mapping and not lines[root.start.line][: column_of(root)].strip():
            page.mapping(root, 0, root.children[0].start.line, document.end)
    return page.done()


class _Page:
    """The shift of every line, worked out from the outside in: inner parts correct outer ones."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.shifts = [0] * len(lines)
        self.verbatim: set[int] = set()

    def done(self) -> str:
        made = []
        for number, line in enumerate(self.lines):
            moved = _shifted(line, self.shifts[number])
            made.append(moved if number in self.verbatim else _trimmed(moved))
        return "".join(made)

    def protect_scalars(self, root: Part) -> None:
        """White space at the ends of a multi-line value's lines may belong to the value."""
        for part in root.walk():
            if not part.children and part.last > part.start.line:
                self.verbatim.update(range(part.start.line, part.last + 1))

    def mapping(self, mapping: Part, target: int, first: int, end: int) -> None:
        delta = target - column_of(mapping)
        fields = slices(self.lines, mapping, first, end)
        for each in fields:
            self._align(each.lead, each.start, target)
            self._shift(each.start, each.end, delta)
            self._value(each.value, target + STEP, each.key.last + 1, each.end)
        self._align(fields[-1].end, end, target)

    def _value(self, value: Part, target: int, below: int, end: int) -> None:
        if value.is_block_mapping:
            start = value.children[0].start.line
            self.mapping(value, target, leads_from(self.lines, below, start), end)
        elif value.is_block_sequence and self._char(value) == "-":
            start = value.start.line
            self._align(leads_from(self.lines, below, start), start, target)
            self._items(value, target - value.start.column, end)

    def _items(self, sequence: Part, delta: int, end: int) -> None:
        self._shift(sequence.start.line, end, delta)
        for item in sequence.children:
            if item.is_block_mapping:
                start = item.children[0].start.line
                self.mapping(item, column_of(item) + delta, start, item.last + 1)

    def _char(self, part: Part) -> str:
        return self.lines[part.start.line][part.start.column : part.start.column + 1]

    def _shift(self, first: int, end: int, delta: int) -> None:
        self.shifts[first:end] = [delta] * (end - first)

    def _align(self, first: int, end: int, target: int) -> None:
        """Comments between fields start where the fields start."""
        for number in range(first, end):
            if is_comment(self.lines[number]):
                self.shifts[number] = target - margin(self.lines[number])


def _shifted(line: str, shift: int) -> str:
    if shift > 0 and line.strip(LINE_ENDS):
        return " " * shift + line
    spaces = len(line) - len(line.lstrip(" "))
    return line[min(-shift, spaces) :] if shift < 0 else line


def _trimmed(line: str) -> str:
    body = line.rstrip(LINE_ENDS)
    ending = line[len(body) :]
    return ("" if is_blank(body) else body.rstrip(" \t")) + ending
