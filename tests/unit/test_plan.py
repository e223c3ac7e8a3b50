"""The plan as a whole: users, the hub, orphans, targets and exit codes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from codehub.core.plan import exit_code
from codehub.errors import UsageError
from codehub.model.people import Hub
from codehub.model.plan import Action, Kind, Summary
from codehub.model.revision import HubState
from tests.make import declaration, user, workspace
from tests.unit.plan_world import (
    ASLEEP,
    AWAKE,
    BUSY,
    STANDBY,
    hub,
    plan_of,
)


def test_users_come_change_and_go() -> None:
    stored = hub(users={"ann": user("ann"), "bob": user("bob"), "old": user("old", disabled=True)})
    specs = {"users": {"ann": user("ann", max_running=1), "new": user("new")}}
    found = [(each.name, each.action) for each in plan_of(stored, specs=specs).changes]
    assert found == [("ann", Action.UPDATE), ("bob", Action.DELETE), ("new", Action.CREATE)]


def test_a_user_who_comes_back_is_enabled_again() -> None:
    stored = hub(users={"old": user("old", disabled=True)})
    (change,) = plan_of(stored, specs={"users": {"old": user("old")}}).changes
    assert change.action is Action.UPDATE
    assert [(each.field, each.new) for each in change.fields] == [("disabled", "false")]


def test_the_hub_is_created_with_the_first_revision_and_updated_later() -> None:
    specs = {"hub": Hub(max_running_global=3)}
    assert plan_of(hub(), specs=specs).changes[0].action is Action.UPDATE
    assert plan_of(HubState(), specs=specs).changes[0].action is Action.CREATE


def test_orphans_are_listed_in_every_plan_and_are_nothing_to_do() -> None:
    stored = hub(workspace(status=AWAKE, orphaned=True), hub=Hub(prune=False))
    plan = plan_of(stored)
    assert [each.action for each in plan.changes] == [Action.ORPHAN]
    assert (plan.has_changes, exit_code(plan)) == (False, 0)


def test_changes_are_sorted_by_kind_and_name() -> None:
    specs = {"users": {"zed": user("zed"), "amy": user("amy")}, "hub": Hub(prune=False)}
    plan = plan_of(HubState(), declaration("b"), declaration("a"), specs=specs)
    assert [(each.kind, each.name) for each in plan.changes] == [
        (Kind.WORKSPACE, "a"),
        (Kind.WORKSPACE, "b"),
        (Kind.USER, "amy"),
        (Kind.USER, "zed"),
        (Kind.HUB, "hub"),
    ]


def test_an_unchanged_hub_is_an_empty_plan() -> None:
    plan = plan_of(hub(workspace(status=AWAKE, activity=BUSY)), declaration())
    assert (plan.changes, plan.summary, exit_code(plan)) == ((), Summary(), 0)
    assert (plan.base_revision, plan.base_digest, plan.against_empty) == (7, "d0", False)


def test_a_plan_without_a_hub_says_so() -> None:
    assert plan_of(HubState(), declaration()).against_empty
    assert not plan_of(HubState(hub_id="h"), declaration()).against_empty


def test_a_plan_is_the_same_whatever_the_order_of_its_inputs() -> None:
    rows = [workspace(f"w{n}", number=n, status=ASLEEP, desired=STANDBY) for n in range(1, 6)]
    wanted = [declaration(f"w{n}", memo="x") for n in range(2, 8)]
    one = plan_of(hub(*rows), *wanted)
    assert one == plan_of(hub(*reversed(rows)), *reversed(wanted))


TEAM: dict[str, Any] = {"labels": {"team": "pay"}}


def targeted(target: str) -> list[str]:
    stored = hub(workspace("a", number=1, **TEAM), workspace("b", number=2), users={})
    plan = plan_of(stored, declaration("c"), declaration("d", **TEAM), target=target)
    assert plan.target == target
    return [each.name for each in plan.changes]


def test_a_target_is_a_name_or_a_label() -> None:
    assert targeted("c") == ["c"]
    assert targeted("b") == ["b"]
    assert targeted("team=pay") == ["a", "d"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("cc", 'no workspace is called "cc", did you mean "c"?'),
        ("team=pya", 'no workspace has the label "team=pya", did you mean "team=pay"?'),
    ],
)
def test_an_unknown_target_is_a_usage_error_with_a_guess(target: str, message: str) -> None:
    stored = hub(workspace("c", **TEAM))
    with pytest.raises(UsageError) as caught:
        plan_of(stored, declaration("c", **TEAM), target=target)
    assert caught.value.message == message
    assert caught.value.exit_code == 64


def test_a_targeted_plan_leaves_users_and_the_hub_out() -> None:
    specs = {"users": {"zed": user("zed")}, "hub": Hub(prune=False)}
    plan = plan_of(HubState(), declaration("a"), specs=specs, target="a")
    assert [each.kind for each in plan.changes] == [Kind.WORKSPACE]


def test_changes_are_two() -> None:
    assert exit_code(plan_of(hub(), declaration())) == 2


def test_drift_alone_is_three_and_changes_outrank_it() -> None:
    row = workspace(status=replace(AWAKE, container_template="other"))
    assert exit_code(plan_of(hub(row), declaration())) == 3
    assert exit_code(plan_of(hub(row), declaration(memo="x"))) == 2


def test_unsafe_is_four_whatever_else_there_is() -> None:
    row = workspace(status=replace(AWAKE, container_template="other"))
    assert exit_code(plan_of(hub(row))) == 4
