"""The report as a page for operators and, of their own workspaces, for members.

It is written to files by the PageRenderer and `codehub report`, and served on `/report`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from codehub.core.express import short
from codehub.core.gauge import amount
from codehub.model.report import HoldCause
from codehub.model.states import Operation, Phase
from codehub.render import charts
from codehub.render.pages import STYLE, Rendered, render, render_served
from codehub.render.words import ago, counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from codehub.model.history import History
    from codehub.model.report import Report
    from codehub.render.pages import Frame

TEMPLATE: Final = "report.html.j2"
STYLES: Final = f"{STYLE} report.css"

ABOUT: Final = "/workspaces/"
"""Below this the hub has a page about each workspace; to look at it wakes nobody."""

MOST_LINES: Final = 500
"""Workspaces in the page's table; JSON has them all."""

MOST_NOTES: Final = 50
"""Errors, problems and drift in the page; a hub with more has one cause for all of them."""

MOST_ROWS: Final = 10
"""Rows of the page's short lists: what comes next, what is held, who uses most."""

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

HOLDERS: Final = {
    HoldCause.SUSPENDED: "suspended",
    HoldCause.OVERRIDE: "by an override",
    HoldCause.PERSON: "by a person",
    HoldCause.WAITING: "waiting for their turn",
    HoldCause.NOT_VISITED: "not visited yet",
    HoldCause.ASKED: "as last asked for",
}


def about_below(site: str | None) -> str | None:
    """The pages about workspaces, for a file that is read anywhere; None if nobody knows where."""
    return None if site is None else f"{site.rstrip('/')}{ABOUT}"


def report_html(
    report: Report, *, refresh: int | None = None, own: bool = False, below: str | None = None
) -> str:
    """The page as a file; with `refresh` it asks for itself again after so many seconds.

    `own` is for a report of one person's workspaces: they come first, and owners are not told.
    Names lead to an address `below` this one, and are text where there is none.
    """
    values = _values(report, own=own, below=below)
    return render(TEMPLATE, style=STYLES, refresh=refresh, frame=None, **values)


def report_served(
    report: Report, frame: Frame, *, refresh: int | None = None, own: bool = False
) -> Rendered:
    """The page with its policy, as the hub serves it."""
    values = _values(report, own=own, below=ABOUT)
    return render_served(TEMPLATE, frame, style=STYLES, refresh=refresh, **values)


def _values(report: Report, *, own: bool, below: str | None) -> dict[str, Any]:
    return {
        "report": report,
        "history": report.history,
        "own": own,
        "below": below,
        "headline": headline(report),
        "window": window(report.history) if report.history else "",
        "saved_part": share_saved(report.history) if report.history else None,
        "holds": dict(hold_counts(report)),
        "shown": report.lines[:MOST_LINES],
        "most": MOST_NOTES,
        "few": MOST_ROWS,
        "quiet": _QUIET,
        "short": short,
        "ago": ago,
        "ahead": ahead,
        "amount": amount,
        "charts": charts,
        "Phase": Phase,
        "doing": _DOING.__getitem__,
    }


def headline(report: Report) -> str:
    """The fleet in a few words: `2 running, 1 in error of 5 workspaces`."""
    parts = [f"{report.counts.get(Phase.RUNNING, 0)} running"]
    if report.errors:
        parts.append(f"{len(report.errors)} in error")
    return f"{', '.join(parts)} of {counted(len(report.lines), 'workspace')}"


def ahead(span: timedelta) -> str:
    """`in 2h5m`, or `now`."""
    return f"in {short(span)}" if span.total_seconds() >= 1 else "now"


def window(history: History) -> str:
    """`the last 7 days`; below two days `the last 26 hours`, and `the last hour`."""
    length = history.until - history.since
    if length.days > 1:
        return f"the last {length.days} days"
    hours, minutes = divmod(max(1, int(length.total_seconds()) // 60), 60)
    count, unit = (hours, "hour") if hours else (minutes, "minute")
    return f"the last {unit if count == 1 else counted(count, unit)}"


def share_saved(history: History) -> int | None:
    """What part of the hours that would have run was saved, in percent."""
    whole = history.run + history.saved
    return round(100 * history.saved / whole) if whole else None


def hold_counts(report: Report) -> Iterator[tuple[str, int]]:
    """How many are held by what, in words; the routine one last."""
    found = Counter(each.cause for each in report.held)
    for cause, words in HOLDERS.items():
        if found[cause]:
            yield words, found[cause]
    if report.idle:
        yield "asleep for idleness", report.idle
