"""The fate of every archive, and what a collection did: for people and for scripts."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Final

from codehub.core.collect import is_mark
from codehub.core.express import short
from codehub.model.collection import Fate, Why
from codehub.render.table import table
from codehub.render.words import ago, clean, counted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from codehub.model.collection import Collected, Survey, Verdict

FORMAT_VERSION: Final = 1
REASONS: Final = {
    Why.CURRENT: "the archive of this workspace",
    Why.IN_ERROR: "its workspace is in ERROR, where nothing is given up",
    Why.OPERATION: "of an operation under way, or one that failed",
    Why.NEWER: "not older than the archive in use",
    Why.UNKNOWN_WORKSPACE: "the database does not know its workspace: it may be an older one "
    "(see 'codehub gc --confirm-restored')",
    Why.UNRECORDED: "the database has no record of its operation: it may be newer than a backup "
    "that was restored (see 'codehub gc --confirm-restored')",
    Why.OLDER: "older than the archive in use",
    Why.PURGED: "its workspace was deleted and the retention is over",
    Why.GIVEN_UP: "the database does not know its workspace, and that was confirmed",
}
_ACTS: Final = {Fate.KEPT: "keep", Fate.WAITING: "wait", Fate.DUE: "delete"}
_UNITS: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def survey_text(survey: Survey) -> str:
    """Every archive below its workspace, what else is there, and the sum of it."""
    sections = [*_obstacle(survey), *_workspaces(survey), *_others(survey), _summary(survey)]
    return "\n".join(sections)


def _obstacle(survey: Survey) -> Iterable[str]:
    if survey.obstacle is not None:
        yield (
            f"Nothing is collected at present: {clean(survey.obstacle.message)}.\n"
            f"  {clean(survey.obstacle.hint)}\n"
        )


def _workspaces(survey: Survey) -> Iterable[str]:
    ordered = sorted(survey.verdicts, key=lambda each: (not each.workspace, _heading(each)))
    for heading, verdicts in groupby(ordered, key=_heading):
        rows = [_row(each, survey.now) for each in verdicts]
        lines = table(("  DO", "SIZE", "ARCHIVE", "WHY"), rows)
        yield f"{heading}\n{lines}"


def _heading(verdict: Verdict) -> str:
    name = clean(verdict.workspace) or "unknown workspace"
    return f"{name} ({verdict.archive.workspace_id})"


def _row(verdict: Verdict, now: datetime) -> tuple[str, ...]:
    archive = verdict.archive
    _, _, operation, attempt, _ = archive.key.split("/")
    return (
        f"  {_ACTS[verdict.fate]}",
        readable(archive.bytes),
        f"{operation}/{attempt}",
        explain(verdict, now),
    )


def explain(verdict: Verdict, now: datetime) -> str:
    """Why an archive stays or goes, and when."""
    text = REASONS[verdict.why]
    if len(verdict.archive.objects) < 2:
        text += "; incomplete"
    if verdict.fate is Fate.KEPT or verdict.due_at is None:
        return text
    if verdict.since is None:
        return f"{text}; not seen before, so it stays {short(verdict.due_at - now)} more"
    seen = f"{text}; seen {ago(now - verdict.since)}"
    return seen if verdict.fate is Fate.DUE else f"{seen}, stays {short(verdict.due_at - now)} more"


def _others(survey: Survey) -> Iterable[str]:
    """The hub's own marks need no mention."""
    strange = [clean(key) for key in survey.others if not is_mark(survey.hub_id, key)]
    if strange:
        lines = "".join(f"  {key}\n" for key in strange)
        yield f"Not archives, left alone\n{lines}"


def _summary(survey: Survey) -> str:
    counts = {fate: [each for each in survey.verdicts if each.fate is fate] for fate in Fate}
    freed = readable(sum(each.archive.bytes for each in counts[Fate.DUE]))
    text = (
        f"{counted(len(survey.verdicts), 'archive')}: {len(counts[Fate.KEPT])} kept, "
        f"{len(counts[Fate.WAITING])} waiting, {len(counts[Fate.DUE])} to delete ({freed}).\n"
    )
    if survey.purging:
        text += f"Retention is over for: {clean(', '.join(survey.purging))}.\n"
    return text


def survey_json(survey: Survey) -> str:
    """Stable for scripts."""
    obstacle = survey.obstacle
    data = {
        "formatVersion": FORMAT_VERSION,
        "hub": str(survey.hub_id),
        "obstacle": obstacle and {"message": obstacle.message, "hint": obstacle.hint},
        "archives": [_plain(each, survey.now) for each in survey.verdicts],
        "others": list(survey.others),
        "retentionOver": list(survey.purging),
    }
    return json.dumps(data, indent=2)


def _plain(verdict: Verdict, now: datetime) -> dict[str, object]:
    archive = verdict.archive
    return {
        "key": archive.key,
        "workspaceId": str(archive.workspace_id),
        "workspace": verdict.workspace or None,
        "bytes": archive.bytes,
        "objects": [each.key for each in archive.objects],
        "fate": verdict.fate.value,
        "why": verdict.why.value,
        "explanation": explain(verdict, now),
        "firstSeenAt": verdict.since.isoformat() if verdict.since else None,
        "dueAt": verdict.due_at.isoformat() if verdict.due_at else None,
    }


def collected_text(collected: Collected) -> str:
    """What the leader did."""
    lines = [
        f"Deleted {counted(collected.deleted, 'archive')} ({readable(collected.bytes)}); "
        f"{collected.kept} kept, {collected.waiting} waiting."
    ]
    if collected.confirmed:
        lines.insert(0, "This database counts as the right one from now on.")
    if collected.purged:
        lines.append(f"Retention is over for: {clean(', '.join(collected.purged))}.")
    if collected.postponed:
        lines.append(f"{collected.postponed} more are due; a later collection deletes them.")
    if collected.aborted_uploads:
        lines.append(f"Gave up {counted(collected.aborted_uploads, 'unfinished upload')}.")
    return "\n".join(lines) + "\n"


def collected_json(collected: Collected) -> str:
    """Stable for scripts."""
    plain = asdict(collected)
    plain["abortedUploads"] = plain.pop("aborted_uploads")
    return json.dumps({"formatVersion": FORMAT_VERSION, **plain}, indent=2)


def readable(count: int) -> str:
    """Bytes for people, rounded: `1.2 MiB`."""
    for unit, factor in _UNITS:
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"
