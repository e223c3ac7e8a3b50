"""Advice for people: every error has one, and it names commands or buttons that exist."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from codehub.cli.verbs import VERBS
from codehub.core.advise import advise
from codehub.core.present import actions
from codehub.errors import Refused
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.states import DesiredState, ErrorReason, Phase, RecoverMode
from codehub.model.view import LABELS, Action
from codehub.model.voice import Voice
from codehub.model.workspace import Intent, Status
from codehub.service.permit import check_recover
from tests.make import NOW, workspace


@pytest.mark.parametrize("reason", [*ErrorReason, None])
def test_every_reason_leads_to_a_command_that_exists(reason: ErrorReason | None) -> None:
    advice = advise(workspace("api", status=Status(Phase.ERROR, error_reason=reason)))
    named = re.findall(r"'codehub ([a-z-]+) api", advice)
    assert named
    assert set(named) <= {verb.name for verb in VERBS}


@pytest.mark.parametrize("archive", [None, "a/b"])
@pytest.mark.parametrize("reason", [*ErrorReason, None])
def test_on_a_page_it_leads_to_buttons_that_are_there(
    reason: ErrorReason | None, archive: str | None
) -> None:
    status = Status(Phase.ERROR, error_reason=reason, archive_key=archive)
    each = workspace("api", status=status)
    advice = advise(each, Voice.BUTTONS)
    named = re.findall("“([^”]*)”", advice)
    assert named
    assert set(named) <= {LABELS[action] for action in actions(each, NOW)}
    assert "codehub" not in advice


def test_a_loss_offers_the_archive_only_where_there_is_one() -> None:
    lost = Status(Phase.ERROR, error_reason=ErrorReason.DATA_LOST)
    kept = Status(Phase.ERROR, error_reason=ErrorReason.DATA_LOST, archive_key="a/b")
    assert "--from-archive" not in advise(workspace(status=lost))
    assert "--from-archive" in advise(workspace(status=kept))


def test_a_deletion_that_cannot_archive_names_the_way_without() -> None:
    status = Status(Phase.ERROR, error_reason=ErrorReason.RETRY_EXCEEDED, home_store_key="v1")
    leaving = workspace("api", intent=Intent(DesiredState.DELETED), status=status)
    assert "'codehub delete api --discard-data'" in advise(leaving)
    assert "--discard-data" not in advise(workspace("api", status=status))


@pytest.mark.parametrize(("home", "what"), [("v1", "home"), (None, "archive")])
def test_what_was_found_again_needs_no_choice(home: str | None, what: str) -> None:
    sound = {ConditionName.HEALTHY: Condition(ConditionStatus.TRUE)}
    lost = Status(
        Phase.ERROR,
        error_reason=ErrorReason.DATA_LOST,
        home_store_key=home,
        archive_key="a/b",
        conditions=sound,
    )
    each = workspace("api", status=lost)
    assert advise(each) == f"its {what} is there again: 'codehub recover api' takes it"
    assert LABELS[Action.RECOVER] in advise(each, Voice.BUTTONS)
    assert actions(each, NOW) == (Action.RECOVER,)
    check_recover(each, RecoverMode.PLAIN)
    with pytest.raises(Refused):
        check_recover(workspace("api", status=replace(lost, conditions={})), RecoverMode.PLAIN)
