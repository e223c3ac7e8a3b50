"""Which workspaces fall asleep until a given time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from codehub.core.plan import make_plan
from codehub.errors import UsageError
from codehub.model.plan import PlanOptions
from codehub.model.revision import HubState
from codehub.model.states import DesiredState, Operation, Phase
from codehub.model.workspace import NEVER, Activity, Intent, Override, Status, Ttl
from tests.make import NOW, declaration, spec_set, workspace

HOUR = timedelta(hours=1)
RUNNING, STANDBY = DesiredState.RUNNING, DesiredState.STANDBY
TTL = Ttl(standby=3600, archive=7200, policy="short")


def falls(row: Any, until: datetime = NOW + 10 * HOUR, **specs: Any) -> list[tuple[Any, str, str]]:
    plan = make_plan(
        HubState(workspaces=(row,)),
        spec_set(declaration(**{"ttl": TTL, **specs})),
        now=NOW,
        options=PlanOptions(as_of=until),
    )
    return [((each.at - NOW) / HOUR, each.old, each.new) for each in plan.forecast]


def awake(*, accessed: datetime | None = NOW, **fields: Any) -> Any:
    fields.setdefault("status", Status(phase=Phase.RUNNING, phase_changed_at=NOW - 5 * HOUR))
    fields.setdefault("ttl", TTL)
    return workspace(activity=Activity(accessed), **fields)


def asleep(since: datetime = NOW - HOUR, **fields: Any) -> Any:
    status = Status(phase=Phase.STANDBY, phase_changed_at=since)
    return workspace(desired=STANDBY, status=status, ttl=TTL, **fields)


def test_it_falls_asleep_and_then_into_the_archive() -> None:
    assert falls(awake()) == [(1.0, "RUNNING", "STANDBY"), (3.0, "STANDBY", "ARCHIVED")]


def test_only_what_falls_until_then_is_told() -> None:
    assert falls(awake(), NOW + 2 * HOUR) == [(1.0, "RUNNING", "STANDBY")]
    assert falls(awake(), NOW + HOUR / 2) == []


def test_idleness_counts_from_the_later_of_access_and_start() -> None:
    fresh = Status(phase=Phase.RUNNING, phase_changed_at=NOW - HOUR / 2)
    assert falls(awake(accessed=NOW - 9 * HOUR, status=fresh))[0][0] == 0.5
    assert falls(awake(accessed=None, status=fresh))[0][0] == 0.5


def test_what_is_overdue_falls_now() -> None:
    assert falls(awake(accessed=NOW - 9 * HOUR))[0] == (0.0, "RUNNING", "STANDBY")


def test_the_archive_counts_from_falling_asleep() -> None:
    assert falls(asleep()) == [(1.0, "STANDBY", "ARCHIVED")]


@pytest.mark.parametrize(
    "row",
    [
        awake(status=Status(phase=Phase.RUNNING, operation=Operation.STOPPING)),
        awake(desired=STANDBY),
        awake(intent=Intent(RUNNING, override=Override(STANDBY, NOW + HOUR, "x"))),
        workspace(status=Status(phase=Phase.STANDBY, phase_changed_at=NOW), ttl=TTL),
        workspace(status=Status(phase=Phase.ERROR), ttl=TTL),
    ],
    ids=["operation", "lowered", "overridden", "waking", "error"],
)
def test_only_what_rests_where_it_is_desired_falls(row: Any) -> None:
    assert falls(row) == []


@pytest.mark.parametrize("field", ["pinned", "suspend"])
def test_pinned_and_suspended_ones_stay(field: str) -> None:
    kept: dict[str, Any] = {field: True}
    assert falls(awake(**kept), **kept) == []


def test_never_is_never() -> None:
    ttl = Ttl(standby=NEVER, archive=60)
    assert falls(awake(ttl=ttl), ttl=ttl) == []
    ttl = Ttl(standby=60, archive=NEVER)
    assert [each[2] for each in falls(awake(ttl=ttl), ttl=ttl)] == ["STANDBY"]


def test_the_new_ttl_counts_not_the_old_one() -> None:
    assert falls(awake(), ttl=Ttl(standby=1800, archive=NEVER))[0][0] == 0.5


def test_without_a_ttl_the_settings_count() -> None:
    row = awake(ttl=Ttl())
    plan = make_plan(
        HubState(workspaces=(row,)),
        spec_set(declaration()),
        now=NOW,
        options=PlanOptions(as_of=NOW + HOUR, standby_ttl=900, archive_ttl=NEVER),
    )
    (fall,) = plan.forecast
    assert fall.at == NOW + timedelta(minutes=15)
    assert fall.reason == "ttl standby=15m (the hub's setting)"


def test_what_is_deleted_or_not_asked_for_is_not_told() -> None:
    stored = HubState(workspaces=(awake(),))
    options = PlanOptions(as_of=NOW + 10 * HOUR)
    assert make_plan(stored, spec_set(), now=NOW, options=options).forecast == ()
    plain = make_plan(stored, spec_set(declaration(ttl=TTL)), now=NOW, options=PlanOptions())
    assert plain.forecast == ()


def test_the_order_is_that_of_time() -> None:
    rows = (
        workspace("late", number=1, status=Status(Phase.RUNNING, NOW), ttl=Ttl(7200, NEVER)),
        workspace("soon", number=2, status=Status(Phase.RUNNING, NOW), ttl=Ttl(3600, NEVER)),
    )
    incoming = spec_set(*(row.declaration for row in rows))
    options = PlanOptions(as_of=NOW + 10 * HOUR)
    plan = make_plan(HubState(workspaces=rows), incoming, now=NOW, options=options)
    assert [each.name for each in plan.forecast] == ["soon", "late"]
    assert plan.forecast[0].reason == "ttl standby=1h"


def test_the_past_cannot_be_forecast() -> None:
    with pytest.raises(UsageError, match="lies in the past"):
        make_plan(HubState(), spec_set(), now=NOW, options=PlanOptions(as_of=NOW - HOUR))
