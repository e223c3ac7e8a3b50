"""Where a workspace is steered: ceilings, overrides, pins, and who waits for whom."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from codehub.core.drain import last_used
from codehub.core.target import aim, ceiling, target, waits_until
from codehub.model.decision import Drain
from codehub.model.states import DesiredState, IntentSource, Phase
from codehub.model.workspace import Activity, Intent, Override, Status, Workspace
from tests.make import NOW, workspace

MINUTE = timedelta(minutes=1)
RUNNING, STANDBY, ARCHIVED, DELETED = DesiredState


def override(state: DesiredState, minutes: int) -> Override:
    return Override(state, NOW + minutes * MINUTE, "demo")


def in_use(
    intent: Intent | None = None, *, changed: datetime | None = None, **declared: Any
) -> Workspace:
    """RUNNING, and somebody was there two minutes ago."""
    row = workspace(
        intent=intent or Intent(RUNNING, IntentSource.VISIT),
        status=Status(phase=Phase.RUNNING),
        activity=Activity(NOW - 2 * MINUTE),
        **declared,
    )
    return replace(row, declared_at=changed)


def test_the_lower_of_desired_and_declared() -> None:
    assert target(workspace(desired=RUNNING, declared_state=STANDBY), NOW) is STANDBY
    assert target(workspace(desired=ARCHIVED, declared_state=RUNNING), NOW) is ARCHIVED


def test_an_override_is_another_ceiling_while_it_lasts() -> None:
    raised = workspace(
        intent=Intent(RUNNING, override=override(RUNNING, 1)), declared_state=STANDBY
    )
    assert ceiling(raised, NOW) is RUNNING
    assert ceiling(raised, NOW + MINUTE) is STANDBY
    assert target(raised, NOW) is RUNNING


def test_no_ceiling_deletes() -> None:
    row = workspace(intent=Intent(RUNNING, override=override(DELETED, 1)))
    assert target(row, NOW) is ARCHIVED


def test_pinned_is_where_the_specs_say_whatever_anybody_asks() -> None:
    intent = Intent(ARCHIVED, IntentSource.TTL, override=override(ARCHIVED, 1))
    assert target(workspace(intent=intent, pinned=True), NOW) is RUNNING


def test_suspended_stays_and_deleted_wins() -> None:
    assert target(workspace(suspend=True), NOW) is None
    assert target(workspace(desired=DELETED, suspend=True, pinned=True), NOW) is DELETED


def test_a_ceiling_lowered_in_git_waits_for_five_idle_minutes() -> None:
    row = in_use(declared_state=STANDBY, changed=NOW - MINUTE)
    assert target(row, NOW) is None
    assert waits_until(row, NOW) == NOW + 3 * MINUTE
    assert target(row, NOW + 3 * MINUTE) is STANDBY
    assert aim(row, NOW) is STANDBY


def test_it_waits_at_most_an_hour() -> None:
    row = in_use(declared_state=STANDBY, changed=NOW - 59 * MINUTE)
    assert waits_until(row, NOW) == NOW + MINUTE
    assert target(row, NOW + MINUTE) is STANDBY


def test_apply_now_waits_for_nobody() -> None:
    row = in_use(declared_state=STANDBY, changed=NOW)
    assert target(row, NOW, Drain(skip=True)) is STANDBY


def test_only_what_runs_is_in_use() -> None:
    row = in_use(declared_state=ARCHIVED, changed=NOW)
    resting = replace(row, status=Status(phase=Phase.STANDBY))
    assert target(resting, NOW) is ARCHIVED


@pytest.mark.parametrize("source", [IntentSource.TTL, IntentSource.CLI, IntentSource.API])
def test_lowering_by_ttl_or_people_does_not_wait(source: IntentSource) -> None:
    for state in (STANDBY, ARCHIVED, DELETED):
        assert target(in_use(Intent(state, source, NOW)), NOW) is state


def test_an_admins_override_does_not_wait() -> None:
    row = in_use(Intent(RUNNING, override=override(STANDBY, 60)), changed=NOW)
    assert target(row, NOW) is STANDBY


def test_a_spec_that_was_removed_waits_too() -> None:
    row = in_use(Intent(DELETED, IntentSource.SPEC, NOW - 58 * MINUTE))
    assert waits_until(row, NOW) == NOW + 2 * MINUTE
    assert target(row, NOW + 2 * MINUTE) is DELETED


def test_pinning_lower_waits_from_the_change_of_the_spec() -> None:
    pinned = in_use(Intent(STANDBY, IntentSource.SPEC, NOW), declared_state=STANDBY, pinned=True)
    assert waits_until(replace(pinned, declared_at=NOW - 61 * MINUTE), NOW) is None
    assert waits_until(replace(pinned, declared_at=NOW), NOW) == NOW + 3 * MINUTE


def test_the_hour_starts_again_when_an_override_ends() -> None:
    ended = Intent(RUNNING, IntentSource.VISIT, override=override(RUNNING, -1))
    row = in_use(ended, declared_state=STANDBY, changed=NOW - 600 * MINUTE)
    assert waits_until(row, NOW) == NOW + 3 * MINUTE


def test_the_visit_that_woke_it_counts_as_use() -> None:
    visited = in_use(Intent(RUNNING, IntentSource.VISIT, NOW))
    assert last_used(visited) == NOW
    assert last_used(replace(visited, activity=Activity())) == NOW
    by_hand = in_use(Intent(RUNNING, IntentSource.CLI, NOW))
    assert last_used(by_hand) == NOW - 2 * MINUTE
