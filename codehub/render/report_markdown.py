"""The report as Markdown, short enough for a chat or a pull request, and for a terminal.

The charts are lines of block characters. Long lists are cut: the page shows more, JSON all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.gauge import amount
from codehub.model.states import Operation, Phase
from codehub.render.charts import hours
from codehub.render.plan_markdown import code, prose
from codehub.render.report_html import ahead, headline, hold_counts, share_saved, window
from codehub.render.words import ago, clean, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from codehub.model.report import OwnerUse, Report, ReportLine
    from codehub.model.revision import Revision

MOST_LINES: Final = 50
"""Workspaces, and notes of one kind: a comment on GitHub may have 65,536 characters in all."""

MOST_ROWS: Final = 5
"""Rows of the short lists."""

_HEAD: Final = "| name | owner | phase | why | if nobody comes | last active | declared in |"
_BLOCKS: Final = "▁▂▃▄▅▆▇█"


def report_markdown(report: Report) -> str:
    """The report, most urgent first."""
    blocks = [
        f"# CodeHub: {headline(report)}",
        _revision(report),
        *_failed(report),
        *_errors(report),
        *_history(report),
        *_coming(report),
        *_held(report),
        *_owners(report),
        *_storage(report),
        *_drift(report),
        *_lines(report),
        f"As of {report.generated_at:%Y-%m-%d %H:%M:%S %Z}.",
    ]
    return "\n\n".join(blocks) + "\n"


def sparkline(values: Sequence[float]) -> str:
    """`▁▃█`: each value as a part of the largest; nothing where all are zero."""
    top = max(values, default=0.0)
    if top <= 0:
        return ""
    return "".join(_BLOCKS[round(each / top * (len(_BLOCKS) - 1))] for each in values)


def _revision(report: Report) -> str:
    revision = report.revision
    if revision is None:
        return "No revision has been applied yet."
    when = ago(report.generated_at - revision.created_at)
    return f"{_named(revision)}, applied {when} by {prose(revision.author)}."


def _named(revision: Revision) -> str:
    commit = f", commit {code(revision.origin.commit[:12])}" if revision.origin.commit else ""
    return f"Revision {revision.id} of {code(revision.origin.directory)}{commit}"


def _failed(report: Report) -> Iterator[str]:
    if report.failed is not None:
        problems = report.failed.problems
        yield f"**The last load failed**: {_named(report.failed)}."
        yield _listed([code(each) for each in problems[:MOST_LINES]], len(problems))


def _errors(report: Report) -> Iterator[str]:
    if report.errors:
        yield "## Needs a person"
        told = [
            f"**{code(each.name)}** ({prose(each.owner)}), {each.reason or 'Error'}: "
            f"{prose(each.message)}. What to do: {prose(each.advice)}."
            for each in report.errors[:MOST_LINES]
        ]
        yield _listed(told, len(report.errors))


def _history(report: Report) -> Iterator[str]:
    history = report.history
    if history is None or not history.timelines:
        return
    yield f"## {window(history).capitalize()}"
    share = share_saved(history)
    part = f" ({share}% of what would have run)" if share is not None else ""
    told = [
        f"**{hours(history.run)}** run, **{hours(history.saved)}** saved by TTL{part}, "
        f"lowered {counted(history.lowered, 'time')}"
    ]
    for words, values in (
        ("run", [each.hours.get(Phase.RUNNING, 0.0) for each in history.steps]),
        ("saved", [each.saved for each in history.steps]),
    ):
        if line := sparkline(values):
            told.append(f"{words} `{line}` up to {hours(max(values))} a bar")
    if history.cut:
        told.append("more happened than could be counted, so it looks back less far")
    yield _listed(told, len(told))


def _coming(report: Report) -> Iterator[str]:
    if report.coming:
        yield "## Next, if nobody comes"
        told = [
            f"{code(each.name)} {each.new} {ahead(each.at - report.generated_at)} "
            f"({prose(each.reason)})"
            for each in report.coming[:MOST_ROWS]
        ]
        yield _listed(told, len(report.coming))


def _held(report: Report) -> Iterator[str]:
    if not (report.held or report.idle):
        return
    yield "## Held below what is declared"
    yield ", ".join(f"{count:,} {words}" for words, count in hold_counts(report)) + "."
    if report.held:
        told = [f"{code(each.name)}: {prose(each.why)}" for each in report.held[:MOST_ROWS]]
        yield _listed(told, len(report.held))


def _owners(report: Report) -> Iterator[str]:
    if len(report.owners) < 2:
        return
    yield "## Who uses what"
    head = "| owner | workspaces | running | hours run | hours saved | archives |"
    rows = (_owner(each) for each in report.owners[:MOST_ROWS])
    yield "\n".join([head, "|---" * 6 + "|", *rows])
    yield from _rest(len(report.owners) - MOST_ROWS)


def _owner(each: OwnerUse) -> str:
    kept = amount(each.archive_bytes) if each.archive_bytes else "–"
    return (
        f"| {prose(each.owner)} | {each.workspaces} | {each.running} "
        f"| {hours(each.run)} | {hours(each.saved)} | {kept} |"
    )


def _storage(report: Report) -> Iterator[str]:
    stored = report.storage
    if not (stored.homes or stored.archives or stored.kept):
        return
    yield "## Storage"
    told = [counted(stored.homes, "home")]
    if stored.archives:
        told.append(f"{counted(stored.archives, 'archive')} with {amount(stored.archive_bytes)}")
    if stored.kept:
        told.append(f"{stored.kept} of deleted ones with {amount(stored.kept_bytes)}")
    largest = ", ".join(f"{code(each.name)} {amount(each.bytes)}" for each in stored.largest)
    yield ", ".join(told) + (f"; largest: {largest}." if largest else ".")


def _lines(report: Report) -> Iterator[str]:
    yield "## Workspaces"
    if not report.lines:
        yield "There are none. `codehub apply` loads the specs."
        return
    rows = (_row(each, report.generated_at) for each in report.lines[:MOST_LINES])
    yield "\n".join([_HEAD, "|---" * 7 + "|", *rows])
    yield from _rest(len(report.lines) - MOST_LINES)


def _row(line: ReportLine, now: datetime) -> str:
    move, active = line.next_move, line.last_access_at
    cells = (
        code(line.name),
        prose(line.owner),
        _phase(line),
        prose(line.why),
        f"{move.new} {ahead(move.at - now)}" if move else "stays",
        ago(now - active) if active else "not yet",
        code(str(line.declared)) if line.declared else "no spec",
    )
    return f"| {' | '.join(cells)} |"


def _phase(line: ReportLine) -> str:
    if line.operation is Operation.NONE:
        return line.phase.value
    far = f": {clean(line.progress.words)}" if line.progress else ""
    return f"{line.phase.value}, {line.operation.value}{far}"


def _drift(report: Report) -> Iterator[str]:
    if report.drift:
        yield "## Drift"
        rows = (
            f"| {code(each.name)} | {code(each.field)} | {code(each.expected)} "
            f"| {code(each.actual)} | {prose(each.note)} |"
            for each in report.drift[:MOST_LINES]
        )
        head = "| workspace | what | expected | is | note |\n|---|---|---|---|---|"
        yield "\n".join([head, *rows])
        yield from _rest(len(report.drift) - MOST_LINES)


def _listed(told: Sequence[str], there: int) -> str:
    more = [f"… and {there - len(told):,} more"] if there > len(told) else []
    return "\n".join(f"- {each}" for each in (*told, *more))


def _rest(count: int) -> Iterator[str]:
    if count > 0:
        yield f"… and {count:,} more; `codehub report --format json` has them all."
