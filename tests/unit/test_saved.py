"""Saved plans: what is in them, what they are bound to, and what is no such thing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.plan import make_plan
from codehub.errors import CodeHubError
from codehub.model.plan import PlanOptions
from codehub.model.revision import HubState, Origin, Revision
from codehub.model.states import DesiredState, Operation, Phase
from codehub.model.workspace import Status
from codehub.render.plan_html import plan_html
from codehub.render.plan_json import plan_json
from codehub.render.plan_markdown import plan_markdown
from codehub.render.plan_text import plan_text
from codehub.service.saved import read_plan, read_plan_file, save_plan, staleness
from tests.make import NOW, declaration, spec_set, user, workspace
from tests.snapshots import plan_cases

if TYPE_CHECKING:
    from codehub.model.plan import Plan

RENDERINGS = [plan_text, plan_json, plan_markdown, plan_html]
ASLEEP = Status(phase=Phase.STANDBY)


@pytest.mark.parametrize(
    "case",
    [plan_cases.everything, plan_cases.sample, plan_cases.first, plan_cases.hostile],
)
def test_a_saved_plan_comes_back_whole(case: Any) -> None:
    plan = case()
    saved = read_plan(save_plan(plan, ref="main"))
    assert saved.plan == plan
    assert (saved.directory, saved.ref) == (Path(plan.directory), "main")


@pytest.mark.parametrize("render", RENDERINGS)
def test_a_saved_plan_renders_as_it_was(render: Any) -> None:
    plan = plan_cases.everything()
    assert render(read_plan(save_plan(plan)).plan) == render(plan)


@pytest.mark.parametrize("render", [*RENDERINGS, save_plan])
def test_no_secret_is_in_any_rendering(render: Any) -> None:
    text = render(plan_cases.everything())
    assert plan_cases.CANARY not in text
    assert "argon2id" not in text
    assert "LANG" in text


@pytest.mark.parametrize("render", RENDERINGS)
def test_values_of_env_are_shown_to_those_who_ask(render: Any) -> None:
    assert plan_cases.CANARY in render(plan_cases.everything(show_env=True))


def test_values_of_env_are_not_saved_even_for_those_who_ask() -> None:
    text = save_plan(plan_cases.everything(show_env=True))
    assert plan_cases.CANARY not in text
    assert read_plan(text).plan == plan_cases.everything()


def hub(*rows: Any, revision: int = 7, **fields: Any) -> HubState:
    fields.setdefault("hub_id", "h")
    applied = Revision(revision, "d0", Origin("specs"), NOW, "alice")
    return HubState(revision=applied, workspaces=rows, users={"alice": user()}, **fields)


def plan_for(stored: HubState, *declared: Any) -> Plan:
    incoming = spec_set(*declared, users=dict(stored.users))
    return make_plan(stored, incoming, now=NOW, options=PlanOptions())


def row(**fields: Any) -> Any:
    fields.setdefault("status", ASLEEP)
    return workspace(desired=DesiredState.STANDBY, **fields)


CHANGED = declaration(memo="new")


def test_a_plan_fits_while_nothing_has_changed() -> None:
    stored = hub(row())
    assert staleness(plan_for(stored, CHANGED), stored, "d1") == ()


@pytest.mark.parametrize(
    ("then", "digest", "why"),
    [
        (hub(row()), "d2", "the specs in specs have changed"),
        (hub(row(), hub_id="other"), "d1", "it was made against another hub"),
        (hub(row(), revision=8), "d1", "the hub is at revision 8, no longer at revision 7"),
        (
            hub(row(generation=2)),
            "d1",
            "api was generation 1, STANDBY, NONE, is now generation 2, STANDBY, NONE",
        ),
        (
            hub(row(status=Status(phase=Phase.RUNNING))),
            "d1",
            "api was generation 1, STANDBY, NONE, is now generation 1, RUNNING, NONE",
        ),
        (
            hub(row(status=replace(ASLEEP, operation=Operation.STARTING))),
            "d1",
            "api was generation 1, STANDBY, NONE, is now generation 1, STANDBY, STARTING",
        ),
        (hub(), "d1", "api was generation 1, STANDBY, NONE, is now gone"),
    ],
    ids=["specs", "hub", "revision", "generation", "phase", "operation", "gone"],
)
def test_a_stale_plan_says_what_changed(then: HubState, digest: str, why: str) -> None:
    plan = plan_for(hub(row()), CHANGED)
    assert staleness(plan, then, digest) == (why,)


def test_all_that_changed_is_said_at_once() -> None:
    then = hub(row(generation=2), revision=9)
    assert len(staleness(plan_for(hub(row()), CHANGED), then, "d2")) == 3


def test_what_the_plan_does_not_touch_may_move() -> None:
    asleep, awake = row(), row(status=Status(phase=Phase.RUNNING))
    plan = plan_for(hub(asleep), declaration())
    assert plan.summary.held == 1
    assert staleness(plan, hub(awake), "d1") == ()


def test_a_namesake_that_came_in_between_makes_a_creation_stale() -> None:
    plan = plan_for(hub(), declaration())
    (why,) = staleness(plan, hub(row()), "d1")
    assert why == "api was not there, is now generation 1, STANDBY, NONE"


def test_a_renamed_workspace_is_looked_for_under_its_old_name() -> None:
    stored = hub(row(name="old"))
    plan = plan_for(stored, declaration("new", renamed_from="old"))
    assert staleness(plan, stored, "d1") == ()


def test_a_deleted_workspace_may_wait_to_be_brought_back() -> None:
    gone = Status(phase=Phase.DELETED, deleted_at=NOW - timedelta(days=1), archive_key="k")
    stored = hub(workspace(desired=DesiredState.DELETED, status=gone))
    assert staleness(plan_for(stored, declaration()), stored, "d1") == ()


def damaged(**fields: Any) -> str:
    data = json.loads(save_plan(plan_cases.sample()))
    return json.dumps({**data, **fields})


def without(key: str) -> str:
    data = json.loads(save_plan(plan_cases.sample()))
    del data["plan"][key]
    return json.dumps(data)


def edited() -> str:
    data = json.loads(save_plan(plan_cases.everything()))
    data["plan"]["unsafe"] = []
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.json is not a saved plan"),
        ("apiVersion: codehub.dev/v1", "p.json is not a saved plan"),
        ("[]", "p.json is not a saved plan"),
        ("[" * 100_000, "p.json is not a saved plan"),
        ('{"kind": "Deployment"}', "p.json is not a saved plan"),
        (plan_json(plan_cases.sample()), "p.json is not a saved plan"),
        (damaged(formatVersion=2), "p.json was saved by a newer CodeHub (format 2, known is 1)"),
        (damaged(formatVersion="x"), "p.json is a saved plan of unknown format 'x'"),
        (damaged(plan=None), "p.json is a saved plan, but parts of it are missing or wrong"),
        (without("specs"), "p.json is a saved plan, but parts of it are missing or wrong"),
        (edited(), "p.json was changed after it was saved"),
    ],
)
def test_what_is_no_saved_plan_is_said_to_be_none(text: str, message: str) -> None:
    with pytest.raises(CodeHubError) as caught:
        read_plan(text, name="p.json")
    assert caught.value.message == message
    assert caught.value.hint


def test_a_file_is_read_and_a_missing_one_named(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(save_plan(plan_cases.hostile()), encoding="utf-8")
    assert read_plan_file(path).plan == plan_cases.hostile()
    with pytest.raises(CodeHubError, match=r"cannot read the plan .*none\.json: No such file"):
        read_plan_file(tmp_path / "none.json")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CodeHubError, match="it is not text"):
        read_plan_file(path)
