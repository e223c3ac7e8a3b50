"""Put the fields of spec documents in the order in which the models declare them.

Fields the models do not know keep their place behind the known ones, and the keys of free
mappings (labels, env) stay as they were written. A document's opening comments stay on top of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.specs.outline import PartKind, is_blank, is_comment, outline, split_lines
from codehub.specs.slices import column_of, leads_from, slices
from codehub.specs.unformatted import CannotFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codehub.specs.outline import Part, Spot
    from codehub.specs.slices import Slice

    Order = Mapping[str, "Order"]
    OrderOf = Callable[[str], Order]


def order_fields(text: str, order_of: OrderOf) -> str:
    """`order_of` gives the order of fields for a kind of document."""
    return _order_blocks(_order_flows(text, order_of), order_of)


def _kind(root: Part) -> str:
    for key, value in root.entries:
        if key.value == "kind":
            return value.value
    return ""


def _wanted(mapping: Part, order: Order) -> list[int]:
    """The positions of the entries in their canonical order."""
    ranks = {name: rank for rank, name in enumerate(order)}

    def rank(position: int) -> int:
        return ranks.get(mapping.children[2 * position].value, len(ranks))

    positions = range(len(mapping.children) // 2)
    return sorted(positions, key=rank) if order else list(positions)


def _is_sorted(wanted: Sequence[int]) -> bool:
    return all(place == position for place, position in enumerate(wanted))


# Block style: whole lines move.


def _order_blocks(text: str, order_of: OrderOf) -> str:
    lines = split_lines(text)
    for document in outline(text):
        root = document.root
        if root is not None and root.is_block_mapping:
            order = order_of(_kind(root))
            _order_block(lines, root, order, root.children[0].start.line, document.end)
    return "".join(lines)


def _order_block(lines: list[str], part: Part, order: Order, first: int, end: int) -> None:
    """Sort the lines of one part in place: inner mappings first, so that line numbers hold."""
    if part.is_block_sequence:
        for item in part.children:
            if item.is_block_mapping:
                line = item.children[0].start.line
                _order_block(lines, item, order, line, item.last + 1)
    elif part.is_block_mapping:
        fields = slices(lines, part, first, end)
        for each in fields:
            inner = order.get(each.key.value)
            if inner:
                below = leads_from(lines, each.key.last + 1, _first_line(each.value))
                _order_block(lines, each.value, inner, below, each.end)
        wanted = _wanted(part, order)
        if not _is_sorted(wanted):
            _permute(lines, part, fields, wanted)


def _first_line(part: Part) -> int:
    """Where a block's first field stands; its anchor or tag may stand above."""
    return part.children[0].start.line if part.is_block_mapping else part.start.line


def _permute(lines: list[str], mapping: Part, fields: list[Slice], wanted: list[int]) -> None:
    first, column = fields[0], column_of(mapping)
    dash = _dash(lines[first.start], column)
    lines[first.start] = " " * column + lines[first.start][column:]
    _require_plain_keys(lines, fields, column)
    chunks = [lines[each.lead : each.end] for each in fields]
    moved = [chunks[position] for position in wanted]
    _swap_blanks(moved, wanted.index(0))
    if dash:
        moved[0] = _put_dash(moved[0], dash)
    lines[first.lead : fields[-1].end] = [line for chunk in moved for line in chunk]


def _dash(line: str, column: int) -> str:
    """What stands before a mapping on its first line, inside a list: `  - `."""
    before = line[:column]
    return before if before.strip() else ""


def _require_plain_keys(lines: list[str], fields: list[Slice], column: int) -> None:
    for each in fields:
        before = lines[each.start][:column]
        if before.strip() or each.key.start.column != column:
            raise CannotFormat(each.start, "fields written as '? key' cannot be moved")


def _swap_blanks(moved: list[list[str]], formerly_first: int) -> None:
    """Blank lines part fields, so the one that is first now gives its own to the one that was."""
    blanks = 0
    while is_blank(moved[0][blanks]):
        blanks += 1
    moved[formerly_first][:0] = moved[0][:blanks]
    del moved[0][:blanks]


def _put_dash(chunk: list[str], dash: str) -> list[str]:
    if dash.strip(" -"):
        raise CannotFormat(0, f"fields behind {dash.strip()!r} cannot be moved")
    margin = " " * (len(dash) - len(dash.lstrip()))
    top = next(number for number, line in enumerate(chunk) if not _is_aside(line))
    above = [margin + line.lstrip() if is_comment(line) else line for line in chunk[:top]]
    return [*above, dash + chunk[top][len(dash) :], *chunk[top + 1 :]]


def _is_aside(line: str) -> bool:
    return is_blank(line) or is_comment(line)


# Flow style, {a: 1, b: 2}: texts between the commas move.


def _order_flows(text: str, order_of: OrderOf) -> str:
    lines = split_lines(text)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    flows = _Flows(text, begins)
    for document in outline(text):
        if document.root is not None and document.root.kind is PartKind.MAPPING:
            flows.find(document.root, order_of(_kind(document.root)))
    return flows.done()


class _Flows:
    """Collects the outermost flow collections that change, and puts them into the text."""

    def __init__(self, text: str, begins: Sequence[int]) -> None:
        self.text = text
        self.begins = begins
        self.edits: list[tuple[int, int, str]] = []

    def done(self) -> str:
        text = self.text
        for start, end, new in reversed(self.edits):
            text = text[:start] + new + text[end:]
        return text

    def find(self, part: Part, order: Order) -> None:
        if not order or not part.children:
            return
        if part.flow:
            self.edits.append((self._at(part.start), self._at(part.end), self._text(part, order)))
        elif part.kind is PartKind.MAPPING:
            for key, value in part.entries:
                self.find(value, order.get(key.value, {}))
        else:
            for item in part.children:
                self.find(item, order)

    def _at(self, spot: Spot) -> int:
        return self.begins[spot.line] + spot.column

    def _text(self, part: Part, order: Order) -> str:
        start, end = self._at(part.start), self._at(part.end)
        if not (order and part.flow and part.children):
            return self.text[start:end]
        pieces = self._pieces(part, order)
        if part.kind is PartKind.MAPPING:
            wanted = _wanted(part, order)
            if not _is_sorted(wanted):
                self._require_no_comment(part, [(first, last) for first, last, _ in pieces])
        else:
            wanted = list(range(len(pieces)))
        made, at = "", start
        for (first, last, _), position in zip(pieces, wanted, strict=True):
            made += self.text[at:first] + pieces[position][2]
            at = last
        return made + self.text[at:end]

    def _pieces(self, part: Part, order: Order) -> list[tuple[int, int, str]]:
        """Start, end and new text of each entry or item."""
        if part.kind is PartKind.SEQUENCE:
            return [
                (self._at(item.start), self._at(item.end), self._text(item, order))
                for item in part.children
            ]
        found = []
        for key, value in part.entries:
            start, middle = self._at(key.start), self._at(value.start)
            end = max(self._at(key.end), self._at(value.end))
            new = self._text(value, order.get(key.value, {}))
            found.append((start, end, self.text[start:middle] + new))
        return found

    def _require_no_comment(self, part: Part, pieces: list[tuple[int, int]]) -> None:
        """Between the entries there may be commas only: a comment there has no clear owner."""
        ends = [self._at(part.start), *(last for _, last in pieces)]
        starts = [*(first for first, _ in pieces), self._at(part.end)]
        between = "".join(self.text[a:b] for a, b in zip(ends, starts, strict=True))
        if "#" in between or "?" in between:
            what = "comment" if "#" in between else "'?'"
            raise CannotFormat(
                part.start.line,
                f"a {what} inside {{…}} keeps its fields from being moved; "
                "write this mapping in block style, a field a line",
            )
