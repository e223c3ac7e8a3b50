"""The plan for a pull request: a line that says it all, a table, and details to open.

Everything that comes from specs stands in code spans, where neither Markdown nor HTML nor a
mention of somebody is read as such.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codehub.model.plan import Action, Kind
from codehub.render import plan_words as words
from codehub.render.words import clean, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codehub.model.plan import Change, Drift, FieldChange, Forecast, Plan

ROOM: Final = 50_000
"""Characters of tables; a comment on GitHub may have 65,536 in all."""

_VALUE: Final = 200
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|~&$])")
_NOT_FOR_SPANS: Final = re.compile(r"[`|\\]")
_PUNCTUATION: Final = re.compile(r"[^\w ]", re.ASCII)
_REACHES_OUT: Final = re.compile(r"@|#|://|www\.", re.IGNORECASE)
_HEAD: Final = "| | what | where | details |\n|---|---|---|---|"


def plan_markdown(plan: Plan) -> str:
    """The plan as GitHub-flavoured Markdown."""
    blocks = [
        f"### CodeHub plan: {words.summary_words(plan)}",
        *_context(plan),
        *_unsafe(plan.unsafe),
        *_changes(plan),
        *_passive(plan),
        *_drift(plan.drift),
        *_forecast(plan),
    ]
    return "\n\n".join(blocks) + "\n"


def code(text: str) -> str:
    """Code that holds this text and nothing else, also inside a table.

    A code span cannot hold every mixture of backslashes, bars and backticks within a table;
    entities can.
    """
    shown = clean(text)
    if not shown:
        return ""
    if _NOT_FOR_SPANS.search(shown):
        return f"<code>{_PUNCTUATION.sub(lambda each: f'&#{ord(each[0])};', shown)}</code>"
    return f"`{shown}`"


def prose(text: str) -> str:
    """A sentence in which nothing is markup; in a code span where it could reach somebody."""
    shown = clean(text)
    if _REACHES_OUT.search(shown):
        return code(shown)
    return _SPECIAL.sub(r"\\\1", shown)


def _context(plan: Plan) -> Iterator[str]:
    commit = f" at commit {code(plan.commit[:12])}" if plan.commit else ""
    dirty = " with uncommitted changes" if plan.commit and plan.dirty else ""
    yield f"Specs {code(plan.directory)}{commit}{dirty}, against {prose(words.hub_words(plan))}."
    target = words.target_words(plan)
    if target:
        yield f"**{prose(target)}**"
    verdict = words.verdict(plan)
    if verdict:
        yield f"**{verdict}**"


def _unsafe(reasons: Sequence[str]) -> Iterator[str]:
    if reasons:
        lines = [f"**{words.UNSAFE}.**", *(f"- {prose(each)}" for each in reasons)]
        yield "\n".join(["> [!CAUTION]", *(f"> {line}" for line in lines)])


def _changes(plan: Plan) -> Iterator[str]:
    changes = words.active(plan)
    if changes:
        yield _table(changes)


def _passive(plan: Plan) -> Iterator[str]:
    for heading, found in words.passive(plan):
        yield _details(f"{heading} ({counted(len(found), 'workspace')})", _table(found))


def _table(changes: Sequence[Change]) -> str:
    rows = [_row(change) for change in changes]
    shown, room = [], ROOM
    for row in rows:
        room -= len(row)
        if room < 0:
            break
        shown.append(row)
    lines = [_HEAD, *shown]
    if len(shown) < len(rows):
        lines.append(f"| | {words.more_words(len(rows) - len(shown), 'object')} | | |")
    return "\n".join(lines)


def _row(change: Change) -> str:
    symbol = f"`{words.SYMBOLS[change.action]}`"
    what = f"{words.kind_word(change)} **{code(change.name)}**"
    source = words.source_words(change)
    where = code(source) if change.source else source
    return f"| {symbol} | {what} | {where} | {'<br>'.join(_cells(change))} |"


def _cells(change: Change) -> Iterator[str]:
    if change.kind is Kind.WORKSPACE and change.action is Action.CREATE:
        yield code(words.spec_words(change))
    else:
        yield from (_field(each) for each in change.fields)
    for label, text in words.facts(change, arrow="→"):
        shown = f"{label}: {prose(text)}"
        yield f"**{shown}**" if label.startswith("stops") else shown


def _field(change: FieldChange) -> str:
    values = words.value_words(change, _VALUE)
    shown = " → ".join(values if change.withheld else (code(each) for each in values))
    symbol = words.field_symbol(change)
    effect = f" *({change.effect})*" if change.effect else ""
    word = {"+": "added ", "-": "removed "}.get(symbol, "") if not change.withheld else ""
    return f"{code(change.field)} {word}{shown}{effect}"


def _drift(drift: Sequence[Drift]) -> Iterator[str]:
    if drift:
        head = "| workspace | what | expected | is | note |\n|---|---|---|---|---|"
        rows = (
            f"| {code(each.name)} | {code(each.field)} | {code(each.expected)} "
            f"| {code(each.actual)} | {prose(each.note)} |"
            for each in drift
        )
        yield f"**{words.DRIFT}**"
        yield "\n".join([head, *rows])


def _forecast(plan: Plan) -> Iterator[str]:
    if plan.as_of is None:
        return
    heading = f"Until {plan.as_of:%Y-%m-%d %H:%M %Z}, if nobody comes"
    yield _details(heading, "\n".join(_falls(plan.forecast)) or "Nothing falls asleep.")


def _falls(forecast: Iterable[Forecast]) -> Iterator[str]:
    rows = [
        f"| {each.at:%Y-%m-%d %H:%M} | {code(each.name)} | {each.old} → {each.new} "
        f"| {prose(each.reason)} |"
        for each in forecast
    ]
    if rows:
        yield "| when | workspace | move | why |\n|---|---|---|---|"
    yield from rows


def _details(summary: str, body: str) -> str:
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"
