"""The ways out of ERROR: as a person asks, and towards DELETED by the resources there are.

Lost data is never recovered plainly: a person chooses what takes its place. And a home that came
back is never given up, whatever was asked for while it was away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.core.complete import unknown_facts
from codehub.core.judge import CONTAINER_THERE, archive_ready, damage, volume_ready
from codehub.model.conditions import ConditionName, ConditionStatus, Presence
from codehub.model.decision import DISCARD_DATA, Nothing, Recover, Wait
from codehub.model.states import DesiredState, ErrorReason, Operation, RecoverMode

if TYPE_CHECKING:
    from codehub.model.conditions import Facts
    from codehub.model.decision import Broken
    from codehub.model.workspace import Workspace

FAILED = "failed"
"""Entry of `op_progress`: the operation whose failure led to ERROR."""


def recover(workspace: Workspace, facts: Facts, broken: Broken | None) -> Recover | Wait | Nothing:
    """What a requested recovery leads to; Nothing says why none does."""
    mode = requested_mode(workspace)
    if mode is None:
        return Nothing(f"in ERROR until somebody runs codehub recover {workspace.name}")
    if broken is not None and broken.reason is ErrorReason.DATA_LOST:
        return _replace_lost(workspace, facts, mode)
    unknown = unknown_facts(workspace, facts, Operation.NONE)
    if unknown:
        return Wait(None, f"unknown: {', '.join(unknown)}", blind=True)
    match workspace.status.error_reason:
        case ErrorReason.DATA_LOST:
            return Recover(RecoverMode.PLAIN, "what was lost is there again")
        case ErrorReason.ARCHIVE_CORRUPTED:
            return _replace_corrupted(workspace, facts, mode)
        case _ if mode is not RecoverMode.PLAIN:
            return Nothing(f"nothing is lost, so recover --{mode} would throw the home away")
        case _:
            return Recover(mode, "recovery was asked for")


def found_again(workspace: Workspace) -> bool:
    """Whether what was lost is there again, as it was last seen: then nobody has to choose."""
    status = workspace.status
    healthy = status.conditions.get(ConditionName.HEALTHY)
    sound = healthy is not None and healthy.status is ConditionStatus.TRUE
    return sound and status.error_reason is ErrorReason.DATA_LOST


def requested_mode(workspace: Workspace) -> RecoverMode | None:
    """How recovery was asked for, if it was."""
    asked = workspace.intent.recover_requested
    return RecoverMode(asked) if asked in set(RecoverMode) else None


def step_down(workspace: Workspace, facts: Facts) -> Operation:
    """The next step of deleting a broken workspace, by what is there of it.

    A volume that is not complete holds half of what its archive holds: it is not archived.
    """
    if facts.container in CONTAINER_THERE:
        return Operation.STOPPING
    if volume_ready(workspace, facts) and not discards_data(workspace):
        return Operation.ARCHIVING
    return Operation.DELETING


def discards_data(workspace: Workspace) -> bool:
    """Whether an admin said that this deletion needs no last archive."""
    intent = workspace.intent
    return intent.desired is DesiredState.DELETED and intent.recover_requested == DISCARD_DATA


def gave_up(workspace: Workspace, operation: Operation) -> bool:
    """Whether this step of the deletion failed since deletion was asked for.

    It stays in ERROR then, its volume kept, until a person recovers it or asks anew.
    """
    status, asked_at = workspace.status, workspace.intent.at
    if status.op_progress.get(FAILED) != operation.value:
        return False
    failed_at = status.phase_changed_at
    return asked_at is None or failed_at is None or failed_at >= asked_at


def _replace_lost(
    workspace: Workspace, facts: Facts, mode: RecoverMode
) -> Recover | Wait | Nothing:
    if mode is RecoverMode.ACCEPT_EMPTY:
        return Recover(mode, "somebody accepts an empty home")
    if mode is RecoverMode.PLAIN:
        return Nothing("data is lost: choose recover --from-archive or --accept-empty")
    archive = archive_ready(workspace, facts)
    if archive is None:
        return Wait(None, "the archive is unknown", blind=True)
    if facts.archive is Presence.DAMAGED:
        why = damage(workspace, facts)
        return Nothing(f"{why}; it is kept: put it back whole, or choose recover --accept-empty")
    if not archive:
        return Nothing("there is no archive to recover from: recover --accept-empty is left")
    return Recover(mode, "somebody takes the last archive")


def _replace_corrupted(workspace: Workspace, facts: Facts, mode: RecoverMode) -> Recover:
    if mode is not RecoverMode.ACCEPT_EMPTY or volume_ready(workspace, facts):
        return Recover(RecoverMode.PLAIN, "recovery was asked for")
    return Recover(mode, "somebody accepts an empty home")
