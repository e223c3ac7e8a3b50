"""Why a workspace rests: said as it was, and not the same whatever the cause."""

from __future__ import annotations

from datetime import timedelta

import pytest

from codehub.model.states import DesiredState, IntentSource, Phase
from codehub.model.workspace import Activity, Intent, Status
from codehub.proxy.causes import why_archived, why_stopped
from codehub.store.workspaces import Found
from tests.make import NOW, workspace

STANDBY, ARCHIVED = DesiredState.STANDBY, DesiredState.ARCHIVED
IDLE = "Nobody used it for a while"


def rests(phase: Phase, intent: Intent, activity: Activity | None = None) -> Found:
    one = workspace("api", status=Status(phase), intent=intent, activity=activity or Activity())
    return Found(one, NOW)


@pytest.mark.parametrize("source", IntentSource)
def test_only_idleness_is_told_as_idleness(source: IntentSource) -> None:
    stopped = why_stopped(rests(Phase.STANDBY, Intent(STANDBY, source)))
    archived = why_archived(rests(Phase.ARCHIVED, Intent(ARCHIVED, source)))
    for text in (stopped, archived):
        assert (IDLE in text) is (source is IntentSource.TTL)


@pytest.mark.parametrize("source", [IntentSource.API, IntentSource.CLI])
def test_who_asked_for_it_is_named(source: IntentSource) -> None:
    stop = Intent(STANDBY, source, NOW - timedelta(hours=2), "bob")
    assert "as bob asked 2 hours ago" in why_stopped(rests(Phase.STANDBY, stop))
    archive = Intent(ARCHIVED, source, by="bob")
    assert "as bob asked." in why_archived(rests(Phase.ARCHIVED, archive))
    assert "as somebody asked." in why_stopped(rests(Phase.STANDBY, Intent(STANDBY, source)))


def test_one_that_nobody_opened_was_not_stopped() -> None:
    waits = Intent(STANDBY, IntentSource.SPEC)
    assert "was not started" in why_stopped(rests(Phase.STANDBY, waits))
    used = Activity(last_access_at=NOW - timedelta(days=3))
    assert why_stopped(rests(Phase.STANDBY, waits, used)).startswith("It is stopped.")


def test_whoever_asks_for_a_restore_did_not_ask_for_the_archive() -> None:
    restore = Intent(STANDBY, IntentSource.CLI, by="bob")
    assert "bob" not in why_archived(rests(Phase.ARCHIVED, restore))
