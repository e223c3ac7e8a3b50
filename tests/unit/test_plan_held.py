"""What is held below its declared state says by whom or what, and since when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from codehub.core.plan import exit_code
from codehub.model.plan import Action, Summary
from codehub.model.states import DesiredState, IntentSource, Operation, Phase
from codehub.model.workspace import (
    Activity,
    Intent,
    Override,
    StartOn,
    Status,
    Ttl,
)
from tests.make import NOW, declaration, workspace
from tests.unit.plan_world import (
    ARCHIVED,
    ASLEEP,
    AWAKE,
    HOUR,
    RUNNING,
    STANDBY,
    hub,
    plan_of,
)


def held_text(row: Any, **fields: Any) -> str | None:
    changes = plan_of(hub(row), declaration(**fields)).changes
    return changes[0].held if changes else None


def ttl_lowered(desired: DesiredState, phase: Phase, **fields: Any) -> Any:
    return workspace(
        intent=Intent(desired, IntentSource.TTL, NOW - HOUR),
        status=Status(phase=phase),
        activity=Activity(NOW - timedelta(hours=4, minutes=12)),
        **fields,
    )


def test_an_idle_workspace_says_why_it_sleeps_and_what_wakes_it() -> None:
    ttl = Ttl(standby=3 * 3600, archive=24 * 3600, policy="interactive")
    assert held_text(ttl_lowered(STANDBY, Phase.STANDBY, ttl=ttl), ttl=ttl) == (
        "declared RUNNING, now STANDBY: idle 4h12m, ttl interactive.standby=3h; wakes on visit"
    )


def test_an_archived_workspace_says_how_to_get_it_back() -> None:
    row = ttl_lowered(ARCHIVED, Phase.ARCHIVED)
    assert held_text(row) == (
        "declared RUNNING, now ARCHIVED: idle 4h12m, ttl archive=30m (the hub's setting); "
        "codehub restore api brings it back"
    )
    row = ttl_lowered(ARCHIVED, Phase.ARCHIVED, wake_from=ARCHIVED)
    assert (held_text(row, wake_from=ARCHIVED) or "").endswith("; wakes on visit")


def test_somebody_who_stopped_it_is_named() -> None:
    intent = Intent(STANDBY, IntentSource.CLI, NOW - 2 * HOUR, "alice")
    assert held_text(workspace(intent=intent, status=ASLEEP)) == (
        "declared RUNNING, now STANDBY: stopped by alice 2h ago; wakes on visit"
    )


def test_what_waits_for_its_first_visit_is_held() -> None:
    row = workspace(desired=STANDBY, status=ASLEEP, start_on=StartOn.VISIT)
    assert held_text(row, start_on=StartOn.VISIT) == (
        "declared RUNNING, now STANDBY: not visited yet; wakes on visit"
    )


def test_what_is_not_down_yet_is_on_its_way() -> None:
    intent = Intent(STANDBY, IntentSource.API, NOW, "bob")
    row = workspace(intent=intent, status=replace(AWAKE, operation=Operation.STOPPING))
    assert (held_text(row) or "").startswith("declared RUNNING, now RUNNING, on the way to STANDBY")


def test_a_suspended_workspace_is_held_where_it_is() -> None:
    assert held_text(workspace(status=ASLEEP, suspend=True), suspend=True) == (
        "declared RUNNING, now STANDBY: suspended, so nothing moves it"
    )
    assert held_text(workspace(status=AWAKE, suspend=True), suspend=True) is None


@pytest.mark.parametrize("state", [STANDBY, RUNNING])
def test_an_override_is_in_every_plan_whichever_way_it_goes(state: DesiredState) -> None:
    intent = Intent(RUNNING, override=Override(state, NOW + HOUR, "incident 42"))
    row = workspace(intent=intent, status=ASLEEP, declared_state=STANDBY)
    text = held_text(row, declared_state=STANDBY) or ""
    assert f"override {state} until 2026-11-01 13:00 UTC (incident 42)" in text


def test_an_override_that_ended_is_forgotten() -> None:
    intent = Intent(RUNNING, override=Override(STANDBY, NOW, "over"))
    assert held_text(workspace(intent=intent, status=AWAKE)) is None


@pytest.mark.parametrize("fields", [{"pinned": True}, {}])
def test_what_runs_as_declared_is_not_held(fields: dict[str, Any]) -> None:
    desired = STANDBY if fields else RUNNING
    assert held_text(workspace(desired=desired, status=AWAKE, **fields), **fields) is None


def test_held_workspaces_are_listed_and_are_nothing_to_do() -> None:
    plan = plan_of(hub(ttl_lowered(STANDBY, Phase.STANDBY)), declaration())
    assert [change.action for change in plan.changes] == [Action.HELD]
    assert plan.summary == Summary(held=1)
    assert exit_code(plan) == 0
