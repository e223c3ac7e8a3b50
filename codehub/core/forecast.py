"""Which workspaces idleness will lower until a given time, if nobody touches them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from codehub.core.hold import ttl_limit, ttl_words
from codehub.core.target import aim
from codehub.model.plan import Forecast
from codehub.model.states import DesiredState, Operation, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from codehub.model.plan import PlanOptions
    from codehub.model.workspace import Workspace


def forecast(
    workspaces: Iterable[Workspace], *, now: datetime, until: datetime, options: PlanOptions
) -> tuple[Forecast, ...]:
    """The TTL transitions from now to `until`, in order of time.

    As the TTL checks do it: a RUNNING one falls after the later of its last access and its last
    change of phase, a STANDBY one after its last change of phase, and only while it rests where
    it is desired to be. Pinned and suspended ones and `never` stay; what is overdue falls now.
    """
    found = [
        each
        for workspace in workspaces
        if not (workspace.declaration.pinned or workspace.declaration.suspend)
        for each in _falls(workspace, now, until, options)
    ]
    return tuple(sorted(found, key=lambda each: (each.at, each.name, each.new)))


def _falls(
    workspace: Workspace, now: datetime, until: datetime, options: PlanOptions
) -> Iterator[Forecast]:
    status, desired = workspace.status, workspace.intent.desired
    if status.operation is not Operation.NONE or aim(workspace, now) is not desired:
        return
    since = status.phase_changed_at
    if (status.phase, desired) == (Phase.RUNNING, DesiredState.RUNNING):
        base = _later(since, workspace.activity.last_access_at)
        fall = _fall(workspace, DesiredState.STANDBY, base, now, options)
        if fall is None or fall.at > until:
            return
        yield fall
        since = fall.at
    elif (status.phase, desired) != (Phase.STANDBY, DesiredState.STANDBY):
        return
    fall = _fall(workspace, DesiredState.ARCHIVED, since, now, options)
    if fall is not None and fall.at <= until:
        yield fall


def _fall(
    workspace: Workspace,
    rest: DesiredState,
    base: datetime | None,
    now: datetime,
    options: PlanOptions,
) -> Forecast | None:
    limit = ttl_limit(workspace, rest, options)
    if limit is None or base is None:
        return None
    old = Phase.RUNNING if rest is DesiredState.STANDBY else Phase.STANDBY
    at = max(base + timedelta(seconds=limit), now)
    return Forecast(at, workspace.name, old, rest, ttl_words(workspace, rest, options))


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    if one is None or other is None:
        return one or other
    return max(one, other)
