"""The report as JSON: stable and versioned, for scripts and dashboards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codehub.render.plan_json import drift_data, json_text

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.plan import Forecast
    from codehub.model.report import Report, ReportError, ReportLine
    from codehub.model.revision import Revision

FORMAT_VERSION: Final = 1


def report_json(report: Report) -> str:
    """The whole report; nothing is shortened."""
    return json_text({"formatVersion": FORMAT_VERSION, **report_data(report)})


def report_data(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "generatedAt": report.generated_at.isoformat(),
        "hub": {"name": report.hub, "id": report.hub_id},
        "revision": _revision(report.revision),
        "failedLoad": _revision(report.failed),
        "phases": {phase.value: count for phase, count in report.counts.items()},
        "inProgress": report.busy,
        "workspaces": [_line(each) for each in report.lines],
        "errors": [_error(each) for each in report.errors],
        "drift": [drift_data(each) for each in report.drift],
    }


def _revision(revision: Revision | None) -> dict[str, Any] | None:
    if revision is None:
        return None
    return {
        "id": revision.id,
        "directory": revision.origin.directory,
        "commit": revision.origin.commit,
        "dirty": revision.origin.dirty,
        "createdAt": revision.created_at.isoformat(),
        "author": revision.author,
        "problems": list(revision.problems),
    }


def _line(line: ReportLine) -> dict[str, Any]:
    progress = line.progress
    return {
        "name": line.name,
        "owner": line.owner,
        "phase": line.phase.value,
        "since": _time(line.since),
        "operation": line.operation.value,
        "progress": {"words": progress.words, "part": progress.part} if progress else None,
        "why": line.why,
        "nextMove": _move(line.next_move),
        "lastAccessAt": _time(line.last_access_at),
        "lastAccessSource": line.last_access_source,
        "source": str(line.declared) if line.declared else None,
    }


def _move(move: Forecast | None) -> dict[str, Any] | None:
    if move is None:
        return None
    return {"at": move.at.isoformat(), "to": move.new, "reason": move.reason}


def _error(error: ReportError) -> dict[str, Any]:
    return {
        "name": error.name,
        "owner": error.owner,
        "reason": error.reason.value if error.reason else None,
        "message": error.message,
        "advice": error.advice,
        "since": _time(error.since),
    }


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
