"""How long a lowering that comes from git waits for the people in a workspace.

Somebody who works must not lose the workspace under their hands because a commit was merged; and
a commit must not wait for ever. `target` asks for lowered ceilings, `decide` for updates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.model.states import IntentSource, Phase

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.decision import Drain
    from codehub.model.workspace import Workspace


def drained_at(
    workspace: Workspace, since: datetime | None, now: datetime, drain: Drain
) -> datetime | None:
    """When a RUNNING workspace may be stopped; None for at once.

    `since` is when git asked for it; without it there is no hour to count, only idleness.
    """
    used = last_used(workspace)
    if drain.skip or used is None or workspace.status.phase is not Phase.RUNNING:
        return None
    until = used + drain.idle
    if since is not None:
        until = min(until, since + drain.limit)
    return until if until > now else None


def last_used(workspace: Workspace) -> datetime | None:
    """The last access, or the visit that woke it: that one reaches the activity column later."""
    intent, used = workspace.intent, workspace.activity.last_access_at
    if intent.source is not IntentSource.VISIT or intent.at is None:
        return used
    return intent.at if used is None else max(used, intent.at)
