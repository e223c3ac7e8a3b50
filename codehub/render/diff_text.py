"""What differs between two revisions, in the words of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.model.plan import Action
from codehub.render.plan_text import change_blocks
from codehub.render.words import ago, clean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from codehub.model.plan import Change
    from codehub.model.revision import Revision

SAME = "No difference: both declare the same."


def diff_text(
    old: Revision, new: Revision, changes: Sequence[Change], now: datetime, *, color: bool = False
) -> str:
    """From the old revision to the new one."""
    head = f"From {_words(old, now)}\n  to {_words(new, now)}\n\n"
    if not changes:
        return f"{head}{SAME}\n"
    return f"{head}{change_blocks(changes, color=color)}\n{_counts(changes)}\n"


def _words(revision: Revision, now: datetime) -> str:
    origin, when = revision.origin, ago(now - revision.created_at)
    place = clean(origin.directory)
    if origin.commit:
        place += f", commit {clean(origin.commit[:12])}"
        place += " with uncommitted changes" if origin.dirty else ""
    return f"revision {revision.id}: {place}, by {clean(revision.author)} {when}"


def _counts(changes: Sequence[Change]) -> str:
    actions = [each.action for each in changes]
    added, removed = actions.count(Action.CREATE), actions.count(Action.DELETE)
    changed = len(actions) - added - removed
    return f"Difference: {added} added, {changed} changed, {removed} removed."
