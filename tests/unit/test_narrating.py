"""What `codehub up` says of workspaces: an address only once somebody answers there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codehub.cli.narrating import Narrator
from codehub.model.events import Event, EventKind
from codehub.model.states import Operation, Phase
from codehub.model.workspace import Status
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from collections.abc import Callable

API = workspace("api")
ADDRESS = "RUNNING  http://localhost:8080/w/api/"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """What was said since the last call, without the time of day and the name."""
    return lambda: [line[31:] for line in capsys.readouterr().out.splitlines()]


def event(kind: EventKind, old: str, new: str, reason: str = "") -> Event:
    return Event(1, NOW, API.id, "api", kind, old, new, "controller", "", reason)


BEGINS = event(EventKind.OPERATION, "NONE", "STARTING")
RUNS = event(EventKind.PHASE, "STANDBY", "RUNNING")
ENDS = event(EventKind.OPERATION, "STARTING", "NONE")


def test_the_address_is_said_when_its_port_has_answered(said: Callable[[], list[str]]) -> None:
    narrator = Narrator(8080)
    narrator.tell((BEGINS,))
    narrator.tell((RUNS,))
    assert said() == []
    narrator.tell((ENDS,))
    assert said() == [ADDRESS]
    narrator.tell(())
    assert said() == [], "once"


def test_what_answers_at_once_is_said_at_once(said: Callable[[], list[str]]) -> None:
    Narrator(8080).tell((BEGINS, ENDS, RUNS))
    assert said() == [ADDRESS]


def test_what_runs_without_a_start_is_said_as_well(said: Callable[[], list[str]]) -> None:
    Narrator(8080).tell((RUNS,))
    assert said() == [ADDRESS]


def test_a_start_that_fails_is_never_said_to_run(said: Callable[[], list[str]]) -> None:
    narrator = Narrator(8080)
    narrator.tell((BEGINS, RUNS))
    failed = event(EventKind.ERROR, "", "Timeout", "no answer")
    narrator.tell((ENDS, failed, event(EventKind.PHASE, "RUNNING", "ERROR")))
    assert said() == ["Timeout: no answer", "ERROR  'codehub explain api' says what to do"]


def test_what_starts_already_is_shown_so(said: Callable[[], list[str]]) -> None:
    narrator = Narrator(8080)
    narrator.show([replace(API, status=Status(Phase.STANDBY, operation=Operation.STARTING))])
    assert said() == ["STARTING"]
    narrator.tell((RUNS,))
    assert said() == []
    narrator.tell((ENDS,))
    assert said() == [ADDRESS]


def test_one_that_runs_before_its_start_is_over_is_told_at_its_end(
    said: Callable[[], list[str]],
) -> None:
    """Its phase was RUNNING when `up` began to tell, so that it runs is no event any more."""
    narrator = Narrator(8080)
    narrator.show([replace(API, status=Status(Phase.RUNNING, operation=Operation.STARTING))])
    assert said() == ["STARTING"]
    narrator.tell((ENDS,))
    assert said() == [ADDRESS]
