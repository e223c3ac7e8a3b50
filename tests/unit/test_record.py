"""What decisions leave in the database: what must change together does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from codehub.core.judge import judge
from codehub.core.record import record, retire_home
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.decision import (
    Claim,
    Complete,
    Decision,
    Fail,
    Nothing,
    Recover,
    Retry,
    Settle,
    Undelete,
    Wait,
)
from codehub.model.states import ErrorReason, Operation, Phase, RecoverMode
from codehub.model.workspace import HomeContext, Status
from tests.make import NOW, workspace

OP = UUID(int=7)
LATER = NOW + timedelta(minutes=1)
HOMED = Facts(ContainerFact.ABSENT, False, Presence.PRESENT, True, Presence.ABSENT)
KEYS: dict[str, Any] = {
    "home_store_key": "home-g1",
    "home_generation": 1,
    "archive_key": "key",
    "archive_bytes": 5,
    "archive_sha256": "ff",
}


def stored(status: Status, decision: Decision, facts: Facts = HOMED) -> Status:
    row = workspace(status=status)
    return record(row, judge(row, facts, LATER), decision, now=LATER, op_id=OP)


def claim(operation: Operation, phase: Phase = Phase.STANDBY) -> Claim:
    return Claim(operation, phase, "test")


def test_no_change_is_no_write() -> None:
    once = stored(Status(home_store_key="home-g1"), Nothing(""))
    assert once.observed_at == LATER
    row = workspace(status=once)
    again = LATER + timedelta(days=1)
    assert record(row, judge(row, HOMED, again), Nothing(""), now=again, op_id=OP) is once


def test_a_claim_begins_with_a_new_op_id_and_a_clean_slate() -> None:
    old = Status(op_progress={"failed": "STARTING"}, retry_at=NOW, error_count=2, **KEYS)
    new = stored(old, claim(Operation.STARTING))
    assert (new.operation, new.op_id, new.op_started_at) == (Operation.STARTING, OP, LATER)
    assert (new.op_progress, new.retry_at) == ({}, None)
    assert new.error_count == 2
    assert new.container_template == "t1"


def test_a_restore_names_the_next_generation_and_forgets_the_old_marker() -> None:
    context = HomeContext(restore_marker="key", retired=("home-g0",))
    new = stored(Status(home_ctx=context, **KEYS), claim(Operation.RESTORING, Phase.ARCHIVED))
    assert new.home_store_key == f"ws-{UUID(int=1)}-home-g2"
    assert new.home_generation == 2
    assert new.home_ctx == HomeContext(None, ("home-g0", "home-g1"))


def test_a_claim_of_deletion_retires_what_home_is_left() -> None:
    new = stored(Status(**KEYS), claim(Operation.DELETING, Phase.DELETING))
    assert new.home_store_key is None
    assert new.home_ctx.retired == ("home-g1",)
    assert new.archive_key == "key"


def test_a_step_of_deletion_leaves_the_error_behind() -> None:
    old = Status(phase=Phase.ERROR, error_reason=ErrorReason.TIMEOUT, error_count=4, **KEYS)
    new = stored(old, replace(claim(Operation.ARCHIVING), leaves_error=True))
    assert (new.phase, new.error_reason, new.error_count) == (Phase.STANDBY, None, 0)
    assert new.phase_changed_at == LATER


def flying(operation: Operation, **fields: Any) -> Status:
    return Status(operation=operation, op_id=OP, op_started_at=NOW, **{**KEYS, **fields})


def test_error_is_set_whole() -> None:
    old = flying(Operation.STARTING, retry_at=NOW)
    new = stored(old, Fail(ErrorReason.TIMEOUT, "late", Operation.STARTING, 1))
    assert (new.phase, new.operation) == (Phase.ERROR, Operation.NONE)
    assert (new.error_reason, new.error_message) == (ErrorReason.TIMEOUT, "late")
    assert (new.error_count, new.retry_at) == (1, None)
    assert new.op_id == OP
    assert new.op_progress == {"failed": "STARTING"}
    assert new.home_store_key == "home-g1"


@pytest.mark.parametrize("operation", [Operation.PROVISIONING, Operation.RESTORING])
def test_a_volume_that_was_never_finished_is_retired_with_the_failure(operation: Operation) -> None:
    new = stored(flying(operation), Fail(ErrorReason.TIMEOUT, "late", operation, 1))
    assert new.home_store_key is None
    assert new.home_ctx.retired == ("home-g1",)


def test_completion_ends_the_operation_and_deletion_the_workspace() -> None:
    old = flying(Operation.STARTING, error_reason=ErrorReason.ACTION_FAILED, error_count=2)
    new = stored(old, Complete(Operation.STARTING, Phase.RUNNING, 2))
    assert (new.operation, new.op_id, new.op_started_at) == (Operation.NONE, None, None)
    assert (new.error_reason, new.error_count) == (None, 2)
    assert new.deleted_at is None
    gone = stored(flying(Operation.DELETING), Complete(Operation.DELETING, Phase.DELETED))
    assert (gone.phase, gone.deleted_at) == (Phase.DELETED, LATER)


def test_a_retry_keeps_the_operation() -> None:
    again = Retry(ErrorReason.UNREACHABLE, "no answer", 0, LATER, 3)
    new = stored(flying(Operation.STARTING, op_progress={"at": "x"}), again)
    assert (new.operation, new.op_id, new.retry_at) == (Operation.STARTING, OP, LATER)
    assert new.op_progress == {"at": "x", "unreachable_count": 3}
    answered = Retry(ErrorReason.ACTION_FAILED, "no", 1, LATER)
    assert stored(new, answered).op_progress == {"at": "x"}


@pytest.mark.parametrize(
    ("mode", "home", "archive", "retired"),
    [
        (RecoverMode.PLAIN, "home-g1", "key", ()),
        (RecoverMode.FROM_ARCHIVE, None, "key", ("home-g1",)),
        (RecoverMode.ACCEPT_EMPTY, None, None, ("home-g1",)),
    ],
)
def test_recovery_gives_up_what_was_chosen_and_no_more(
    mode: RecoverMode, home: str | None, archive: str | None, retired: tuple[str, ...]
) -> None:
    old = Status(phase=Phase.ERROR, error_reason=ErrorReason.DATA_LOST, error_count=1, **KEYS)
    new = stored(old, Recover(mode, ""))
    assert (new.error_reason, new.error_count, new.op_progress) == (None, 0, {})
    assert (new.home_store_key, new.archive_key) == (home, archive)
    assert new.home_ctx.retired == retired
    assert (new.archive_bytes is None) is (archive is None)


@pytest.mark.parametrize("mode", [RecoverMode.FROM_ARCHIVE, RecoverMode.ACCEPT_EMPTY])
def test_a_home_that_nobody_finds_is_given_up_and_not_retired(mode: RecoverMode) -> None:
    """It may go when it is retired, and it may be all there is when it comes back."""
    earlier = HomeContext(given_up=("home-g0",))
    old = Status(Phase.ERROR, error_reason=ErrorReason.DATA_LOST, home_ctx=earlier, **KEYS)
    new = stored(old, Recover(mode, ""), replace(HOMED, volume=Presence.ABSENT))
    assert new.home_store_key is None
    assert new.home_ctx == HomeContext(given_up=("home-g0", "home-g1"))


def test_settling_and_undeleting() -> None:
    tired = Status(phase=Phase.RUNNING, error_count=2, error_reason=ErrorReason.ACTION_FAILED)
    assert stored(tired, Settle("")).error_count == 0
    assert stored(Status(deleted_at=NOW, **KEYS), Undelete("")).deleted_at is None


def test_blindness_in_flight_is_noted_and_ends_with_sight() -> None:
    blind = stored(flying(Operation.STOPPING), Wait(None, "", blind=True), Facts())
    assert blind.op_progress == {"blind_since": LATER.isoformat()}
    seeing = stored(blind, Wait(LATER, ""))
    assert seeing.op_progress == {"blind_seconds": 0}
    resting = stored(Status(**KEYS), Wait(None, "", blind=True), Facts())
    assert resting.op_progress == {}


def test_retiring_nothing_changes_nothing() -> None:
    bare = Status()
    assert retire_home(bare) is bare
