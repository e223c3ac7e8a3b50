"""What the controller steers to: computed from declared, override and desired, never stored.

So nothing is lost when a commit, a visit or an override arrives in the middle of an operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.core.drain import drained_at
from codehub.model.decision import Drain
from codehub.model.states import LEVELS, DesiredState, IntentSource, lower

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.workspace import Override, Workspace

_DRAIN = Drain()


def ceiling(workspace: Workspace, now: datetime) -> DesiredState:
    """How high the workspace may go: as declared, or as overridden while that lasts.

    An override does not move a pinned one. No ceiling deletes: only a desired DELETED does.
    """
    override = _in_force(workspace, now)
    state = workspace.declaration.declared_state if override is None else override.state
    return DesiredState.ARCHIVED if state is DesiredState.DELETED else state


def aim(workspace: Workspace, now: datetime) -> DesiredState | None:
    """Where it comes to rest once nobody is in the way; None while suspended: it stays."""
    desired, declaration = workspace.intent.desired, workspace.declaration
    if desired is DesiredState.DELETED:
        return desired
    if declaration.suspend:
        return None
    top = ceiling(workspace, now)
    return top if declaration.pinned else lower(desired, top)


def target(workspace: Workspace, now: datetime, drain: Drain = _DRAIN) -> DesiredState | None:
    """Where to steer it now; None to leave it where it is.

    It is left where it is while suspended, and while a lowering that comes from git waits for the
    people in it.
    """
    if waits_until(workspace, now, drain) is not None:
        return None
    return aim(workspace, now)


def waits_until(workspace: Workspace, now: datetime, drain: Drain = _DRAIN) -> datetime | None:
    """Until when a lowering that comes from git waits; None when nothing waits."""
    aimed = aim(workspace, now)
    if aimed is None or aimed is DesiredState.RUNNING:
        return None
    if _asked_by_specs(workspace):
        return drained_at(workspace, workspace.intent.at, now, drain)
    if _under_declared_ceiling(workspace, now):
        return drained_at(workspace, _ceiling_since(workspace, now), now, drain)
    return None


def _in_force(workspace: Workspace, now: datetime) -> Override | None:
    override = workspace.intent.override
    if override is None or workspace.declaration.pinned or override.until <= now:
        return None
    return override


def _asked_by_specs(workspace: Workspace) -> bool:
    """The loader itself lowered it: its spec was removed."""
    intent = workspace.intent
    deleted = intent.desired is DesiredState.DELETED
    lowered = LEVELS[intent.desired] < LEVELS[DesiredState.RUNNING]
    unpinned = deleted or not workspace.declaration.pinned
    return intent.source is IntentSource.SPEC and lowered and unpinned


def _under_declared_ceiling(workspace: Workspace, now: datetime) -> bool:
    """The specs alone keep it from RUNNING: neither TTL nor a person asked for less."""
    if _in_force(workspace, now) is not None or workspace.intent.desired is DesiredState.DELETED:
        return False
    return workspace.declaration.pinned or workspace.intent.desired is DesiredState.RUNNING


def _ceiling_since(workspace: Workspace, now: datetime) -> datetime | None:
    """When the declared ceiling came into force: at its change, or when an override ended."""
    since, override = workspace.declared_at, workspace.intent.override
    if since is None or override is None or override.until > now:
        return since
    return max(since, override.until)
