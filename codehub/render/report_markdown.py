"""The report as Markdown: for a terminal, a chat or a wiki."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.model.states import Operation
from codehub.render.plan_markdown import code, prose
from codehub.render.report_html import ahead, headline
from codehub.render.words import ago, clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from codehub.model.report import Report, ReportLine
    from codehub.model.revision import Revision

_HEAD = "| name | owner | phase | why | if nobody comes | last active | declared in |"


def report_markdown(report: Report) -> str:
    """The whole report; nothing is shortened."""
    blocks = [
        f"# CodeHub: {headline(report)}",
        _revision(report),
        *_failed(report),
        *_errors(report),
        *_lines(report),
        *_drift(report),
        f"As of {report.generated_at:%Y-%m-%d %H:%M:%S %Z}.",
    ]
    return "\n\n".join(blocks) + "\n"


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
        yield f"**The last load failed**: {_named(report.failed)}."
        yield "\n".join(f"- {code(each)}" for each in report.failed.problems)


def _errors(report: Report) -> Iterator[str]:
    if report.errors:
        yield "## Needs a person"
        yield "\n".join(
            f"- **{code(each.name)}** ({prose(each.owner)}), {each.reason or 'Error'}: "
            f"{prose(each.message)}. What to do: {prose(each.advice)}."
            for each in report.errors
        )


def _lines(report: Report) -> Iterator[str]:
    yield "## Workspaces"
    if not report.lines:
        yield "There are none. `codehub apply` loads the specs."
        return
    rows = (_row(each, report.generated_at) for each in report.lines)
    yield "\n".join([_HEAD, "|---" * 7 + "|", *rows])


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
            for each in report.drift
        )
        head = "| workspace | what | expected | is | note |\n|---|---|---|---|---|"
        yield "\n".join([head, *rows])
