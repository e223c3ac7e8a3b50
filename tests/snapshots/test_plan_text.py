"""The plan as a terminal shows it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codehub.model.plan import Action, Change, FieldChange, Kind
from codehub.render.plan_text import plan_text
from codehub.render.words import DECEPTIVE
from tests.snapshots import plan_cases

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


def test_the_sample_of_the_design(text_snapshot: SnapshotAssertion) -> None:
    text = plan_text(plan_cases.sample())
    assert "declared RUNNING, now STANDBY: idle 4h12m, ttl interactive.standby=3h" in text
    assert text == text_snapshot


def test_everything_at_once(text_snapshot: SnapshotAssertion) -> None:
    text = plan_text(plan_cases.everything())
    assert "! stops now: alice, active 20 minutes ago" in text
    assert text == text_snapshot


def test_in_colour(text_snapshot: SnapshotAssertion) -> None:
    plan = plan_cases.everything()
    text = plan_text(plan, color=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", text) == plan_text(plan)
    assert text == text_snapshot


def test_nothing_to_do(text_snapshot: SnapshotAssertion) -> None:
    text = plan_text(plan_cases.unchanged())
    assert "No changes. The hub is as the specs declare it." in text
    assert text == text_snapshot


def test_without_a_hub(text_snapshot: SnapshotAssertion) -> None:
    text = plan_text(plan_cases.first())
    assert "against an empty hub." in text
    assert text == text_snapshot


def test_a_target(text_snapshot: SnapshotAssertion) -> None:
    text = plan_text(plan_cases.everything(target="demo", as_of=None))
    assert "Only demo (--target): everything else is left out and left alone." in text
    assert text == text_snapshot


def test_hostile_values(text_snapshot: SnapshotAssertion) -> None:
    text = plan_text(plan_cases.hostile())
    assert DECEPTIVE.findall(text.replace("\n", "")) == []
    assert text == text_snapshot


def test_drift_alone() -> None:
    plan = replace(plan_cases.unchanged(), drift=plan_cases.everything().drift)
    assert "No changes in the specs, but reality has drifted" in plan_text(plan)


@pytest.mark.parametrize("case", [plan_cases.sample, plan_cases.everything])
def test_lines_fit_into_a_wide_terminal(case: object) -> None:
    assert callable(case)
    assert max(len(line) for line in plan_text(case()).splitlines()) <= 102


def test_a_long_list_of_held_ones_is_cut_and_says_so() -> None:
    held = tuple(
        Change(Kind.WORKSPACE, f"w{number:03}", Action.HELD, held="asleep") for number in range(60)
    )
    text = plan_text(replace(plan_cases.unchanged(), changes=held))
    assert text.count("= workspace") == 50
    assert "… and 10 workspaces more; --format json has them all" in text


def test_long_values_that_differ_far_inside_show_where() -> None:
    same = "word " * 40
    change = FieldChange("memo", same + "red end", same + "blue end")
    plan = replace(
        plan_cases.unchanged(),
        changes=(Change(Kind.WORKSPACE, "api", Action.UPDATE, fields=(change,)),),
    )
    text = plan_text(plan)
    assert "red end" in text
    assert "blue end" in text
