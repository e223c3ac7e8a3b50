"""What the observed facts mean: conditions, broken invariants, phase.

The controller calls `judge` on every pass, `decide` calls it again on what it is given, and the
plan shows the same phases. Everything is three-valued: an unknown fact neither matches a rule nor
rules it out, so the phase stays what it was.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from codehub.model.conditions import (
    Condition,
    ConditionName,
    ConditionStatus,
    ContainerFact,
    Facts,
    KnownConditions,
    Presence,
)
from codehub.model.decision import Broken, Judgement
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from codehub.model.workspace import Workspace

TERMINAL: Final = frozenset(ErrorReason) - {ErrorReason.ACTION_FAILED, ErrorReason.UNREACHABLE}
"""Reasons that stand for ERROR; the other two are of an operation that is being tried again."""

MAKES_VOLUME: Final = frozenset({Operation.PROVISIONING, Operation.RESTORING})
"""Operations that name their volume before they make it: until then it is missing rightly."""

VOLUME_MISSING: Final = "VolumeMissing"
"""Why a home is not ready that `home_store_key` names and nobody finds."""

ARCHIVE_DAMAGED: Final = ErrorReason.ARCHIVE_CORRUPTED.value
"""The reason of `storage.archive_ready` where the object is there and not as it was recorded."""

_NO_ARCHIVE: Final = frozenset({Presence.ABSENT, Presence.DAMAGED})

CONTAINER_THERE: Final = frozenset({ContainerFact.EXITED, ContainerFact.RUNNING})


def judge(workspace: Workspace, facts: Facts, now: datetime) -> Judgement:
    """Conditions, phase and the first broken invariant; times move only with what they date."""
    status = workspace.status
    broken = check_invariants(workspace, facts)
    phase = _derive(workspace, facts, broken) or _stays(workspace)
    moved = phase is not status.phase or status.phase_changed_at is None
    return Judgement(
        phase=phase,
        phase_changed_at=now if moved else status.phase_changed_at,
        conditions=_all_dated(status.conditions, _conditions(workspace, facts, broken), now),
        broken=broken,
    )


def calculate_phase(workspace: Workspace, facts: Facts) -> Phase:
    """Where the workspace is; where the facts do not say, it stays what it was."""
    return derive_phase(workspace, facts) or _stays(workspace)


def derive_phase(workspace: Workspace, facts: Facts) -> Phase | None:
    """The phase that follows from the facts, first match wins; None where they do not say."""
    return _derive(workspace, facts, check_invariants(workspace, facts))


def _derive(workspace: Workspace, facts: Facts, broken: Broken | None) -> Phase | None:
    status = workspace.status
    if status.deleted_at is not None:
        return Phase.DELETED
    if status.operation is Operation.DELETING:
        return Phase.DELETING
    if status.error_reason in TERMINAL or broken is not None:
        return Phase.DELETING if stepping_down(workspace) else Phase.ERROR
    return _phase_of_resources(workspace, facts)


def check_invariants(workspace: Workspace, facts: Facts) -> Broken | None:
    """The first broken invariant; loss of data comes first. Unknown facts break nothing."""
    status = workspace.status
    if status.deleted_at is not None:
        return None
    if _volume_lost(workspace, facts):
        text = f"the volume {status.home_store_key} is gone"
        return Broken(ErrorReason.DATA_LOST, text)
    if _archive_lost(workspace, facts):
        return Broken(ErrorReason.DATA_LOST, f"the archive {status.archive_key} is gone")
    if _archive_damaged(workspace, facts):
        return Broken(ErrorReason.ARCHIVE_CORRUPTED, damage(workspace, facts))
    if facts.container in CONTAINER_THERE and volume_ready(workspace, facts) is False:
        text = "there is a container, but no complete volume for it"
        return Broken(ErrorReason.CONTAINER_WITHOUT_VOLUME, text)
    return None


def stepping_down(workspace: Workspace) -> bool:
    """Whether the operation in flight removes a broken workspace on the way to DELETED.

    These alone may run while an invariant is broken, and are shown as DELETING: ERROR implies that
    there is no operation.
    """
    operation, desired = workspace.status.operation, workspace.intent.desired
    if operation is Operation.STOPPING:
        return desired is DesiredState.DELETED
    return operation is Operation.DELETING


def volume_ready(workspace: Workspace, facts: Facts) -> bool | None:
    """Whether the volume that `home_store_key` names is there and complete."""
    if workspace.status.home_store_key is None or facts.volume is Presence.ABSENT:
        return False
    return None if facts.volume is Presence.UNKNOWN else facts.volume_complete


def archive_ready(workspace: Workspace, facts: Facts) -> bool | None:
    """Whether the archive that `archive_key` names is there, whole, with its commit marker."""
    if workspace.status.archive_key is None or facts.archive in _NO_ARCHIVE:
        return False
    return None if facts.archive is Presence.UNKNOWN else True


def damage(workspace: Workspace, facts: Facts) -> str:
    """What is wrong with an archive that is there and not as it was recorded."""
    return f"the archive {workspace.status.archive_key} is damaged: {facts.damage}"


def container_ready(workspace: Workspace, facts: Facts) -> bool | None:
    """Whether the container runs and its port answered; the port gates STARTING alone."""
    if facts.container is ContainerFact.UNKNOWN:
        return None
    running = facts.container is ContainerFact.RUNNING
    return running and (facts.port_answered or workspace.status.operation is not Operation.STARTING)


def _phase_of_resources(workspace: Workspace, facts: Facts) -> Phase | None:
    home, archive = volume_ready(workspace, facts), archive_ready(workspace, facts)
    if home is None:
        return None
    if home:
        return _PHASE_OF_CONTAINER[facts.container]
    if archive is None:
        return None
    if archive:
        return Phase.ARCHIVED
    status = workspace.status
    never_held = status.archive_key is None and status.home_store_key is None
    return Phase.PENDING if never_held else None


_PHASE_OF_CONTAINER: Final = {
    ContainerFact.RUNNING: Phase.RUNNING,
    ContainerFact.EXITED: Phase.STANDBY,
    ContainerFact.ABSENT: Phase.STANDBY,
    ContainerFact.UNKNOWN: None,
}


def _stays(workspace: Workspace) -> Phase:
    status = workspace.status
    if status.phase is Phase.ERROR and status.operation is not Operation.NONE:
        return Phase.DELETING
    return status.phase


def _volume_lost(workspace: Workspace, facts: Facts) -> bool:
    status = workspace.status
    named = status.home_store_key is not None and status.operation not in MAKES_VOLUME
    return named and facts.volume is Presence.ABSENT


def _archive_lost(workspace: Workspace, facts: Facts) -> bool:
    gone = workspace.status.archive_key is not None and facts.archive is Presence.ABSENT
    return gone and volume_ready(workspace, facts) is False


def _archive_damaged(workspace: Workspace, facts: Facts) -> bool:
    there = workspace.status.archive_key is not None and facts.archive is Presence.DAMAGED
    return there and volume_ready(workspace, facts) is False


def _conditions(
    workspace: Workspace, facts: Facts, broken: Broken | None
) -> dict[ConditionName, Condition]:
    why = "; ".join(facts.reasons)
    home, archive = volume_ready(workspace, facts), archive_ready(workspace, facts)
    ready = container_ready(workspace, facts)
    return {
        ConditionName.VOLUME_READY: _condition(home, _volume_reason(workspace, facts), why),
        ConditionName.ARCHIVE_READY: _archive_condition(workspace, facts, archive, why),
        ConditionName.CONTAINER_READY: _condition(ready, _container_reason(facts, ready), why),
        ConditionName.HEALTHY: _healthy(broken, home, archive, facts, why),
    }


@lru_cache(maxsize=256)
def _condition(holds: bool | None, reason: str, why: str) -> Condition:
    """Few differ among thousands of workspaces, so few are made."""
    if holds is None:
        return Condition(ConditionStatus.UNKNOWN, "Unreachable", why)
    return Condition(ConditionStatus.TRUE if holds else ConditionStatus.FALSE, reason)


def _volume_reason(workspace: Workspace, facts: Facts) -> str:
    if workspace.status.home_store_key is None:
        return "NoVolume"
    if facts.volume is Presence.ABSENT:
        return VOLUME_MISSING
    return "VolumeComplete" if facts.volume_complete else "VolumeIncomplete"


def _archive_condition(
    workspace: Workspace, facts: Facts, ready: bool | None, why: str
) -> Condition:
    if workspace.status.archive_key is None:
        return _condition(ready, "NoArchive", why)
    if facts.archive is Presence.DAMAGED:
        return Condition(ConditionStatus.FALSE, ARCHIVE_DAMAGED, damage(workspace, facts))
    committed = facts.archive is Presence.PRESENT
    return _condition(ready, "ArchiveCommitted" if committed else "ArchiveMissing", why)


def _container_reason(facts: Facts, ready: bool | None) -> str:
    """The same after its start as in it, or every start would be written once more."""
    if facts.container is ContainerFact.RUNNING:
        return "ContainerRunning" if ready else "PortSilent"
    return "ContainerExited" if facts.container is ContainerFact.EXITED else "NoContainer"


def _healthy(
    broken: Broken | None, home: bool | None, archive: bool | None, facts: Facts, why: str
) -> Condition:
    if broken is not None:
        return Condition(ConditionStatus.FALSE, broken.reason, broken.message)
    blind = facts.container is ContainerFact.UNKNOWN or home is None
    if blind or (not home and archive is None):
        return _condition(None, "", why)
    return _condition(True, "InvariantsHold", why)


def _all_dated(
    old: Mapping[ConditionName, Condition],
    judged: Mapping[ConditionName, Condition],
    now: datetime,
) -> Mapping[ConditionName, Condition]:
    """With the times at which they changed; the very same ones when nothing did."""
    if isinstance(old, KnownConditions) and old.hold(judged):
        return old
    return {name: _dated(old.get(name), condition, now) for name, condition in judged.items()}


def _dated(old: Condition | None, condition: Condition, now: datetime) -> Condition:
    if old is None or old.status != condition.status or old.last_transition_time is None:
        return replace(condition, last_transition_time=now)
    if (old.reason, old.message) == (condition.reason, condition.message):
        return old
    return replace(condition, last_transition_time=old.last_transition_time)
