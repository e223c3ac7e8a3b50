"""What waits, for what, and whom a change stops."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.plan import exit_code
from codehub.model.plan import Action, Summary
from codehub.model.states import IntentSource, Operation
from codehub.model.workspace import (
    Activity,
    Intent,
    UpdatePolicy,
)
from tests.make import NOW, declaration, workspace
from tests.unit.plan_world import (
    ARCHIVED,
    ASLEEP,
    AWAKE,
    BUSY,
    MINUTE,
    STANDBY,
    hub,
    only,
    plan_of,
)

if TYPE_CHECKING:
    from codehub.model.plan import Change


def test_a_new_template_waits_for_the_next_start() -> None:
    change = only(hub(workspace(status=AWAKE, image="a")), declaration(image="b"))
    (field,) = change.fields
    assert field.effect == change.deferred == "takes effect at the next start"
    assert (change.path, change.stops_now) == (("RUNNING",), None)


def test_a_new_template_of_what_is_about_to_start_waits_for_nothing() -> None:
    row = workspace(status=ASLEEP, desired=STANDBY, declared_state=STANDBY)
    change = only(hub(row), declaration(image="b"))
    assert (change.fields[0].effect, change.deferred) == ("", None)


def test_an_immediate_update_restarts_an_idle_workspace_now() -> None:
    row = workspace(
        status=AWAKE, activity=Activity(NOW - 20 * MINUTE), update=UpdatePolicy.IMMEDIATE
    )
    change = only(hub(row), declaration(image="b", update=UpdatePolicy.IMMEDIATE))
    assert change.fields[0].effect == "restarts now"
    assert change.path == ("RUNNING", "STOPPING", "STANDBY", "STARTING", "RUNNING")
    assert (change.stops_now, change.deferred) == ("alice, active 20 minutes ago", None)


def test_an_immediate_update_waits_for_the_people_in_it() -> None:
    row = workspace(status=AWAKE, activity=BUSY, update=UpdatePolicy.IMMEDIATE)
    change = only(hub(row), declaration(image="b", update=UpdatePolicy.IMMEDIATE))
    assert change.fields[0].effect == "restarts once it is idle"
    assert (change.stops_now, change.stops_later) == (None, "alice, active 2 minutes ago")
    assert change.deferred == "waits until idle for 5m, at most 1h, because it is in use"


def lowering(activity: Activity, **options: Any) -> Change:
    row = workspace(status=AWAKE, activity=activity)
    return only(hub(row), declaration(declared_state=STANDBY), **options)


def test_lowering_waits_while_somebody_works() -> None:
    change = lowering(BUSY)
    assert change.stops_now is None
    assert change.stops_later == "alice, active 2 minutes ago"
    assert "because it is in use" in (change.deferred or "")


def test_lowering_now_does_not_wait() -> None:
    change = lowering(BUSY, now=True)
    assert (change.stops_now, change.deferred) == ("alice, active 2 minutes ago", None)


@pytest.mark.parametrize(
    ("activity", "who"),
    [
        (Activity(NOW - 5 * MINUTE), "alice, active 5 minutes ago"),
        (Activity(NOW - timedelta(hours=3, minutes=30)), "alice, idle 3h30m"),
        (Activity(), "alice, no activity seen"),
    ],
)
def test_lowering_what_is_idle_names_whose_it_is(activity: Activity, who: str) -> None:
    change = lowering(activity)
    assert (change.stops_now, change.deferred) == (who, None)


def test_deleting_waits_while_somebody_works() -> None:
    change = only(hub(workspace(status=AWAKE, activity=BUSY)))
    assert (change.stops_now, change.stops_later) == (None, "alice, active 2 minutes ago")
    assert change.path[0:3] == ("RUNNING", "STOPPING", "STANDBY")


def test_what_was_lowered_before_is_not_stopped_by_this_plan() -> None:
    intent = Intent(STANDBY, IntentSource.CLI, NOW, "alice")
    row = workspace(status=replace(AWAKE, operation=Operation.STOPPING), intent=intent)
    change = only(hub(row), declaration(declared_state=ARCHIVED))
    assert (change.stops_now, change.stops_later) == (None, None)


def test_a_template_applied_earlier_is_still_listed_as_waiting() -> None:
    row = workspace(status=AWAKE, generation=2, template_digest="t2")
    plan = plan_of(hub(row), declaration())
    (change,) = plan.changes
    assert change.action is Action.NONE
    assert change.deferred == "waits for the next start, which takes the applied template"
    assert (plan.summary, exit_code(plan)) == (Summary(deferred=1), 0)


def test_a_lowering_applied_earlier_is_still_listed_while_it_waits() -> None:
    row = replace(
        workspace(status=AWAKE, activity=BUSY, declared_state=STANDBY),
        declared_at=NOW - 10 * MINUTE,
    )
    change = only(hub(row), declaration(declared_state=STANDBY))
    assert change.action is Action.NONE
    assert "because it is in use" in (change.deferred or "")
