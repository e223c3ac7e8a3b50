"""The report as JSON: stable and versioned, for scripts and dashboards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codehub.render.plan_json import drift_data, json_text

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.history import History, Slice, Timeline, Usage
    from codehub.model.plan import Forecast
    from codehub.model.report import Held, OwnerUse, Report, ReportError, ReportLine, Storage
    from codehub.model.revision import Revision

FORMAT_VERSION: Final = 1


def report_json(report: Report) -> str:
    """The whole report; nothing is shortened but the number of timelines."""
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
        "heldByIdleness": report.idle,
        "held": [_held(each) for each in report.held],
        "owners": [_owner(each) for each in report.owners],
        "storage": _storage(report.storage),
        "history": _history(report.history),
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
        **_usage(line.usage),
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


def _held(held: Held) -> dict[str, Any]:
    return {
        "name": held.name,
        "owner": held.owner,
        "phase": held.phase.value,
        "cause": held.cause.value,
        "why": held.why,
    }


def _owner(owner: OwnerUse) -> dict[str, Any]:
    return {
        "owner": owner.owner,
        "workspaces": owner.workspaces,
        "running": owner.running,
        "hoursRun": _hours(owner.run),
        "hoursSaved": _hours(owner.saved),
        "archiveBytes": owner.archive_bytes,
        "lastAccessAt": _time(owner.last_access_at),
    }


def _storage(storage: Storage) -> dict[str, Any]:
    return {
        "homes": storage.homes,
        "archives": storage.archives,
        "archiveBytes": storage.archive_bytes,
        "kept": storage.kept,
        "keptBytes": storage.kept_bytes,
        "largest": [
            {"name": each.name, "owner": each.owner, "bytes": each.bytes}
            for each in storage.largest
        ],
    }


def _history(history: History | None) -> dict[str, Any] | None:
    if history is None:
        return None
    return {
        "from": history.since.isoformat(),
        "to": history.until.isoformat(),
        "cut": history.cut,
        "hoursRun": _hours(history.run),
        "hoursSaved": _hours(history.saved),
        "lowered": history.lowered,
        "steps": [_slice(each) for each in history.steps],
        "mix": [_slice(each) for each in history.mix],
        "timelines": [_timeline(each) for each in history.timelines],
        "timelinesOmitted": history.more,
    }


def _slice(piece: Slice) -> dict[str, Any]:
    return {
        "from": piece.since.isoformat(),
        "to": piece.until.isoformat(),
        "hours": {phase.value: _hours(spent) for phase, spent in sorted(piece.hours.items())},
        "hoursSaved": _hours(piece.saved),
    }


def _timeline(timeline: Timeline) -> dict[str, Any]:
    return {
        "name": timeline.name,
        "owner": timeline.owner,
        "spans": [
            {"phase": each.phase.value, "from": _time(each.since), "to": _time(each.until)}
            for each in timeline.spans
        ],
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "hoursRun": _hours(usage.run),
        "hoursSaved": _hours(usage.saved),
        "phaseChanges": usage.changes,
    }


def _hours(count: float) -> float:
    """To the second, or about."""
    return round(count, 4)


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
