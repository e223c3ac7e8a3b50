"""The hub's revisions, as a table or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from codehub.core.amend import first_of
from codehub.render.table import table
from codehub.render.words import ago, clean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from codehub.model.revision import Revision

FORMAT_VERSION = 1
HEAD = ("REV", "WHEN", "BY", "COMMIT", "CHANGES", "FROM")


def history_text(revisions: Sequence[Revision], now: datetime) -> str:
    """Newest first; a revision that failed shows its first problem instead of changes."""
    if not revisions:
        return "No revision yet. 'codehub apply' loads the first one.\n"
    return table(HEAD, [_row(revision, now) for revision in revisions])


def _row(revision: Revision, now: datetime) -> tuple[str, ...]:
    commit = (revision.origin.commit or "-")[:12] + ("+" if revision.origin.dirty else "")
    when = ago(now - revision.created_at)
    what = _what(revision)
    directory = clean(revision.origin.directory)
    return str(revision.id), when, clean(revision.author), commit, what, directory


def _what(revision: Revision) -> str:
    if not revision.applied:
        return f"failed: {clean(first_of(revision.problems))}"
    return changes(revision)


def changes(revision: Revision) -> str:
    """`6 created, 1 updated`: what an applied one did."""
    counts = [f"{revision.summary[key]} {key}d" for key in _SHOWN if revision.summary.get(key)]
    return ", ".join(counts) or "no workspace changed"


_SHOWN = ("create", "update", "delete")


def history_json(revisions: Sequence[Revision]) -> str:
    """Stable for scripts."""
    return json.dumps(
        {"formatVersion": FORMAT_VERSION, "revisions": [revision_data(each) for each in revisions]},
        indent=2,
    )


def revision_data(revision: Revision) -> dict[str, object]:
    """One revision as plain data."""
    return {
        "id": revision.id,
        "digest": revision.digest,
        "createdAt": revision.created_at.isoformat(),
        "author": revision.author,
        "applied": revision.applied,
        "directory": revision.origin.directory,
        "commit": revision.origin.commit,
        "dirty": revision.origin.dirty,
        "ref": revision.origin.ref,
        "problems": list(revision.problems),
        "summary": dict(revision.summary),
    }
