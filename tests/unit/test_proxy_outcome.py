"""What a request gets that is not forwarded: the whole table, and who wakes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, Override, Status
from codehub.proxy.answers import is_visit, notice, wants_page
from codehub.proxy.outcome import outcome
from codehub.proxy.wire import Head, Request
from codehub.render.pages import Trouble, Waiting
from codehub.store.workspaces import Found
from tests.make import NOW, workspace

STANDBY, ARCHIVED = DesiredState.STANDBY, DesiredState.ARCHIVED
LOWERED = Intent(STANDBY, IntentSource.TTL)


def found(phase: Phase, operation: Operation = Operation.NONE, **fields: Any) -> Found:
    status = Status(phase, operation=operation, op_started_at=NOW - timedelta(minutes=1))
    fields.setdefault("intent", LOWERED)
    return Found(workspace("api", status=status, **fields), NOW, "5c110904fbe7aa01")


def asked(method: str = "GET", **headers: str) -> Request:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Request(method, "/w/api/", Head(f"{method} /w/api/ HTTP/1.1", named))


CASES = {
    "deleted": (found(Phase.DELETED), 404, False, "Not found"),
    "leaving": (found(Phase.ARCHIVED, intent=Intent(DesiredState.DELETED)), 404, False, "Not"),
    "error": (found(Phase.ERROR), 502, False, "needs a person"),
    "suspended": (found(Phase.STANDBY, suspend=True), 502, False, "suspended"),
    "starting": (found(Phase.STANDBY, Operation.STARTING), 503, False, "Starting"),
    "restoring": (found(Phase.ARCHIVED, Operation.RESTORING), 503, False, "Restoring"),
    "stopping": (found(Phase.RUNNING, Operation.STOPPING), 503, True, "Stopping"),
    "archiving": (found(Phase.STANDBY, Operation.ARCHIVING), 503, True, "Archiving"),
    "standby": (found(Phase.STANDBY), 503, True, "Waking"),
    "coming": (found(Phase.PENDING, intent=Intent(DesiredState.RUNNING)), 503, False, "about to"),
    "archived": (found(Phase.ARCHIVED), 502, False, "archived"),
    "wakes": (found(Phase.ARCHIVED, wake_from=ARCHIVED), 503, True, "Waking"),
    "pending": (found(Phase.PENDING), 502, False, "not started"),
    "ceiling": (found(Phase.STANDBY, declared_state=STANDBY), 502, False, "held"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_table(name: str) -> None:
    state, status, wakes, title = CASES[name]
    result = outcome(state)
    assert result is not None
    assert (result.status, result.wakes) == (status, wakes)
    assert title in result.said.title


def test_a_running_one_is_forwarded_even_if_it_is_held_or_leaving() -> None:
    assert outcome(found(Phase.RUNNING)) is None
    assert outcome(found(Phase.RUNNING, suspend=True)) is None
    assert outcome(found(Phase.RUNNING, intent=Intent(DesiredState.DELETED))) is None


def test_unknown_and_deleted_look_alike() -> None:
    assert outcome(None) == outcome(found(Phase.DELETED))


def test_every_operation_has_its_words() -> None:
    for operation in set(Operation) - {Operation.NONE}:
        result = outcome(found(Phase.STANDBY, operation))
        assert result is not None
        assert isinstance(result.said, Waiting)
        assert "{name}" not in result.said.title


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
    assert result.said.message == "RetryExceeded: it ended with code 1"
    assert "'codehub recover api'" in result.said.advice


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


@pytest.mark.parametrize(
    ("request_", "page", "visit"),
    [
        (asked(Accept="text/html,*/*"), True, True),
        (asked(Accept="text/html", Sec_Fetch_Mode="navigate"), True, True),
        (
            asked(Accept="text/html", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="iframe"),
            True,
            False,
        ),
        (asked(Accept="text/html", Sec_Fetch_Mode="cors"), False, False),
        (asked("HEAD", Accept="text/html"), True, False),
        (asked("POST", Accept="text/html"), False, False),
        (asked(Accept="application/json"), False, False),
        (asked(), False, False),
        (asked(Accept="text/html", Connection="upgrade", Upgrade="websocket"), False, False),
    ],
)
def test_who_sees_a_page_and_who_comes_to_visit(request_: Request, page: bool, visit: bool) -> None:
    assert wants_page(request_) is page
    assert is_visit(request_) is visit


def test_programs_get_a_problem_in_json_with_when_to_come_back() -> None:
    result = outcome(found(Phase.STANDBY))
    assert result is not None
    answer = notice(asked(), result.status, result.said)
    assert answer.media_type == "application/problem+json"
    assert b'"status": 503' in answer.body
    assert ("Retry-After", "2") in answer.headers
