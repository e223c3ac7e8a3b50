"""Advice for people: every error has one, and it names commands that exist."""

from __future__ import annotations

import re

import pytest

from codehub.cli.verbs import VERBS
from codehub.core.advise import advise
from codehub.model.states import DesiredState, ErrorReason, Phase
from codehub.model.workspace import Intent, Status
from tests.make import workspace


@pytest.mark.parametrize("reason", [*ErrorReason, None])
def test_every_reason_leads_to_a_command_that_exists(reason: ErrorReason | None) -> None:
    advice = advise(workspace("api", status=Status(Phase.ERROR, error_reason=reason)))
    named = re.findall(r"'codehub ([a-z-]+) api", advice)
    assert named
    assert set(named) <= {verb.name for verb in VERBS}


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
