"""What need not be looked at again, and what always must be."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from codehub.coordinator.case import Case
from codehub.coordinator.rested import Rested, is_timeless
from codehub.coordinator.seen import NOTHING, Things
from codehub.model.conditions import Facts
from codehub.model.decision import Decision, Nothing, Wait
from codehub.model.runtime import VolumeSeen
from codehub.model.states import DesiredState
from codehub.model.workspace import Intent, Override, Status, Workspace
from tests.make import NOW, workspace

ME = UUID(int=1)
HOME = Things(None, (VolumeSeen(ME, "home", 1),))
RESTS = Nothing("where it should be")


def case(each: Workspace | None = None, things: Things = HOME, decision: Decision = RESTS) -> Case:
    found = each or workspace()
    return Case(found, found, things, Facts(), decision)


def noted(each: Case, version: str = "v1", archives: int = 1) -> Rested:
    rested = Rested()
    rested.note(each, version, archives)
    return rested


def test_the_same_row_and_the_same_things_rest() -> None:
    same = Things(None, (VolumeSeen(ME, "home", 1),))
    assert noted(case()).rests(ME, "v1", same, 1)


def test_what_was_never_looked_at_does_not() -> None:
    assert not Rested().rests(ME, "v1", HOME, 1)


@pytest.mark.parametrize(
    ("version", "things"), [("v2", HOME), ("v1", NOTHING), ("v1", Things(unknown="no answer"))]
)
def test_another_row_or_other_things_are_looked_at(version: str, things: Things) -> None:
    assert not noted(case()).rests(ME, version, things, 1)


def test_news_of_archives_concern_those_that_have_one() -> None:
    without = noted(case())
    having = noted(case(workspace(status=Status(archive_key="k"))))
    assert without.rests(ME, "v1", HOME, 2)
    assert having.rests(ME, "v1", HOME, 1)
    assert not having.rests(ME, "v1", HOME, 2)


OVERRIDE = Override(DesiredState.RUNNING, NOW + timedelta(hours=1), "a demo")


@pytest.mark.parametrize(
    "changing",
    [
        case(workspace(intent=Intent(DesiredState.STANDBY, override=OVERRIDE))),
        case(workspace(status=Status(error_count=1))),
        case(workspace(status=Status(retry_at=NOW))),
        case(things=Things(unknown="no answer")),
        case(decision=Wait(NOW, "not yet")),
        case(decision=Wait(None, "unknown", blind=True)),
    ],
    ids=["override", "error_count", "retry_at", "unknown", "wait", "blind"],
)
def test_answers_that_time_changes_are_never_kept(changing: Any) -> None:
    assert not is_timeless(changing)
    rested = noted(case())
    rested.note(changing, "v2", 1)
    assert not rested.rests(ME, "v2", changing.things, 1)
    assert not rested.rests(ME, "v1", HOME, 1), "the answer before it is gone as well"


def test_what_is_forgotten_is_looked_at_again() -> None:
    rested = noted(case())
    rested.forget(ME)
    rested.forget(ME)
    assert not rested.rests(ME, "v1", HOME, 1)


def test_rows_that_are_gone_are_forgotten() -> None:
    rested = noted(case())
    other = replace(workspace(), id=UUID(int=2))
    rested.note(case(other), "v1", 1)
    rested.keep_only({UUID(int=2): "v1"})
    assert not rested.rests(ME, "v1", HOME, 1)
    assert rested.rests(UUID(int=2), "v1", HOME, 1)
