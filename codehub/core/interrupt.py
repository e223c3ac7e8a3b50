"""Whom a change would interrupt, and how long it waits for them.

Stopping that comes from git waits while a workspace is in use (`drain`), unless `--now` says
otherwise. What does not wait is named as stopping people now, and the thresholds count both.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.core.drain import drained_at, last_used
from codehub.core.express import long, short
from codehub.core.target import waits_until
from codehub.model.decision import Drain
from codehub.model.states import Operation, Phase

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.plan import PlanOptions
    from codehub.model.workspace import Workspace

_RECENT: Final = timedelta(hours=1)


def awake(workspace: Workspace) -> bool:
    """Whether somebody may be working in it: it runs and is not being stopped."""
    status = workspace.status
    return status.phase is Phase.RUNNING and status.operation is not Operation.STOPPING


def lowering_waits(workspace: Workspace, now: datetime, options: PlanOptions) -> bool:
    """Whether the people in it hold up what the specs lower or remove."""
    return awake(workspace) and waits_until(workspace, now, _drain(options)) is not None


def restart_waits(workspace: Workspace, now: datetime, options: PlanOptions) -> bool:
    """Whether the people in it hold up an immediate update."""
    since = workspace.declared_at
    return awake(workspace) and drained_at(workspace, since, now, _drain(options)) is not None


def _drain(options: PlanOptions) -> Drain:
    return Drain(options.drain_idle, options.drain_limit, skip=options.now)


def waiting_words(options: PlanOptions) -> str:
    """How long a change waits for people."""
    idle, limit = short(options.drain_idle), short(options.drain_limit)
    return f"waits until idle for {idle}, at most {limit}, because it is in use"


def who(workspace: Workspace, now: datetime) -> str:
    """The owner and their last activity: `alice, active 2 minutes ago`."""
    owner, last = workspace.declaration.owner, last_used(workspace)
    if last is None:
        return f"{owner}, no activity seen"
    span = now - last
    return f"{owner}, active {long(span)} ago" if span < _RECENT else f"{owner}, idle {short(span)}"
