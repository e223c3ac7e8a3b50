"""Truth tables as text: aligned columns, a header, and rows that say the same thing joined.

A table is computed over every combination of its inputs, then folded: rows that differ in one
column only and have the same result become one, so a person reads rules and not combinations.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Row = tuple[tuple[str, ...], ...]


def truth_table(
    inputs: Mapping[str, Sequence[str]],
    outputs: Sequence[str],
    rule: Callable[..., tuple[str, ...] | None],
    *,
    grouped: bool = False,
) -> str:
    """The folded table of `rule` over all inputs; what it answers with None is left out.

    `grouped` keeps the first column apart: one block for each of its values.
    """
    cells: dict[Row, tuple[str, ...]] = {}
    for values in product(*inputs.values()):
        result = rule(*values)
        if result is not None:
            cells[tuple((value,) for value in values)] = result
    domains = [
        tuple(value for value in domain if any(value in row[i] for row in cells))
        for i, domain in enumerate(inputs.values())
    ]
    folded = _fold(cells, domains, 1 if grouped else 0)
    lines = [(*inputs, "→", *outputs)]
    for row, result in folded.items():
        named = [_name(row[i], domains[i]) for i in range(len(domains))]
        lines.append((*named, "→", *result))
    return align(lines)


def _fold(
    cells: dict[Row, tuple[str, ...]], domains: Sequence[tuple[str, ...]], apart: int
) -> dict[Row, tuple[str, ...]]:
    """Join rows column by column, from the last, until nothing can be joined."""
    while True:
        before = len(cells)
        for column in reversed(range(apart, len(domains))):
            cells = _fold_column(cells, column, domains[column])
        if len(cells) == before:
            return cells


def _fold_column(
    cells: dict[Row, tuple[str, ...]], column: int, domain: tuple[str, ...]
) -> dict[Row, tuple[str, ...]]:
    groups: dict[tuple[Row, tuple[str, ...]], list[str]] = {}
    for row, result in cells.items():
        rest = (*row[:column], (), *row[column + 1 :])
        groups.setdefault((rest, result), []).extend(row[column])
    folded = {}
    for (rest, result), values in groups.items():
        ordered = tuple(value for value in domain if value in values)
        folded[(*rest[:column], ordered, *rest[column + 1 :])] = result
    return folded


def _name(values: tuple[str, ...], domain: tuple[str, ...]) -> str:
    if len(domain) > 1 and values == domain:
        return "*"
    if len(domain) > 3 and len(values) == len(domain) - 1:
        return "not " + next(value for value in domain if value not in values)
    return " | ".join(values)


def align(lines: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the first line is the header."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    texts = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    rule = "-" * max(len(text) for text in texts)
    return "\n".join([texts[0], rule, *texts[1:]]) + "\n"
