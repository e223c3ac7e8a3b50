"""The complete truth tables of the state machine, to be read and reviewed by a person.

Each is computed over every combination of its inputs. A star stands for every value; a blank
combination does not occur (what no key names cannot be there).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.core.deadline import deadline
from codehub.core.decide import decide
from codehub.core.judge import calculate_phase, check_invariants, derive_phase
from codehub.core.path import path
from codehub.core.retry import retry
from codehub.core.step import next_operation
from codehub.core.target import ceiling, target
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.decision import (
    DISCARD_DATA,
    Claim,
    Complete,
    Continue,
    Decision,
    Drain,
    Fail,
    Nothing,
    Recover,
    Release,
    RemoveStrays,
    Retry,
    Rules,
    Settle,
    Undelete,
    Wait,
)
from codehub.model.states import (
    DesiredState,
    ErrorReason,
    IntentSource,
    Operation,
    Phase,
    RecoverMode,
)
from codehub.model.workspace import (
    Activity,
    HomeContext,
    Intent,
    Override,
    Status,
    UpdatePolicy,
    Workspace,
)
from tests.make import NOW, workspace
from tests.snapshots.tables import align, truth_table

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

RULES = Rules()
OP = UUID(int=7)
HOME = "home-g1"
OLD_KEY = f"hub/ws/{UUID(int=6)}/1/home.tar.zst"
OWN_KEY = f"hub/ws/{OP}/1/home.tar.zst"
MINUTE = timedelta(minutes=1)

CONTAINERS = ["unknown", "absent", "exited", "running"]
VOLUMES = ["unnamed", "unknown", "absent", "incomplete", "complete"]
ARCHIVES = ["unnamed", "unknown", "absent", "damaged", "present"]
DESIRED = ["RUNNING", "STANDBY", "ARCHIVED", "DELETED"]
DECLARED = ["RUNNING", "STANDBY", "ARCHIVED"]
OVERRIDES = ["none", "expired", *DECLARED]
FLAGS = ["no", "yes"]
WORKING = [operation.value for operation in Operation if operation is not Operation.NONE]


def seen(container: str, volume: str, archive: str, **more: Any) -> Facts:
    """Facts in the words of the tables."""
    there = {"unnamed": "absent", "incomplete": "present", "complete": "present"}
    return Facts(
        container=ContainerFact(container),
        volume=Presence(there.get(volume, volume)),
        volume_complete=volume != "incomplete",
        archive=Presence(there.get(archive, archive)),
        **more,
    )


def kept(volume: str, archive: str, **more: Any) -> Status:
    """A row whose keys name what the tables say is named."""
    return Status(
        home_store_key=None if volume == "unnamed" else HOME,
        archive_key=None if archive == "unnamed" else OLD_KEY,
        **more,
    )


def told(decision: Decision) -> str:
    """A decision in a few words."""
    match decision:
        case Claim(operation=operation):
            return f"claim {operation}"
        case Fail(reason=reason):
            return f"ERROR {reason}"
        case Recover(mode=mode):
            return f"recover {mode}"
        case Wait(blind=True):
            return "wait: unknown"
        case Retry(reason=reason):
            return f"retry {reason}"
        case Continue():
            return "continue"
        case Complete(phase=phase):
            return f"complete, {phase}"
        case Release():
            return "give way"
        case Undelete() | Settle() | RemoveStrays() | Nothing() | Wait():
            words = {"RemoveStrays": "remove strays"}
            name = type(decision).__name__
            return words.get(name, name.lower())


def test_phase(text_snapshot: SnapshotAssertion) -> None:
    def rule(first: str, container: str, volume: str, archive: str) -> tuple[str, ...]:
        status = replace(kept(volume, archive, phase=Phase.STANDBY), **_FIRST[first])
        row, facts = workspace(status=status), seen(container, volume, archive)
        derived = derive_phase(row, facts)
        assert calculate_phase(row, facts) is (derived or Phase.STANDBY)
        return (derived or "stays what it was",)

    inputs = {
        "first": list(_FIRST),
        "container": CONTAINERS,
        "volume": VOLUMES,
        "archive": ARCHIVES,
    }
    table = truth_table(inputs, ["phase"], rule)
    assert rule("-", "running", "complete", "unknown") == (Phase.RUNNING,)
    assert table == text_snapshot


_FIRST: dict[str, dict[str, Any]] = {
    "deleted_at set": {"deleted_at": NOW},
    "DELETING in flight": {"operation": Operation.DELETING},
    "terminal error": {"error_reason": ErrorReason.TIMEOUT},
    "-": {},
}


def test_invariants(text_snapshot: SnapshotAssertion) -> None:
    def rule(operation: str, container: str, volume: str, archive: str) -> tuple[str, ...]:
        status = kept(volume, archive, operation=Operation(operation))
        broken = check_invariants(workspace(status=status), seen(container, volume, archive))
        return (broken.reason if broken else "whole",)

    inputs = {
        "operation": [operation.value for operation in Operation],
        "container": CONTAINERS,
        "volume": VOLUMES,
        "archive": ARCHIVES,
    }
    table = truth_table(inputs, ["invariants"], rule)
    assert rule("NONE", "absent", "absent", "present") == (ErrorReason.DATA_LOST,)
    assert table == text_snapshot


def test_ceiling(text_snapshot: SnapshotAssertion) -> None:
    def rule(pinned: str, override: str, declared: str) -> tuple[str, ...]:
        return (ceiling(_steered("RUNNING", declared, override, pinned=pinned), NOW),)

    inputs = {"pinned": FLAGS, "override": OVERRIDES, "declared": DECLARED}
    table = truth_table(inputs, ["ceiling"], rule)
    assert rule("no", "RUNNING", "ARCHIVED") == ("RUNNING",)
    assert table == text_snapshot


def test_target(text_snapshot: SnapshotAssertion) -> None:
    def rule(
        desired: str, suspend: str, pinned: str, override: str, declared: str
    ) -> tuple[str, ...]:
        row = _steered(desired, declared, override, pinned=pinned, suspend=suspend)
        return (target(row, NOW, Drain()) or "stays where it is",)

    inputs = {
        "desired": DESIRED,
        "suspend": FLAGS,
        "pinned": FLAGS,
        "override": OVERRIDES,
        "declared": DECLARED,
    }
    table = truth_table(inputs, ["target"], rule, grouped=True)
    assert rule("RUNNING", "no", "no", "none", "STANDBY") == ("STANDBY",)
    assert table == text_snapshot


def _steered(
    desired: str, declared: str, override: str, *, pinned: str = "no", suspend: str = "no"
) -> Workspace:
    given = None
    if override == "expired":
        given = Override(DesiredState.ARCHIVED, NOW - MINUTE, "over")
    elif override != "none":
        given = Override(DesiredState(override), NOW + MINUTE, "now")
    return workspace(
        intent=Intent(DesiredState(desired), override=given),
        declared_state=DesiredState(declared),
        pinned=pinned == "yes",
        suspend=suspend == "yes",
    )


def test_next_operation(text_snapshot: SnapshotAssertion) -> None:
    def rule(phase: str, wanted: str, container: str) -> tuple[str, ...] | None:
        there = container == "yes"
        if there != (phase == "RUNNING") and phase != "STANDBY":
            return None
        return (next_operation(Phase(phase), DesiredState(wanted), container=there),)

    inputs = {
        "phase": ["PENDING", "ARCHIVED", "STANDBY", "RUNNING"],
        "target": DESIRED,
        "container there": FLAGS,
    }
    table = truth_table(inputs, ["operation"], rule, grouped=True)
    assert rule("STANDBY", "DELETED", "no") == ("ARCHIVING",)
    assert table == text_snapshot


def test_at_rest(text_snapshot: SnapshotAssertion) -> None:
    def rule(desired: str, container: str, volume: str, archive: str) -> tuple[str, ...]:
        status = kept(volume, archive, phase=Phase.STANDBY)
        row = workspace(desired=DesiredState(desired), status=status)
        facts = seen(container, volume, archive)
        return (derive_phase(row, facts) or "?", told(decide(row, facts, NOW, RULES)))

    inputs = {
        "target": DESIRED,
        "container": CONTAINERS,
        "volume": VOLUMES,
        "archive": ARCHIVES,
    }
    table = truth_table(inputs, ["phase", "decision"], rule, grouped=True)
    assert rule("RUNNING", "absent", "complete", "unknown") == ("STANDBY", "claim STARTING")
    assert table == text_snapshot


def test_in_flight(text_snapshot: SnapshotAssertion) -> None:
    """Every operation in flight, for the keys and volumes that its claim and act can have left."""

    def rule(
        operation: str, key: str, container: str, volume: str, archive: str, strays: str
    ) -> tuple[str, ...] | None:
        home = "unnamed" if volume == "unnamed" else "named"
        if (home, key) not in _KEYS[operation] or (key == "none") != (archive == "unnamed"):
            return None
        if volume == "incomplete" and operation not in ("PROVISIONING", "RESTORING"):
            return None
        return (told(_flying(operation, key, container, volume, archive, strays)),)

    inputs = {
        "operation": WORKING,
        "archive_key": ["none", "earlier", "of this op_id"],
        "container": CONTAINERS,
        "volume": VOLUMES,
        "archive": ARCHIVES,
        "strays": ["unknown", "absent", "present"],
    }
    table = truth_table(inputs, ["decision"], rule, grouped=True)
    vanished = rule("ARCHIVING", "earlier", "absent", "absent", "present", "absent")
    assert vanished == ("ERROR DataLost",)
    assert table == text_snapshot


_KEYS = {
    "PROVISIONING": [("named", "none")],
    "CREATE_EMPTY_ARCHIVE": [("unnamed", "none"), ("unnamed", "of this op_id")],
    "RESTORING": [("named", "earlier")],
    "STARTING": [("named", "none"), ("named", "earlier")],
    "STOPPING": [("named", "none"), ("named", "earlier")],
    "ARCHIVING": [("named", "none"), ("named", "earlier"), ("unnamed", "of this op_id")],
    "DELETING": [("unnamed", "none"), ("unnamed", "earlier")],
}


def _flying(
    operation: str, key: str, container: str, volume: str, archive: str, strays: str
) -> Decision:
    status = kept(volume, archive, operation=Operation(operation), op_started_at=NOW, op_id=OP)
    if key == "of this op_id":
        status = replace(status, archive_key=OWN_KEY)
    context = HomeContext(restore_marker=status.archive_key)
    facts = seen(container, volume, archive, port_answered=True, strays=Presence(strays))
    return decide(workspace(status=replace(status, home_ctx=context)), facts, NOW, RULES)


def test_giving_way(text_snapshot: SnapshotAssertion) -> None:
    """What waits for an answer and has done nothing ends when something else is wanted."""

    def rule(
        operation: str, waits: str, target: str, container: str, volume: str
    ) -> tuple[str, ...]:
        reason, wait = _WAITS[waits]
        status = kept(
            volume,
            "unknown",
            phase=Phase.STANDBY,
            operation=Operation(operation),
            op_started_at=NOW,
            op_id=OP,
            error_reason=reason,
            retry_at=NOW + wait,
        )
        row = workspace(desired=DesiredState(target), status=status)
        facts = seen(container, volume, "unknown", idle=waits == "no more, and nothing runs")
        return (told(decide(row, facts, NOW, RULES)),)

    inputs = {
        "operation": ["STARTING", "ARCHIVING", "STOPPING"],
        "waits": list(_WAITS),
        "target": DESIRED,
        "container": CONTAINERS,
        "volume": ["unknown", "absent", "complete"],
    }
    table = truth_table(inputs, ["decision"], rule, grouped=True)
    silent = "for an answer"
    assert rule("ARCHIVING", silent, "RUNNING", "absent", "complete") == ("give way",)
    assert rule("ARCHIVING", silent, "DELETED", "absent", "complete") != ("give way",)
    assert rule("STARTING", silent, "STANDBY", "unknown", "complete") != ("give way",)
    assert table == text_snapshot


_WAITS = {
    "for an answer": (ErrorReason.UNREACHABLE, timedelta(seconds=9)),
    "after a failure": (ErrorReason.ACTION_FAILED, timedelta(seconds=9)),
    "no more": (ErrorReason.UNREACHABLE, timedelta(seconds=-1)),
    "no more, and nothing runs": (ErrorReason.UNREACHABLE, timedelta(seconds=-1)),
}


def test_almost_complete(text_snapshot: SnapshotAssertion) -> None:
    """RESTORING and STARTING ask for one thing more than the facts of the table above."""

    def rule(operation: str, marker: str, port: str) -> tuple[str, ...]:
        status = kept("complete", "present", operation=Operation(operation), op_started_at=NOW)
        context = HomeContext(restore_marker=_MARKERS[marker])
        container = "running" if operation == "STARTING" else "absent"
        facts = seen(container, "complete", "present", port_answered=port == "yes")
        row = workspace(status=replace(status, home_ctx=context))
        return (told(decide(row, facts, NOW, RULES)),)

    inputs = {
        "operation": ["RESTORING", "STARTING"],
        "restore_marker": list(_MARKERS),
        "port answered": FLAGS,
    }
    table = truth_table(inputs, ["decision"], rule)
    assert rule("RESTORING", "another archive", "yes") == ("continue",)
    assert table == text_snapshot


_MARKERS = {"none": None, "another archive": OWN_KEY, "archive_key": OLD_KEY}


def test_failures(text_snapshot: SnapshotAssertion) -> None:
    def rule(reason: str, failures: str) -> tuple[str, ...]:
        status = Status(operation=Operation.STARTING, error_count=int(failures))
        after = retry(workspace(status=status), ErrorReason(reason), "no", NOW, RULES)
        counted = str(after.error_count - int(failures))
        if isinstance(after, Fail):
            return (f"ERROR {after.reason}", f"+{counted}", "-")
        wait = (after.retry_at - NOW).total_seconds()
        return (f"retry {after.reason}", f"+{counted}", f"{wait:.1f} s")

    inputs = {
        "failure": [reason.value for reason in ErrorReason],
        "failures before": ["0", "1", "2", "3"],
    }
    table = truth_table(inputs, ["then", "error_count", "after"], rule)
    assert rule("ActionFailed", "3") == ("ERROR RetryExceeded", "+1", "-")
    assert table == text_snapshot


def test_recovery(text_snapshot: SnapshotAssertion) -> None:
    """ERROR that is to run again: what recovery does, as it was asked for."""

    def rule(error: str, asked: str, container: str, volume: str, archive: str) -> tuple[str, ...]:
        return (told(_erred(error, "RUNNING", asked, container, volume, archive)),)

    inputs = {
        "error": ERRORS,
        "recover": ["none", *(mode.value for mode in RecoverMode)],
        "container": ["unknown", "absent"],
        "volume": VOLUMES,
        "archive": ARCHIVES,
    }
    table = truth_table(inputs, ["decision"], rule, grouped=True)
    assert rule("DataLost", "plain", "absent", "absent", "present") == ("nothing",)
    assert table == text_snapshot


def test_deletion_from_error(text_snapshot: SnapshotAssertion) -> None:
    """ERROR that is to be deleted: down by the resources there are."""

    def rule(
        error: str, discard: str, container: str, volume: str, archive: str
    ) -> tuple[str, ...]:
        asked = DISCARD_DATA if discard == "yes" else "none"
        return (told(_erred(error, "DELETED", asked, container, volume, archive)),)

    inputs = {
        "error": ["Timeout", "DataLost"],
        "--discard-data": FLAGS,
        "container": CONTAINERS,
        "volume": VOLUMES,
        "archive": ARCHIVES,
    }
    table = truth_table(inputs, ["decision"], rule, grouped=True)
    assert rule("Timeout", "no", "absent", "complete", "unnamed") == ("claim ARCHIVING",)
    assert table == text_snapshot


ERRORS = ["Timeout", "ContainerWithoutVolume", "ArchiveCorrupted", "DataLost"]


def _erred(
    error: str, desired: str, asked: str, container: str, volume: str, archive: str
) -> Decision:
    status = kept(volume, archive, phase=Phase.ERROR, error_reason=ErrorReason(error))
    request = None if asked == "none" else asked
    intent = Intent(DesiredState(desired), recover_requested=request)
    row = workspace(intent=intent, status=status)
    return decide(row, seen(container, volume, archive), NOW, RULES)


def test_path(text_snapshot: SnapshotAssertion) -> None:
    lines = [("phase", "target", "held data", "outdated", "path")]
    for phase in Phase:
        for state in (*DesiredState, None):
            for held in (False, True):
                for outdated in (False, True):
                    steps = path(phase, state, held_data=held, outdated=outdated)
                    if (held and steps == path(phase, state, outdated=outdated)) or (
                        outdated and steps == path(phase, state, held_data=held)
                    ):
                        continue
                    marks = ("yes" if held else "-", "yes" if outdated else "-")
                    lines.append((phase, state or "stays", *marks, " -> ".join(steps)))
    assert path(Phase.PENDING, DesiredState.RUNNING)[1::2] == ("PROVISIONING", "STARTING")
    assert align(lines) == text_snapshot


def test_drain(text_snapshot: SnapshotAssertion) -> None:
    """A RUNNING workspace that should be lower, or made anew: who waits, and how long."""

    def rule(cause: str, source: str, used: str, changed: str, now: str) -> tuple[str, ...]:
        row = _in_use(cause, source, used, changed)
        facts = seen("running", "complete", "unnamed")
        drain = Drain(skip=now == "yes")
        decision = decide(row, facts, NOW, Rules(drain=drain))
        if isinstance(decision, Wait) and decision.until is not None:
            return (f"wait {(decision.until - NOW).total_seconds() / 60:.0f} min",)
        return (told(decision),)

    inputs = {
        "cause": list(_CAUSES),
        "desired by": [source.value for source in IntentSource],
        "last access": list(_AGES),
        "changed": list(_AGES),
        "--now": FLAGS,
    }
    table = truth_table(inputs, ["decision"], rule)
    waits = rule("declared STANDBY", "visit", "2 min ago", "2 min ago", "no")
    assert waits == ("wait 3 min",)
    assert table == text_snapshot


_AGES = {
    "never": None,
    "2 min ago": NOW - 2 * MINUTE,
    "6 min ago": NOW - 6 * MINUTE,
    "59 min ago": NOW - 59 * MINUTE,
    "61 min ago": NOW - 61 * MINUTE,
}
_CAUSES = ["declared STANDBY", "override STANDBY", "template", "desired STANDBY", "desired DELETED"]


def _in_use(cause: str, source: str, used: str, changed: str) -> Workspace:
    what, _, state = cause.partition(" ")
    override = Override(DesiredState.STANDBY, NOW + MINUTE, "") if what == "override" else None
    desired = DesiredState(state) if what == "desired" else DesiredState.RUNNING
    row = workspace(
        intent=Intent(desired, IntentSource(source), _AGES[changed], override=override),
        status=kept("complete", "unnamed", phase=Phase.RUNNING, container_template="t0"),
        activity=Activity(_AGES[used]),
        declared_state=DesiredState(state) if what == "declared" else DesiredState.RUNNING,
        update=UpdatePolicy.IMMEDIATE if what == "template" else UpdatePolicy.NEXT_START,
    )
    return replace(row, declared_at=_AGES[changed])


def test_time_limits(text_snapshot: SnapshotAssertion) -> None:
    """Seconds from the claim to the time limit, by what has happened since the claim."""
    lines = [("since the claim", *WORKING)]
    for since in _SINCE:
        lines.append((since, *(_limit(operation, since) for operation in WORKING)))
    assert _limit("STARTING", "-") == "120 s"
    assert align(lines) == text_snapshot


def _limit(operation: str, since: str) -> str:
    status = Status(operation=Operation(operation), op_started_at=NOW, **_SINCE[since])
    until = deadline(status, NOW + 10 * MINUTE, RULES)
    assert until is not None
    return f"{(until - NOW).total_seconds():.0f} s"


def _progress(**values: object) -> dict[str, Any]:
    return {"op_progress": values}


_AT_90 = (NOW + timedelta(seconds=90)).isoformat()
_SINCE: dict[str, dict[str, Any]] = {
    "-": {},
    "progress after 90 s": _progress(at=_AT_90),
    "pulling the image": _progress(stage="pull"),
    "pulling, progress after 90 s": _progress(stage="pull", at=_AT_90),
    "image there after 90 s": _progress(stage="start", at=_AT_90),
    "tried again after 90 s": {"retry_at": NOW + timedelta(seconds=90)},
    "unknown for 90 s": _progress(blind_seconds=90),
    "unknown since 90 s, now 600 s": _progress(blind_since=_AT_90),
}
