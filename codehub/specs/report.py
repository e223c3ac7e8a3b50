"""Turn what is wrong in a file into problems with a place and the line itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.core.withhold import printable
from codehub.model.problem import Place, Problem
from codehub.specs import caps
from codehub.specs.locate import Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.model.problem import Fault
    from codehub.specs.parse import Parsed


def report_flaws(file: str, content: bytes, parsed: Parsed) -> list[Problem]:
    """Problems with the YAML itself. Where reading stopped, the last flaw says why."""
    if not parsed.flaws:
        return []
    layout = Layout(content)
    problems = []
    for flaw in parsed.flaws[: caps.PROBLEMS_PER_FILE]:
        broke = parsed.broken and flaw is parsed.flaws[-1]
        excerpt = layout.excerpt(flaw.line, where_it_broke=broke)
        problems.append(Problem(Place(file, flaw.line, flaw.column), "", flaw.message, excerpt))
    return problems + _more(file, parsed.flaws)


def report_faults(file: str, content: bytes, faults: Sequence[tuple[int, Fault]]) -> list[Problem]:
    """Problems with what the documents say; each fault with the number of its document."""
    if not faults:
        return []
    layout = Layout(content)
    problems = []
    for number, fault in faults[: caps.PROBLEMS_PER_FILE]:
        line, column = layout.find(number, fault)
        place = Place(file, line, column)
        field = printable(fault.field)
        problems.append(Problem(place, field, fault.message, layout.excerpt(line)))
    return problems + _more(file, faults)


def _more(file: str, found: Sequence[object]) -> list[Problem]:
    if len(found) <= caps.PROBLEMS_PER_FILE:
        return []
    message = f"more than {caps.PROBLEMS_PER_FILE} problems in this file; the first are shown"
    return [Problem(Place(file), "", message)]
