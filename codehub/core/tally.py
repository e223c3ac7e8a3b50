"""Who has, uses and keeps what: the sums of a report, from the stored rows and its history."""

from __future__ import annotations

from collections import defaultdict
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from codehub.core.hold import active_override, held
from codehub.core.target import aim
from codehub.model.history import Usage
from codehub.model.report import Held, HoldCause, OwnerUse, Storage, StoredFile
from codehub.model.states import LEVELS, PHASE_OF, DesiredState, IntentSource, Operation, Phase
from codehub.model.workspace import StartOn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from uuid import UUID

    from codehub.model.plan import PlanOptions
    from codehub.model.workspace import Workspace

LARGEST: Final = 5
_PEOPLE: Final = frozenset({IntentSource.API, IntentSource.CLI})
_NONE: Final = Usage()
_ORDER: Final = {cause: place for place, cause in enumerate(HoldCause)}


def tally_holds(
    workspaces: Iterable[Workspace], now: datetime, options: PlanOptions
) -> tuple[tuple[Held, ...], int]:
    """What is held, by cause, and how many more idleness holds: that is routine, and many.

    One in ERROR is told as an error, not here.
    """
    found: list[Held] = []
    idle = 0
    for each in workspaces:
        if each.status.phase is Phase.ERROR or each.orphaned:
            continue
        if _sleeps(each, now):
            idle += 1
        else:
            found += _hold(each, now, options)
    return tuple(sorted(found, key=lambda each: (_ORDER[each.cause], each.name))), idle


def _sleeps(workspace: Workspace, now: datetime) -> bool:
    """Whether idleness, and nothing else, holds it below its declared state."""
    declaration, intent = workspace.declaration, workspace.intent
    if declaration.suspend or declaration.pinned or active_override(workspace, now) is not None:
        return False
    lowered = LEVELS[intent.desired] < LEVELS[declaration.declared_state]
    return lowered and intent.source is IntentSource.TTL


def _hold(workspace: Workspace, now: datetime, options: PlanOptions) -> Iterator[Held]:
    why = held(workspace, now, options)
    cause = _cause(workspace, now) if why else HoldCause.WAITING
    if why is None:
        if not _waits(workspace, now):
            return
        why = f"waits for its turn to become {DesiredState.RUNNING}"
    phase = workspace.status.phase
    yield Held(workspace.name, workspace.declaration.owner, phase, cause, why)


def _cause(workspace: Workspace, now: datetime) -> HoldCause:
    declaration, source = workspace.declaration, workspace.intent.source
    if declaration.suspend:
        return HoldCause.SUSPENDED
    if active_override(workspace, now) is not None:
        return HoldCause.OVERRIDE
    if source in _PEOPLE:
        return HoldCause.PERSON
    return HoldCause.NOT_VISITED if declaration.start_on is StartOn.VISIT else HoldCause.ASKED


def _waits(workspace: Workspace, now: datetime) -> bool:
    """It may run and nothing is done about it: a limit, or the coordinator, lets it wait."""
    status = workspace.status
    if status.operation is not Operation.NONE or status.error_reason is not None:
        return False
    wanted = aim(workspace, now)
    return wanted is DesiredState.RUNNING and status.phase is not PHASE_OF[wanted]


def tally_owners(
    workspaces: Iterable[Workspace], usage: Mapping[UUID, Usage]
) -> tuple[OwnerUse, ...]:
    """What each person has; hours of deleted ones count, the workspaces themselves do not."""
    theirs: dict[str, list[Workspace]] = defaultdict(list)
    for each in workspaces:
        theirs[each.declaration.owner].append(each)
    found = (_owner(name, each, usage) for name, each in theirs.items())
    there = (each for each in found if each.workspaces or each.run or each.saved)
    return tuple(sorted(there, key=lambda each: (-each.run, -each.workspaces, each.owner)))


def _owner(owner: str, all_of_them: list[Workspace], usage: Mapping[UUID, Usage]) -> OwnerUse:
    there = [each for each in all_of_them if each.status.phase is not Phase.DELETED]
    seen = [each.activity.last_access_at for each in there if each.activity.last_access_at]
    used = [usage.get(each.id, _NONE) for each in all_of_them]
    return OwnerUse(
        owner,
        workspaces=len(there),
        running=sum(each.status.phase is Phase.RUNNING for each in there),
        run=sum(each.run for each in used),
        saved=sum(each.saved for each in used),
        archive_bytes=sum(each.status.archive_bytes or 0 for each in there),
        last_access_at=max(seen, default=None),
    )


def tally_storage(workspaces: Iterable[Workspace]) -> Storage:
    """What is kept of all of them, deleted ones included."""
    listed = list(workspaces)
    there = [each for each in listed if each.status.phase is not Phase.DELETED]
    files = [_file(each) for each in there if each.status.archive_key]
    kept = [
        _file(each)
        for each in listed
        if each.status.phase is Phase.DELETED and each.status.archive_key
    ]
    return Storage(
        homes=sum(each.status.home_store_key is not None for each in there),
        archives=len(files),
        archive_bytes=sum(each.bytes for each in files),
        kept=len(kept),
        kept_bytes=sum(each.bytes for each in kept),
        largest=tuple(nlargest(LARGEST, files, key=lambda each: each.bytes)),
    )


def _file(workspace: Workspace) -> StoredFile:
    declaration = workspace.declaration
    return StoredFile(workspace.name, declaration.owner, workspace.status.archive_bytes or 0)
