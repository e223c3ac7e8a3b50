"""What makes a plan unsafe, and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.plan import exit_code, make_plan
from codehub.model.people import Hub
from codehub.model.plan import PlanOptions
from codehub.model.revision import HubState
from codehub.model.states import DesiredState, Phase
from codehub.model.workspace import Activity, Status
from tests.make import NOW, declaration, spec_set, workspace

if TYPE_CHECKING:
    from codehub.model.plan import Plan

AWAKE = Status(phase=Phase.RUNNING, container_template="t1", home_store_key="v")


def fleet(count: int, **fields: Any) -> HubState:
    rows = (workspace(f"w{n}", number=n, status=AWAKE, **fields) for n in range(1, count + 1))
    return HubState(hub_id="h", workspaces=tuple(rows))


def plan_keeping(
    stored: HubState, kept: int, *, options: PlanOptions | None = None, **fields: Any
) -> Plan:
    names = [row.name for row in stored.workspaces][:kept]
    incoming = spec_set(*(declaration(name, **fields) for name in names))
    return make_plan(stored, incoming, now=NOW, options=options or PlanOptions())


@pytest.mark.parametrize(
    ("present", "kept", "unsafe"),
    [
        (10, 10, False),
        (3, 1, False),
        (9, 7, False),
        (10, 7, False),
        (9, 6, True),
        (5, 2, True),
        (100, 70, False),
        (100, 69, True),
    ],
)
def test_more_than_thirty_percent_from_the_third_on(present: int, kept: int, unsafe: bool) -> None:
    plan = plan_keeping(fleet(present), kept)
    assert bool(plan.unsafe) is unsafe
    assert exit_code(plan) == (4 if unsafe else 2)


def test_the_sentence_says_how_many_of_what() -> None:
    assert plan_keeping(fleet(9), 6).unsafe == (
        "3 of 9 workspaces would be deleted or stopped (3 deleted, 0 stopped), more than 30%",
    )


@pytest.mark.parametrize(
    ("present", "sentence"),
    [
        (1, "the only workspace of the hub would be deleted"),
        (2, "all 2 workspaces of the hub would be deleted"),
    ],
)
def test_removing_everything_is_unsafe_however_little_it_is(present: int, sentence: str) -> None:
    assert plan_keeping(fleet(present), 0).unsafe == (sentence,)


def test_new_workspaces_do_not_make_up_for_the_removed_ones() -> None:
    plan = make_plan(fleet(2), spec_set(declaration("x")), now=NOW, options=PlanOptions())
    assert plan.unsafe == ("all 2 workspaces of the hub would be deleted",)


def test_an_empty_hub_can_lose_nothing() -> None:
    assert make_plan(HubState(), spec_set(), now=NOW, options=PlanOptions()).unsafe == ()


def test_what_leaves_already_counts_no_more() -> None:
    stored = fleet(2)
    leaving = workspace("old", number=9, desired=DesiredState.DELETED)
    stored = HubState(workspaces=(*stored.workspaces, leaving))
    assert plan_keeping(stored, 0).unsafe == ("all 2 workspaces of the hub would be deleted",)


def test_stopping_people_counts_like_deleting() -> None:
    plan = plan_keeping(fleet(4), 4, declared_state=DesiredState.STANDBY)
    assert plan.unsafe == (
        "4 of 4 workspaces would be deleted or stopped (0 deleted, 4 stopped), more than 30%",
    )


def test_that_everybody_is_at_work_does_not_make_a_mass_stop_safe() -> None:
    stored = fleet(4, activity=Activity(NOW))
    plan = plan_keeping(stored, 4, declared_state=DesiredState.STANDBY)
    assert plan.summary.deferred == 4
    assert len(plan.unsafe) == 1


def test_lowering_what_sleeps_stops_nobody() -> None:
    asleep = (workspace(f"w{n}", number=n, status=Status(phase=Phase.STANDBY)) for n in range(4))
    stored = HubState(workspaces=tuple(asleep))
    assert plan_keeping(stored, 4, declared_state=DesiredState.STANDBY).unsafe == ()


def test_a_protected_workspace_is_protected_by_the_hub_not_by_its_file() -> None:
    stored = HubState(workspaces=(workspace("a", number=1, protect=True), workspace("b", number=2)))
    assert plan_keeping(stored, 0, options=PlanOptions(target="a")).unsafe == (
        "a is protected in the hub and would be deleted",
    )


def test_a_protected_orphan_is_not_deleted_and_so_is_safe() -> None:
    stored = HubState(workspaces=(workspace(protect=True),))
    incoming = spec_set(hub=Hub(prune=False))
    assert make_plan(stored, incoming, now=NOW, options=PlanOptions()).unsafe == ()


def test_another_owner_is_unsafe() -> None:
    plan = make_plan(
        fleet(1), spec_set(declaration("w1", owner="eve")), now=NOW, options=PlanOptions()
    )
    assert plan.unsafe == ("w1 would change its owner from alice to eve",)
