"""The sums of a report: who has and uses what, what holds what, and what is kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from codehub.core.tally import tally_holds, tally_owners, tally_storage
from codehub.model.history import Usage
from codehub.model.plan import PlanOptions
from codehub.model.report import HoldCause, StoredFile
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Activity, Intent, Override, StartOn, Status, Workspace
from tests.make import NOW, workspace

HOUR = timedelta(hours=1)
STANDBY = Status(Phase.STANDBY, phase_changed_at=NOW - HOUR)


def cause(one: Workspace) -> HoldCause | None:
    held, _ = tally_holds([one], NOW, PlanOptions())
    return held[0].cause if held else None


def lowered(source: IntentSource, **fields: Any) -> Workspace:
    return workspace(
        intent=Intent(DesiredState.STANDBY, source, NOW - HOUR, "bob"), status=STANDBY, **fields
    )


def test_what_idleness_holds_is_counted_only() -> None:
    assert tally_holds([lowered(IntentSource.TTL)], NOW, PlanOptions()) == ((), 1)


def test_what_is_as_declared_is_not_held() -> None:
    resting = workspace(status=Status(Phase.RUNNING))
    assert tally_holds([resting], NOW, PlanOptions()) == ((), 0)
    low = lowered(IntentSource.TTL, declared_state=DesiredState.STANDBY)
    assert tally_holds([low], NOW, PlanOptions()) == ((), 0)


def test_each_cause_has_its_name() -> None:
    override = Override(DesiredState.STANDBY, NOW + HOUR, "maintenance")
    overridden = workspace(intent=Intent(DesiredState.RUNNING, override=override), status=STANDBY)
    assert cause(lowered(IntentSource.CLI)) is HoldCause.PERSON
    assert cause(lowered(IntentSource.API)) is HoldCause.PERSON
    assert cause(lowered(IntentSource.SPEC, start_on=StartOn.VISIT)) is HoldCause.NOT_VISITED
    assert cause(lowered(IntentSource.SPEC)) is HoldCause.ASKED
    assert cause(lowered(IntentSource.TTL, suspend=True)) is HoldCause.SUSPENDED
    assert cause(overridden) is HoldCause.OVERRIDE
    assert cause(workspace(status=STANDBY)) is HoldCause.WAITING


def test_an_override_that_has_ended_holds_nothing() -> None:
    over = Override(DesiredState.STANDBY, NOW - HOUR, "maintenance")
    intent = Intent(DesiredState.STANDBY, IntentSource.TTL, NOW, "ttl", over)
    slept = workspace(intent=intent, status=STANDBY)
    assert tally_holds([slept], NOW, PlanOptions()) == ((), 1)


def test_errors_orphans_and_what_moves_are_told_elsewhere() -> None:
    sick = Status(Phase.ERROR, error_reason=ErrorReason.DATA_LOST)
    moving = Status(Phase.STANDBY, operation=Operation.STARTING)
    retried = Status(Phase.STANDBY, error_reason=ErrorReason.ACTION_FAILED)
    for status in (sick, moving, retried):
        assert cause(workspace(status=status)) is None
    assert cause(lowered(IntentSource.CLI, orphaned=True)) is None


def test_holds_say_why_and_come_by_cause_and_name() -> None:
    waiting = workspace("a", number=2, status=STANDBY)
    held, _ = tally_holds([waiting, lowered(IntentSource.CLI)], NOW, PlanOptions())
    assert [each.name for each in held] == ["api", "a"]
    assert "stopped by bob 1h ago" in held[0].why
    assert held[1].why == "waits for its turn to become RUNNING"


def test_owners_are_summed_up_and_come_by_hours() -> None:
    fleet = (
        workspace(number=1, status=Status(Phase.RUNNING), activity=Activity(NOW - HOUR)),
        workspace("b", number=2, status=Status(Phase.STANDBY, archive_bytes=7)),
        workspace("c", number=3, owner="bob", status=Status(Phase.STANDBY)),
        workspace("d", number=4, owner="bob", status=Status(Phase.DELETED, archive_bytes=9)),
        workspace("e", number=5, owner="gone", status=Status(Phase.DELETED)),
    )
    usage = {UUID(int=1): Usage(2, 1), UUID(int=2): Usage(1, 0), UUID(int=4): Usage(9, 0)}
    bob, alice = tally_owners(fleet, usage)
    assert (bob.owner, bob.workspaces, bob.run, bob.archive_bytes) == ("bob", 1, 9, 0)
    assert (alice.workspaces, alice.running, alice.run, alice.saved) == (2, 1, 3, 1)
    assert (alice.archive_bytes, alice.last_access_at) == (7, NOW - HOUR)


def test_storage_counts_homes_archives_and_what_is_kept_of_deleted_ones() -> None:
    def stored(name: str, number: int, size: int, phase: Phase = Phase.STANDBY) -> Workspace:
        status = Status(phase, archive_key=f"k{number}", archive_bytes=size, home_store_key="v")
        return workspace(name, number=number, status=status)

    fleet = [stored(f"w{number}", number, number * 10) for number in range(1, 8)]
    fleet += [stored("gone", 8, 1000, Phase.DELETED), workspace("new", number=9)]
    found = tally_storage(fleet)
    assert (found.homes, found.archives, found.archive_bytes) == (7, 7, 280)
    assert (found.kept, found.kept_bytes) == (1, 1000)
    assert found.largest[0] == StoredFile("w7", "alice", 70)
    assert len(found.largest) == 5
