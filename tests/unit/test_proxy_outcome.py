"""What a request gets that is not forwarded: the whole table."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, Override, Status
from codehub.proxy.notices import notice
from codehub.proxy.outcome import outcome, unasked
from codehub.proxy.seam import RequestHead
from codehub.render.pages import Trouble, Waiting
from codehub.store.workspaces import Found
from tests.make import NOW, workspace

STANDBY, ARCHIVED = DesiredState.STANDBY, DesiredState.ARCHIVED
LEAVING = Operation.DELETING
LOWERED = Intent(STANDBY, IntentSource.TTL)


def found(phase: Phase, operation: Operation = Operation.NONE, **fields: Any) -> Found:
    status = Status(phase, operation=operation, op_started_at=NOW - timedelta(minutes=1))
    fields.setdefault("intent", LOWERED)
    return Found(workspace("api", status=status, **fields), NOW, "5c110904fbe7aa01")


CASES = {
    "deleted": (found(Phase.DELETED), 404, False, "Not found"),
    "leaving": (found(Phase.ARCHIVED, intent=Intent(DesiredState.DELETED)), 404, False, "Not"),
    "error": (found(Phase.ERROR), 502, False, "has a problem"),
    "suspended": (found(Phase.STANDBY, suspend=True), 502, False, "suspended"),
    "starting": (found(Phase.STANDBY, Operation.STARTING), 503, True, "Starting"),
    "restoring": (found(Phase.ARCHIVED, Operation.RESTORING), 503, True, "Restoring"),
    "preparing": (found(Phase.PENDING, Operation.PROVISIONING), 503, True, "Preparing"),
    "shelved": (found(Phase.PENDING, Operation.CREATE_EMPTY_ARCHIVE), 503, False, "Preparing"),
    "stopping": (found(Phase.RUNNING, Operation.STOPPING), 503, True, "Stopping"),
    "archiving": (found(Phase.STANDBY, Operation.ARCHIVING), 503, True, "Archiving"),
    "standby": (found(Phase.STANDBY), 503, True, "Waking"),
    "coming": (found(Phase.PENDING, intent=Intent(DesiredState.RUNNING)), 503, False, "about to"),
    "archived": (found(Phase.ARCHIVED), 502, False, "archived"),
    "wakes": (found(Phase.ARCHIVED, wake_from=ARCHIVED), 503, True, "Waking"),
    "pending": (found(Phase.PENDING), 502, False, "not started"),
    "ceiling": (found(Phase.STANDBY, declared_state=STANDBY), 502, False, "held"),
    "lowered": (found(Phase.RUNNING, Operation.STOPPING, declared_state=STANDBY), 502, False, "he"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_table(name: str) -> None:
    state, status, wakes, title = CASES[name]
    result = outcome(state)
    assert result is not None
    assert (result.status, result.wakes) == (status, wakes)
    assert title in result.said.title


def test_a_running_one_is_forwarded_even_if_it_is_held() -> None:
    assert outcome(found(Phase.RUNNING)) is None
    assert outcome(found(Phase.RUNNING, suspend=True)) is None
    assert outcome(found(Phase.RUNNING, declared_state=STANDBY)) is None


def test_one_that_is_leaving_is_gone_for_visitors_as_soon_as_that_is_wanted() -> None:
    """Its owner still sees why, should it not get away."""
    leaving = Intent(DesiredState.DELETED)
    assert outcome(found(Phase.RUNNING, intent=leaving)) == outcome(None)
    assert outcome(found(Phase.ERROR, intent=leaving)) != outcome(None)


def test_unknown_and_deleted_look_alike() -> None:
    assert outcome(None) == outcome(found(Phase.DELETED))


def test_every_operation_has_its_words() -> None:
    for operation in set(Operation) - {Operation.NONE}:
        result = outcome(found(Phase.STANDBY, operation))
        assert result is not None
        assert isinstance(result.said, Waiting)
        assert "{name}" not in result.said.title


@pytest.mark.parametrize("operation", sorted(set(Operation) - {Operation.NONE}))
def test_only_one_that_comes_is_said_to_open_here(operation: Operation) -> None:
    for intent in (LOWERED, Intent(ARCHIVED), Intent(DesiredState.RUNNING)):
        result = outcome(found(Phase.STANDBY, operation, intent=intent))
        assert result is not None
        comes = result.wakes or intent.desired is DesiredState.RUNNING
        assert ("opens here" in result.said.message) is (comes and operation is not LEAVING)
        comes = intent.desired is DesiredState.RUNNING
        unwoken = unasked(result).said.message
        assert ("opens here" in unwoken) is (comes and operation is not LEAVING)


def test_a_ceiling_is_told_with_its_file_line_and_commit() -> None:
    result = outcome(found(Phase.STANDBY, declared_state=STANDBY))
    assert result is not None
    assert "specs/api.yaml:1, commit 5c110904fbe7" in result.said.message


def test_an_override_that_holds_is_named_with_its_end() -> None:
    override = Override(STANDBY, NOW + timedelta(hours=1), "maintenance")
    result = outcome(found(Phase.STANDBY, intent=Intent(STANDBY, override=override)))
    assert result is not None
    assert "until 2026-11-01 13:00 UTC" in result.said.message
    assert "maintenance" in result.said.details


def test_an_error_shows_its_message_and_what_to_do() -> None:
    status = Status(
        Phase.ERROR, error_reason=ErrorReason.RETRY_EXCEEDED, error_message="it ended with code 1"
    )
    result = outcome(Found(workspace("api", status=status), NOW))
    assert result is not None
    assert isinstance(result.said, Trouble)
    assert result.said.message == "It failed several times: it ended with code 1"
    assert result.said.code == "RetryExceeded"
    assert "'codehub recover api'" in result.said.advice


@pytest.mark.parametrize("reason", ErrorReason)
def test_an_error_is_told_in_words_and_its_code_stands_beside_them(reason: ErrorReason) -> None:
    for message in ("it ended with code 1", None):
        status = Status(Phase.ERROR, error_reason=reason, error_message=message)
        result = outcome(Found(workspace("api", status=status), NOW))
        assert result is not None
        assert reason.value not in result.said.title + result.said.message
        answer = notice(RequestHead(b"GET", b"/w/api/", [], "192.0.2.1"), result, None)
        assert isinstance(answer.body, bytes)
        assert json.loads(answer.body)["reason"] == reason.value


def test_what_is_tried_again_is_told_in_words() -> None:
    status = Status(
        Phase.STANDBY,
        operation=Operation.STARTING,
        error_reason=ErrorReason.UNREACHABLE,
        error_message="the registry is away",
    )
    result = outcome(Found(workspace("api", status=status), NOW))
    assert result is not None
    assert result.said.details == (
        "Trying again, since something it needs does not answer (Unreachable): "
        "the registry is away",
    )


def test_progress_is_shown_while_one_waits() -> None:
    status = Status(
        Phase.ARCHIVED,
        operation=Operation.RESTORING,
        op_started_at=NOW - timedelta(minutes=2),
        op_progress={"stage": "unpack", "bytes": 1, "total": 4},
    )
    result = outcome(Found(workspace("api", status=status), NOW))
    assert result is not None
    assert isinstance(result.said, Waiting)
    assert result.said.part == 0.25
    assert "for 2m" in result.said.details[0]


def test_programs_get_a_problem_in_json_with_when_to_come_back() -> None:
    result = outcome(found(Phase.STANDBY))
    assert result is not None
    answer = notice(RequestHead(b"GET", b"/w/api/", [], "192.0.2.1"), result, None)
    assert (b"Content-Type", b"application/problem+json") in answer.headers
    assert isinstance(answer.body, bytes)
    assert b'"status": 503' in answer.body
    assert (b"Retry-After", b"2") in answer.headers
