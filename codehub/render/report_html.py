"""The report as a page for operators, served at `/` and written to files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.express import short
from codehub.model.states import Operation, Phase
from codehub.render.pages import render
from codehub.render.words import ago, counted

if TYPE_CHECKING:
    from datetime import timedelta

    from codehub.model.report import Report

MOST_LINES: Final = 500
"""Workspaces in the page's table; JSON has them all."""

MOST_NOTES: Final = 50
"""Errors, problems and drift in the page; a hub with more has one cause for all of them."""

# Phases that a healthy hub has nobody in: told only when there is somebody.
_QUIET: Final = frozenset({Phase.PENDING.value, Phase.DELETING.value})

_DOING: Final = {
    Operation.PROVISIONING: "making its home",
    Operation.CREATE_EMPTY_ARCHIVE: "making an empty archive",
    Operation.RESTORING: "restoring",
    Operation.STARTING: "starting",
    Operation.STOPPING: "stopping",
    Operation.ARCHIVING: "archiving",
    Operation.DELETING: "deleting",
}


def report_html(report: Report, *, refresh: int | None = None) -> str:
    """The page, whole; with `refresh` it asks for itself again after so many seconds."""
    return render(
        "report.html.j2",
        report=report,
        refresh=refresh,
        headline=headline(report),
        shown=report.lines[:MOST_LINES],
        most=MOST_NOTES,
        quiet=_QUIET,
        short=short,
        ago=ago,
        ahead=ahead,
        doing=_DOING.__getitem__,
    )


def headline(report: Report) -> str:
    """The fleet in a few words: `2 running, 1 in error of 5 workspaces`."""
    parts = [f"{report.counts.get(Phase.RUNNING, 0)} running"]
    if report.errors:
        parts.append(f"{len(report.errors)} in error")
    return f"{', '.join(parts)} of {counted(len(report.lines), 'workspace')}"


def ahead(span: timedelta) -> str:
    """`in 2h5m`, or `now`."""
    return f"in {short(span)}" if span.total_seconds() >= 1 else "now"
