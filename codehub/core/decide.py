"""What to do next about one workspace: the heart of the controller, and pure.

The controller calls it on every pass with what it observed, stores what `record` makes of the
decision, and acts. It judges the facts itself, so it never rests on a stale phase: give it the
workspace as it was read. Slots and limits are the caller's: it may refuse a Claim.

In flight, the operation is carried on until its effect is observed, it fails, or it gives way. At
rest, one step is taken towards the target. No decision to act rests on an unknown fact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codehub.core.complete import is_complete, unknown_facts
from codehub.core.deadline import deadline, time_limit
from codehub.core.drain import drained_at
from codehub.core.give_way import give_way
from codehub.core.judge import (
    CONTAINER_THERE,
    TERMINAL,
    calculate_phase,
    check_invariants,
    derive_phase,
    stepping_down,
)
from codehub.core.recover import discards_data, gave_up, recover, step_down
from codehub.core.retry import retry
from codehub.core.step import next_operation
from codehub.core.target import aim, waits_until
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.decision import (
    Broken,
    Claim,
    Complete,
    Continue,
    Fail,
    Nothing,
    Recover,
    RemoveStrays,
    Settle,
    Undelete,
    Wait,
)
from codehub.model.states import PHASE_OF, DesiredState, ErrorReason, Operation, Phase
from codehub.model.workspace import UpdatePolicy

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.decision import Decision, Rules
    from codehub.model.workspace import Workspace


_OF_DATA: Final = frozenset({ErrorReason.DATA_LOST, ErrorReason.ARCHIVE_CORRUPTED})


def decide(workspace: Workspace, facts: Facts, now: datetime, rules: Rules) -> Decision:
    """The one next thing to do about this workspace."""
    broken = check_invariants(workspace, facts)
    if workspace.status.deleted_at is not None:
        return _deleted(workspace, facts, now)
    if workspace.status.operation is not Operation.NONE:
        return _in_flight(workspace, facts, broken, now, rules)
    if broken is not None or workspace.status.error_reason in TERMINAL:
        return _in_error(workspace, facts, broken)
    return _at_rest(workspace, facts, now, rules)


def _in_flight(
    workspace: Workspace, facts: Facts, broken: Broken | None, now: datetime, rules: Rules
) -> Decision:
    status, operation = workspace.status, workspace.status.operation
    trouble = broken or _stored_error(workspace)
    if trouble is not None and not stepping_down(workspace):
        return Fail(trouble.reason, trouble.message, operation, status.error_count + 1)
    released = give_way(workspace, facts, now)
    if released is not None:
        return released
    unknown = unknown_facts(workspace, facts, operation)
    if unknown:
        return _blind(unknown)
    if is_complete(workspace, facts):
        return _complete(workspace, facts, now)
    if status.retry_at is not None and status.retry_at > now:
        return Wait(status.retry_at, f"{operation} failed and is tried again")
    until = deadline(status, now, rules)
    if until is not None and until <= now:
        limit = time_limit(status, rules).total_seconds()
        return retry(workspace, ErrorReason.TIMEOUT, _overdue(workspace, facts, limit), now, rules)
    return Continue(operation, until)


def _overdue(workspace: Workspace, facts: Facts, limit: float) -> str:
    """What did not happen in time, for people."""
    operation = workspace.status.operation
    if operation is Operation.STARTING and facts.container is ContainerFact.RUNNING:
        return f"its port did not answer within {limit:.0f} s"
    return f"{operation} got nowhere in {limit:.0f} s"


def _deleted(workspace: Workspace, facts: Facts, now: datetime) -> Decision:
    """Strays go first: a volume of the time before must not meet the one that is restored."""
    strays = _remove_strays(facts)
    if strays is not None:
        return strays
    wanted = aim(workspace, now) not in (None, DesiredState.DELETED)
    if not wanted or workspace.status.purged_at is not None:
        return Nothing("deleted")
    if facts.strays is Presence.UNKNOWN:
        return _blind(("strays",))
    return Undelete("wanted again within the retention")


def _in_error(workspace: Workspace, facts: Facts, broken: Broken | None) -> Decision:
    status = workspace.status
    if broken is not None and _is_news(workspace, broken):
        return Fail(broken.reason, broken.message, Operation.NONE, status.error_count + 1)
    asked = recover(workspace, facts, broken)
    if isinstance(asked, Recover) or workspace.intent.desired is not DesiredState.DELETED:
        return asked
    operation = step_down(workspace, facts)
    unknown = unknown_facts(workspace, facts, operation)
    if unknown:
        return _blind(unknown)
    if gave_up(workspace, operation):
        return Nothing(f"{operation} failed, so deletion waits: recover, or delete --discard-data")
    return _claim(workspace, facts, operation, "deleted from ERROR")


def _at_rest(workspace: Workspace, facts: Facts, now: datetime, rules: Rules) -> Decision:
    before, phase = workspace.status.phase, derive_phase(workspace, facts)
    aimed = aim(workspace, now)
    if aimed is None:
        return Nothing(f"suspended at {workspace.declaration.source}")
    unknown = unknown_facts(workspace, facts, Operation.NONE)
    if unknown or phase is None:
        return _blind(unknown or ("phase",))
    seen = workspace if phase is before else _in_phase(workspace, phase)
    if (before, phase, aimed) == (Phase.RUNNING, Phase.STANDBY, DesiredState.RUNNING):
        why = f"{_ending(facts)}, and nobody stopped it"
        return retry(seen, ErrorReason.ACTION_FAILED, why, now, rules)
    until = waits_until(seen, now, rules.drain)
    if until is not None:
        return Wait(until, f"lowering to {aimed} waits while somebody works in it")
    return _step(seen, facts, aimed, now, rules)


def _ending(facts: Facts) -> str:
    """How a container came to its end, for people."""
    if facts.container is not ContainerFact.EXITED:
        return "its container is gone"
    code = "" if facts.exit_code is None else f" with exit code {facts.exit_code}"
    return f"its command ended{code}"


def _step(
    workspace: Workspace, facts: Facts, aimed: DesiredState, now: datetime, rules: Rules
) -> Decision:
    phase, retry_at = workspace.status.phase, workspace.status.retry_at
    if phase is PHASE_OF[aimed] is Phase.RUNNING and is_outdated(workspace):
        return _update(workspace, facts, now, rules)
    operation = next_operation(phase, aimed, container=facts.container in CONTAINER_THERE)
    if operation is Operation.ARCHIVING and discards_data(workspace):
        operation = Operation.DELETING
    if operation is Operation.NONE:
        return _converged(workspace, facts, now, rules)
    unknown = unknown_facts(workspace, facts, operation)
    if unknown:
        return _blind(unknown)
    if operation is Operation.STARTING and retry_at is not None and retry_at > now:
        return Wait(retry_at, "the container exited and is started again")
    return _claim(workspace, facts, operation, f"{phase}, wanted {aimed}")


def is_outdated(workspace: Workspace) -> bool:
    """Whether its container was made from another template than the spec's, and must not be."""
    template = workspace.status.container_template
    immediate = workspace.declaration.update is UpdatePolicy.IMMEDIATE
    return immediate and template is not None and template != workspace.template_digest


def _update(workspace: Workspace, facts: Facts, now: datetime, rules: Rules) -> Decision:
    until = drained_at(workspace, workspace.declared_at, now, rules.drain)
    if until is not None:
        return Wait(until, "the update waits while somebody works in it")
    return _claim(workspace, facts, Operation.STOPPING, "its template changed, update: immediate")


def _converged(workspace: Workspace, facts: Facts, now: datetime, rules: Rules) -> Decision:
    status = workspace.status
    since = status.phase_changed_at
    troubled = status.error_count > 0 and status.phase is Phase.RUNNING
    if troubled and since is not None and now - since >= rules.settled:
        return Settle("it has run well since")
    return _remove_strays(facts) or Nothing("where it should be")


def _claim(workspace: Workspace, facts: Facts, operation: Operation, why: str) -> Claim:
    broken = workspace.status.phase is Phase.ERROR or workspace.status.error_reason in TERMINAL
    status = replace(
        workspace.status,
        operation=operation,
        error_reason=None if broken else workspace.status.error_reason,
    )
    phase = calculate_phase(replace(workspace, status=status), facts)
    return Claim(operation, phase, why, leaves_error=broken)


def _complete(workspace: Workspace, facts: Facts, now: datetime) -> Complete | Fail:
    """What was stopped on its way down from ERROR is in ERROR again, and told why at once."""
    status, operation = workspace.status, workspace.status.operation
    deleted_at = now if operation is Operation.DELETING else None
    after = replace(status, operation=Operation.NONE, error_reason=None, deleted_at=deleted_at)
    done = replace(workspace, status=after)
    broken = check_invariants(done, facts)
    if broken is not None:
        return Fail(broken.reason, broken.message, Operation.NONE, status.error_count + 1)
    phase = calculate_phase(done, facts)
    kept = status.error_count if operation is Operation.STARTING else 0
    return Complete(operation, phase, kept)


def _stored_error(workspace: Workspace) -> Broken | None:
    reason = workspace.status.error_reason
    if reason is None or reason not in TERMINAL:
        return None
    return Broken(reason, workspace.status.error_message or "")


def _is_news(workspace: Workspace, broken: Broken) -> bool:
    """A broken invariant is recorded once; what became of data outranks what was recorded before.

    A loss may turn out to be damage, and the other way round: the object came back, or went.
    """
    stored = workspace.status.error_reason
    if stored is None or stored not in TERMINAL:
        return True
    return broken.reason in _OF_DATA and stored is not broken.reason


def _in_phase(workspace: Workspace, phase: Phase) -> Workspace:
    return replace(workspace, status=replace(workspace.status, phase=phase))


def _remove_strays(facts: Facts) -> RemoveStrays | None:
    if facts.strays is Presence.PRESENT:
        return RemoveStrays("containers or volumes that nothing refers to")
    return None


def _blind(unknown: tuple[str, ...]) -> Wait:
    return Wait(None, f"unknown: {', '.join(unknown)}", blind=True)
