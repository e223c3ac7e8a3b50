"""Drift: where reality differs from what was last applied, and nobody asked for it.

Read from the stored rows alone, which hold the controller's last observation. Exactly this counts:

1. Lost data: phase ERROR because of DataLost, ArchiveCorrupted or ContainerWithoutVolume.
2. A condition that contradicts the phase while no operation runs: RUNNING with
   `infra.container_ready` False, RUNNING or STANDBY with `storage.volume_ready` False,
   ARCHIVED with `storage.archive_ready` False, anything but ERROR with `policy.healthy` False.
   Unknown never counts.
3. Another template than the applied one in a running container, where no pending update explains
   it: the declaration never changed (generation 1), or it updates immediately and the controller
   has seen its newest generation.
4. A phase that is not where the workspace should rest, for five minutes of observation, with
   no operation, error or retry under way. Not counted: STANDBY that should be RUNNING (a limit may
   hold it), RUNNING that the specs lowered (it may be in use), a suspended one.

Not drift: what TTL, people, overrides or a suspension lowered (held), an outdated template that
waits for the next start (deferred), errors of operations (shown by status).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.core.admit import leaving
from codehub.core.express import short
from codehub.core.target import aim
from codehub.model.conditions import ConditionName, ConditionStatus
from codehub.model.plan import Drift
from codehub.model.states import LEVELS, PHASE_OF, DesiredState, ErrorReason, Operation, Phase
from codehub.model.workspace import UpdatePolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from codehub.model.conditions import Condition
    from codehub.model.workspace import Status, Workspace

SETTLING: Final = timedelta(minutes=5)
"""How long the controller must have watched a mismatch before it is called drift."""

_LOSSES: Final = {
    ErrorReason.DATA_LOST: ("home", "its data"),
    ErrorReason.ARCHIVE_CORRUPTED: ("archive", "its archive as it was stored"),
    ErrorReason.CONTAINER_WITHOUT_VOLUME: ("volume", "a volume under its container"),
}

_NEEDS: Final = {
    Phase.RUNNING: (ConditionName.CONTAINER_READY, ConditionName.VOLUME_READY),
    Phase.STANDBY: (ConditionName.VOLUME_READY,),
    Phase.ARCHIVED: (ConditionName.ARCHIVE_READY,),
}


def detect_drift(workspaces: Iterable[Workspace], now: datetime) -> tuple[Drift, ...]:
    """All drift among the workspaces that live, by name."""
    found = [
        each
        for workspace in workspaces
        if not leaving(workspace) and workspace.status.operation is Operation.NONE
        for each in _drift(workspace, now)
    ]
    return tuple(sorted(found, key=lambda each: (each.name, each.field)))


def _drift(workspace: Workspace, now: datetime) -> Iterator[Drift]:
    if workspace.status.phase is Phase.ERROR:
        yield from _loss(workspace)
        return
    if workspace.status.conditions:
        yield from _contradictions(workspace)
    if outdated(workspace) and _unexplained(workspace):
        running = workspace.status.container_template or ""
        yield Drift(workspace.name, "template", workspace.template_digest, running, _ODD_TEMPLATE)
    yield from _stuck(workspace, now)


_ODD_TEMPLATE: Final = "the running container was not made from the applied spec"


def outdated(workspace: Workspace) -> bool:
    """Whether the running container was made from another template than the applied one."""
    status = workspace.status
    if status.phase is not Phase.RUNNING or status.container_template is None:
        return False
    return status.container_template != workspace.template_digest


def _loss(workspace: Workspace) -> Iterator[Drift]:
    status = workspace.status
    if status.error_reason in _LOSSES:
        field, expected = _LOSSES[status.error_reason]
        note = status.error_message or f"codehub explain {workspace.name} says more"
        yield Drift(workspace.name, field, expected, status.error_reason, note)


def contradictions(status: Status) -> Iterator[tuple[ConditionName, Condition]]:
    """The conditions that are False and may not be: what its phase needs, unless it moves."""
    at_rest = status.operation is Operation.NONE
    needed = _NEEDS.get(status.phase, ()) if at_rest else ()
    for name in (*needed, ConditionName.HEALTHY):
        condition = status.conditions.get(name)
        if condition is not None and condition.status is ConditionStatus.FALSE:
            yield name, condition


def _contradictions(workspace: Workspace) -> Iterator[Drift]:
    for name, condition in contradictions(workspace.status):
        actual = f"False: {condition.reason}" if condition.reason else "False"
        note = condition.message or f"the phase is {workspace.status.phase}"
        yield Drift(workspace.name, name, "True", actual, note)


def _unexplained(workspace: Workspace) -> bool:
    if workspace.generation <= 1:
        return True
    seen = workspace.status.observed_generation >= workspace.generation
    return workspace.declaration.update is UpdatePolicy.IMMEDIATE and seen


def _stuck(workspace: Workspace, now: datetime) -> Iterator[Drift]:
    status, rest = workspace.status, aim(workspace, now)
    if rest is None or status.phase is PHASE_OF[rest] or status.observed_at is None:
        return
    if status.error_reason or status.retry_at or _excused(workspace, rest):
        return
    moments = [at for at in (status.phase_changed_at, workspace.intent.at) if at is not None]
    if moments and status.observed_at - max(moments) >= SETTLING:
        note = f"nothing has been done about it for {short(now - max(moments))}"
        yield Drift(workspace.name, "phase", PHASE_OF[rest], status.phase, note)


def _excused(workspace: Workspace, rest: DesiredState) -> bool:
    """A limit may keep it from starting; people may still be in what the specs lowered."""
    if workspace.status.phase is Phase.STANDBY:
        return rest is DesiredState.RUNNING
    desired = workspace.intent.desired
    return workspace.status.phase is Phase.RUNNING and LEVELS[desired] > LEVELS[rest]
