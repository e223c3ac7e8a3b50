"""The plan for a terminal: one block for each object, aligned, at most about 100 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from codehub.core.express import short
from codehub.model.plan import Action, Kind
from codehub.render import plan_words as words
from codehub.render.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codehub.model.plan import Change, Drift, Forecast, Plan

WIDTH: Final = 100
_VALUE: Final = 44
_TITLE: Final = 47
_LABEL: Final = 8
_SHOWN: Final = 50

_STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "create": "32",
    "undelete": "32",
    "update": "33",
    "delete": "31",
    "held": "36",
    "orphan": "35",
    "none": "36",
    "unsafe": "1;31",
}

_Line = tuple[str, str]
"""A line and its style; the style is added last, so that it never counts as width."""


def plan_text(plan: Plan, *, color: bool = False) -> str:
    """The plan as people read it."""
    lines = [
        *_head(plan),
        *_changes(words.active(plan)),
        *_passive(plan),
        *_drift(plan.drift),
        *_forecast(plan),
        *_unsafe(plan.unsafe),
        *_foot(plan),
    ]
    return _text(lines, color=color)


def change_blocks(changes: Iterable[Change], *, color: bool = False) -> str:
    """One block for each change, ending with a line break; for whatever else shows changes."""
    return _text(_changes(changes), color=color)


def drift_blocks(drift: Sequence[Drift], *, color: bool = False) -> str:
    """One block for each difference, ending with a line break."""
    return _text(_differences(drift), color=color)


def _text(lines: Iterable[_Line], *, color: bool) -> str:
    return "\n".join(_painted(text, style if color else "") for text, style in lines) + "\n"


def _painted(text: str, style: str) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and text else text


def _head(plan: Plan) -> Iterator[_Line]:
    yield f"Plan for {words.specs_words(plan)}, against {words.hub_words(plan)}.", "dim"
    target = words.target_words(plan)
    if target:
        yield target, "bold"
    yield "", ""
    verdict = words.verdict(plan)
    if verdict:
        yield verdict, "bold"


def _changes(changes: Iterable[Change]) -> Iterator[_Line]:
    for change in changes:
        yield _title(change), change.action.value
        yield from _rows(change)


def _title(change: Change) -> str:
    name = f"{words.SYMBOLS[change.action]} {words.kind_word(change)} {clean(change.name)}"
    return f"  {name:<{_TITLE - 2}}  {words.source_words(change)}".rstrip()


def _rows(change: Change) -> Iterator[_Line]:
    fields = change.fields
    new_workspace = change.kind is Kind.WORKSPACE and change.action is Action.CREATE
    label = max([_LABEL, *(len(clean(each.field)) + 2 for each in fields)])
    if new_workspace:
        label = _LABEL
        yield from _row("", "spec", words.spec_words(change), label)
    else:
        for each in fields:
            effect = f"   ({each.effect})" if each.effect else ""
            text = words.field_words(each, width=_VALUE) + effect
            yield from _row(words.field_symbol(each), clean(each.field), text, label)
    for name, text in words.facts(change):
        if name.startswith("stops"):
            yield f"      ! {name}: {text}", "unsafe"
        else:
            yield from _row("", name, text, label)


def _row(symbol: str, name: str, text: str, label: int) -> Iterator[_Line]:
    start = f"      {symbol:<1} {name:<{label}}"
    wrapped = textwrap.wrap(
        text,
        WIDTH - len(start),
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
    if len(start) + len(text) <= WIDTH + 2:
        wrapped = [text]
    for number, part in enumerate(wrapped or [""]):
        yield ((start if number == 0 else " " * len(start)) + part).rstrip(), ""


def _passive(plan: Plan) -> Iterator[_Line]:
    for heading, found in words.passive(plan):
        yield "", ""
        yield f"{heading}:", "bold"
        yield from _changes(found[:_SHOWN])
        if len(found) > _SHOWN:
            yield f"  {words.more_words(len(found) - _SHOWN, 'workspace')}", "dim"


def _drift(drift: tuple[Drift, ...]) -> Iterator[_Line]:
    if drift:
        yield "", ""
        yield f"{words.DRIFT}:", "bold"
    yield from _differences(drift)


def _differences(drift: Sequence[Drift]) -> Iterator[_Line]:
    for each in drift[:_SHOWN]:
        yield f"  ! workspace {clean(each.name)}", "update"
        text = f"expected {clean(each.expected)}, is {clean(each.actual)}"
        yield from _row("", clean(each.field), text, max(_LABEL, len(each.field) + 2))
        if each.note:
            yield from _row("", "note", clean(each.note), max(_LABEL, len(each.field) + 2))
    if len(drift) > _SHOWN:
        yield f"  {words.more_words(len(drift) - _SHOWN, 'difference')}", "dim"


def _forecast(plan: Plan) -> Iterator[_Line]:
    if plan.as_of is None:
        return
    yield "", ""
    yield f"Until {plan.as_of:%Y-%m-%d %H:%M %Z}, if nobody comes:", "bold"
    if not plan.forecast:
        yield "  nothing falls asleep", ""
    name = max((len(clean(each.name)) for each in plan.forecast), default=0)
    for each in plan.forecast:
        yield _fall(plan, each, name), ""


def _fall(plan: Plan, each: Forecast, width: int) -> str:
    due = f"in {short(each.at - plan.made_at)}" if each.at > plan.made_at else "now"
    move = f"{each.old} -> {each.new}"
    reason = clean(each.reason)
    return f"  {each.at:%m-%d %H:%M}  {due:<9}{clean(each.name):<{width}}  {move:<20}  {reason}"


def _unsafe(reasons: tuple[str, ...]) -> Iterator[_Line]:
    if reasons:
        yield "", ""
        yield f"{words.UNSAFE}:", "unsafe"
    for reason in reasons:
        yield f"  ! {clean(reason)}", "unsafe"


def _foot(plan: Plan) -> Iterator[_Line]:
    if plan.changes or plan.drift:
        yield "", ""
        yield f"Plan: {words.summary_words(plan)}.", "bold"
