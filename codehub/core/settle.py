"""How far one workspace is: settled, failed, held, or on its way and how.

What `--wait`, `status --watch` and pages say while things move. It reads the row alone, by the same
`aim` and `path` that the controller steers by, so it says nothing that the controller would not do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codehub.core.advise import advise
from codehub.core.complete import NEEDS_ARCHIVE
from codehub.core.decide import is_outdated
from codehub.core.drain import drained_at
from codehub.core.path import path
from codehub.core.recover import discards_data, gave_up, requested_mode
from codehub.core.step import RESULT
from codehub.core.target import aim, waits_until
from codehub.model.conditions import ConditionName, ConditionStatus
from codehub.model.decision import Drain
from codehub.model.outcome import Failed, Held, Moving, Progress, Settled
from codehub.model.states import PHASE_OF, DesiredState, Operation, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from codehub.model.outcome import Outcome
    from codehub.model.workspace import Status, Workspace

_DRAIN: Final = Drain()
_DOWN: Final = (Operation.STOPPING, Operation.ARCHIVING, Operation.DELETING)


def outcome(
    workspace: Workspace, now: datetime, *, drain: Drain = _DRAIN, limit: str = ""
) -> Outcome:
    """How far it is. `limit` is the sentence of a limit that leaves it no place to start."""
    status = workspace.status
    if status.phase is Phase.ERROR:
        return _in_error(workspace, now)
    if status.operation is not Operation.NONE:
        return _moving(workspace, now)
    aimed = aim(workspace, now)
    if aimed is None:
        return _suspended(workspace, now)
    until = _people_in_the_way(workspace, now, drain)
    if until is not None:
        return Held("waits until nobody works in it", until)
    if status.phase is PHASE_OF[aimed] and not _restarts(workspace):
        return Settled()
    if limit and (status.phase, aimed) == (Phase.STANDBY, DesiredState.RUNNING):
        return Held(limit)
    return _moving(workspace, now)


def progress_of(entries: Mapping[str, object]) -> Progress:
    """What `op_progress` says; what is not as a storage job writes it counts as not said."""
    stage = entries.get("stage")
    return Progress(
        stage if isinstance(stage, str) else "",
        _count(entries.get("bytes")),
        _count(entries.get("total")),
        _count(entries.get("entries")),
    )


def _in_error(workspace: Workspace, now: datetime) -> Outcome:
    status = workspace.status
    if requested_mode(workspace) is not None:
        return Moving(note="recovery was asked for")
    if workspace.intent.desired is DesiredState.DELETED and not _deletion_failed(workspace):
        return _moving(workspace, now)
    reason = status.error_reason.value if status.error_reason else "Unknown"
    return Failed(reason, status.error_message or "no message was kept", advise(workspace))


def _deletion_failed(workspace: Workspace) -> bool:
    """Whether the controller gave up deleting it; without an archive it may still go on."""
    skipped = Operation.ARCHIVING if discards_data(workspace) else None
    return any(gave_up(workspace, each) for each in _DOWN if each is not skipped)


def _suspended(workspace: Workspace, now: datetime) -> Outcome:
    """Suspended where it would rest anyway is no hold."""
    declaration = workspace.declaration
    free = replace(workspace, declaration=replace(declaration, suspend=False))
    rest = aim(free, now)
    if rest is None or workspace.status.phase is PHASE_OF[rest]:
        return Settled()
    return Held(f"suspended at {declaration.source}, so nothing moves it to {rest}")


def _people_in_the_way(workspace: Workspace, now: datetime, drain: Drain) -> datetime | None:
    """Until when a lowering or an update waits for the people in it."""
    until = waits_until(workspace, now, drain)
    if until is None and _restarts(workspace):
        until = drained_at(workspace, workspace.declared_at, now, drain)
    return until


def _restarts(workspace: Workspace) -> bool:
    """Whether it runs from an old template and is to be started anew."""
    return workspace.status.phase is Phase.RUNNING and is_outdated(workspace)


def _moving(workspace: Workspace, now: datetime) -> Moving:
    status, steps = workspace.status, _steps(workspace, now)
    return Moving(
        operation=status.operation,
        since=status.op_started_at,
        progress=progress_of(status.op_progress),
        steps=steps,
        note=_trouble(status, Operation(steps[0]) if steps else Operation.NONE),
    )


def _steps(workspace: Workspace, now: datetime) -> tuple[str, ...]:
    status, aimed = workspace.status, aim(workspace, now)
    operation = status.operation
    if operation is not Operation.NONE:
        return (operation.value, *path(RESULT[operation], aimed))
    held_data = status.archive_key is not None or status.home_store_key is not None
    return path(status.phase, aimed, held_data=held_data, outdated=_restarts(workspace))[1:]


def _trouble(status: Status, operation: Operation) -> str:
    """What keeps it from moving on for now, if anything does; `operation` is its next step."""
    if status.error_reason is not None and status.phase is not Phase.ERROR:
        return f"tried again after: {status.error_message or status.error_reason}"
    unseen = _unknown(status, ConditionName.HEALTHY)
    if unseen is not None:
        return f"the hub cannot see it: {unseen}"
    unseen = _unknown(status, ConditionName.ARCHIVE_READY) if operation in NEEDS_ARCHIVE else None
    return "" if unseen is None else f"the hub cannot see its archive: {unseen}"


def _unknown(status: Status, name: ConditionName) -> str | None:
    """Why nobody knows whether it holds; None where it is known."""
    found = status.conditions.get(name)
    if found is None or found.status is not ConditionStatus.UNKNOWN:
        return None
    return found.message or found.reason


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value
