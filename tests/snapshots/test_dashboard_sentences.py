"""What the dashboard's pages say of a workspace: it stays true while one looks, alarms only where
something is wrong, and speaks of buttons that are there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.present import actions
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.view import LABELS
from codehub.model.workspace import Activity, Intent, Ttl
from codehub.render.dashboard_admin import admin_page
from codehub.render.dashboard_home import row_fragment
from codehub.render.dashboard_workspace import workspace_page
from tests.make import NOW
from tests.snapshots import dashboard_cases as cases
from tests.snapshots.dashboard_cases import HOUR, MINUTE, PAGES, SECOND

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.workspace import Workspace


def stopped() -> Workspace:
    intent = Intent(DesiredState.STANDBY, IntentSource.API, NOW - 2 * HOUR, "bob")
    return cases.one("api", Phase.STANDBY, intent=intent)


def lowered() -> Workspace:
    """By idleness, without anybody ever having been seen in it; no visit wakes it."""
    intent = Intent(DesiredState.ARCHIVED, IntentSource.TTL, NOW - 9 * HOUR, "ttl")
    return cases.one("api", Phase.ARCHIVED, intent=intent, status={"archive_key": "a"})


def retried() -> Workspace:
    status = {
        "operation": Operation.STARTING,
        "op_started_at": NOW - 30 * SECOND,
        "error_reason": ErrorReason.ACTION_FAILED,
        "error_message": "no space",
        "error_count": 2,
        "retry_at": NOW + 5 * MINUTE,
    }
    wanted = Intent(DesiredState.RUNNING, IntentSource.VISIT, NOW - MINUTE, "bob")
    return cases.one("api", Phase.STANDBY, intent=wanted, status=status)


def in_use() -> Workspace:
    """The specs lower it, and somebody works in it."""
    lower = Intent(DesiredState.STANDBY, IntentSource.SPEC, NOW - MINUTE, "git")
    seen = Activity(NOW - 40 * SECOND, "input")
    return cases.one(
        "api", Phase.RUNNING, intent=lower, activity=seen, declared_state=DesiredState.STANDBY
    )


SITUATIONS = (
    *(cases.running, cases.restoring, cases.asleep, cases.failed, cases.waiting, cases.lost),
    *(stopped, lowered, retried, in_use),
)
TIME = re.compile(r"(<time[^>]*>)[^<]*")


def still(text: str) -> str:
    """As the script sees it, for which times are no change."""
    return TIME.sub(r"\1", re.sub(r' data-now="[^"]*"', "", text))


@pytest.mark.parametrize("make", SITUATIONS)
def test_while_nothing_happens_only_times_go_on(make: Any) -> None:
    def shown(now: datetime) -> str:
        shell = cases.moved(cases.ALICE, now=now)
        about = cases.about(make(), queued=cases.QUEUED, now=now)
        return workspace_page(about, shell).text + row_fragment(cases.row(make(), now), shell)

    before, after = shown(NOW), shown(NOW + 95 * SECOND)
    assert still(before) == still(after)
    assert TIME.findall(before)
    assert before != after


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (cases.running, "has been RUNNING for 2 h."),
        (cases.running, "Idleness lowers it in 2 h 56 min (2026-"),
        (cases.asleep, "now STANDBY: idle 5 h, ttl interactive.standby=3h; wakes on visit"),
        (stopped, "now STANDBY: stopped by bob 2 h ago; wakes on visit"),
        (lowered, "now ARCHIVED: lowered 9 h ago, ttl interactive.archive=24h; “Restore” brings"),
        (retried, "no space (failed 2 times so far); it is tried again in 5 min"),
        (retried, "STARTING is under way for 30 s"),
        (in_use, "waits for the people in it, at least 4 min more"),
    ],
)
def test_what_sentences_say_of_times_ticks(make: Any, said: str) -> None:
    text = workspace_page(cases.about(make()), cases.TODAY).text
    assert said in re.sub(r"<[^>]*>", "", text)


def test_a_change_that_was_seen_is_not_called_a_look() -> None:
    """Nobody writes down that nothing changed."""
    text = PAGES["workspace"]()
    assert "last change seen <time" in text
    assert "last looked" not in text


CALM = {
    ConditionName.VOLUME_READY: Condition(ConditionStatus.TRUE, "VolumeComplete"),
    ConditionName.ARCHIVE_READY: Condition(ConditionStatus.FALSE, "NoArchive"),
    ConditionName.CONTAINER_READY: Condition(ConditionStatus.FALSE, "NoContainer"),
    ConditionName.HEALTHY: Condition(ConditionStatus.TRUE, "InvariantsHold"),
}
LOST = Condition(ConditionStatus.FALSE, "DataLost")
GONE = Condition(ConditionStatus.FALSE, "VolumeMissing")


@pytest.mark.parametrize(
    ("phase", "conditions", "wrong"),
    [
        (Phase.STANDBY, {}, []),
        (Phase.STANDBY, {ConditionName.HEALTHY: LOST}, ["policy.healthy"]),
        (Phase.STANDBY, {ConditionName.VOLUME_READY: GONE}, ["storage.volume_ready"]),
        (Phase.RUNNING, {}, ["infra.container_ready"]),
        (
            Phase.ERROR,
            {ConditionName.VOLUME_READY: GONE, ConditionName.HEALTHY: LOST},
            ["storage.volume_ready", "policy.healthy"],
        ),
    ],
)
def test_only_what_is_wrong_alarms(
    phase: Phase, conditions: dict[ConditionName, Condition], wrong: list[str]
) -> None:
    each = cases.one("api", phase, status={"conditions": CALM | conditions})
    text = workspace_page(cases.about(each), cases.TODAY).text
    found = re.findall(r'<li class="(\w+)">.*?#i-(\w+)".*?<code>([\w.]+)</code>(.*)', text)
    assert [name for kind, *_, name, _ in found if kind == "bad"] == wrong
    assert [name for _, icon, name, _ in found if icon == "error"] == wrong
    assert [name for *_, name, more in found if ">wrong<" in more] == wrong
    assert ("false", "no", "storage.archive_ready") in [each[:3] for each in found]


OFFERED = re.compile("“([^”]*)”")


@pytest.mark.parametrize("make", SITUATIONS)
def test_sentences_speak_of_buttons_that_are_there(make: Any) -> None:
    each = make()
    text = workspace_page(cases.about(each, queued=cases.QUEUED), cases.TODAY).text
    there = {LABELS[action] for action in actions(each, NOW)}
    assert set(OFFERED.findall(text)) <= there
    assert not re.search(rf"codehub (re\w+|start|stop|logs|explain|touch) {each.name}", text)


def test_members_are_offered_no_token_that_would_be_refused() -> None:
    made = {shell: cases.tokens_page((), shell).text for shell in (cases.ALICE, cases.BOB)}
    assert ['name="plan"' in text for text in made.values()] == [True, False]


@pytest.mark.parametrize(
    ("ttl", "said"),
    [
        (Ttl(), "the hub&#39;s setting"),
        (Ttl(standby=60), "of its own"),
        (Ttl(policy="interactive", standby=60), "interactive"),
    ],
)
def test_whose_a_ttl_is(ttl: Ttl, said: str) -> None:
    text = workspace_page(cases.about(cases.one("api", Phase.STANDBY, ttl=ttl)), cases.TODAY).text
    assert f"<dt>Policy</dt><dd>{said}</dd>" in text


def test_names_stay_as_they_are_written() -> None:
    assert "<li>alice may run 2 at once" in PAGES["workspace-queued"]()
    assert "<p>alice may run 2 at once" in PAGES["limit"]()


def test_admins_read_what_a_revision_changed_and_what_is_on_its_way() -> None:
    given = cases.administration()
    applied = replace(given.revisions[1], summary={"create": 6, "update": 1, "held": 3})
    waiting = replace(given.webhooks[0], pending=1)
    text = admin_page(
        replace(given, revisions=[applied], webhooks=[waiting]), cases.moved(cases.ALICE)
    ).text
    assert ">6 created, 1 updated<" in text
    assert ">1 on its way<" in text
