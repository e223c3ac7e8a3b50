"""Conditions as they are stored say cheaply that they still hold, and never say so wrongly."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.core.judge import judge
from codehub.core.record import record
from codehub.model.conditions import (
    Condition,
    ConditionName,
    ConditionStatus,
    ContainerFact,
    Facts,
    Presence,
)
from codehub.model.decision import Nothing
from codehub.model.states import Phase
from codehub.model.workspace import Status, Workspace
from codehub.store.columns import status_columns
from codehub.store.rows import StoredConditions
from tests.make import NOW, workspace

LATER = NOW + timedelta(hours=1)
SEEN = Facts(ContainerFact.RUNNING, volume=Presence.PRESENT, archive=Presence.ABSENT)

CONDITIONS = st.dictionaries(
    st.sampled_from(ConditionName),
    st.builds(
        Condition,
        st.sampled_from(ConditionStatus),
        st.sampled_from(["", "NoVolume"]),
        st.sampled_from(["", "gone"]),
        st.sampled_from([None, NOW]),
    ),
)


def stored(conditions: dict[ConditionName, Condition]) -> StoredConditions:
    return StoredConditions(json.dumps(status_columns(Status(conditions=conditions))["conditions"]))


def at_rest() -> Workspace:
    status = Status(phase=Phase.RUNNING, phase_changed_at=NOW, home_store_key="home")
    row = workspace(status=replace(status, observed_generation=1))
    judged = dict(judge(row, SEEN, NOW).conditions)
    return replace(row, status=replace(row.status, conditions=stored(judged)))


def test_what_still_holds_is_the_very_same() -> None:
    row = at_rest()
    judgement = judge(row, SEEN, LATER)
    assert judgement.conditions is row.status.conditions
    after = record(row, judgement, Nothing("at rest"), now=LATER, op_id=row.id)
    assert after is row.status


def test_what_changed_is_dated_anew_and_the_others_stay() -> None:
    row = at_rest()
    conditions = judge(row, replace(SEEN, container=ContainerFact.ABSENT), LATER).conditions
    assert conditions[ConditionName.CONTAINER_READY].last_transition_time == LATER
    assert conditions[ConditionName.VOLUME_READY].last_transition_time == NOW


@given(CONDITIONS, CONDITIONS)
def test_they_hold_if_and_only_if_all_of_it_is_the_same(
    old: dict[ConditionName, Condition], judged: dict[ConditionName, Condition]
) -> None:
    dated = all(each.last_transition_time is not None for each in old.values())
    undated = {name: replace(each, last_transition_time=None) for name, each in old.items()}
    same = undated == {
        name: replace(each, last_transition_time=None) for name, each in judged.items()
    }
    assert stored(old).hold(judged) is (same and dated)
    assert stored(old).hold(undated) is dated


@pytest.mark.parametrize("answered", [True, False])
def test_a_start_leaves_the_reason_that_later_passes_see(answered: bool) -> None:
    judgement = judge(at_rest(), replace(SEEN, port_answered=answered), LATER)
    assert judgement.conditions[ConditionName.CONTAINER_READY].reason == "ContainerRunning"
