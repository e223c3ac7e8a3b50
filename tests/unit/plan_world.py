"""A hub and its plan in one call, for the tests of what a plan says."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from codehub.core.plan import make_plan
from codehub.model.plan import PlanOptions
from codehub.model.revision import HubState, Origin, Revision
from codehub.model.states import DesiredState, Phase
from codehub.model.workspace import (
    Activity,
    Status,
)
from tests.make import NOW, spec_set, user

if TYPE_CHECKING:
    from codehub.model.plan import Change, Plan

RUNNING, STANDBY, ARCHIVED, DELETED = (
    DesiredState.RUNNING,
    DesiredState.STANDBY,
    DesiredState.ARCHIVED,
    DesiredState.DELETED,
)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
AWAKE = Status(phase=Phase.RUNNING, phase_changed_at=NOW - DAY, container_template="t1")
ASLEEP = Status(phase=Phase.STANDBY, phase_changed_at=NOW - HOUR)
BUSY = Activity(NOW - 2 * MINUTE, "input")
REVISION = Revision(7, "d0", Origin("specs"), NOW, "alice")


def hub(*rows: Any, **fields: Any) -> HubState:
    fields.setdefault("users", {"alice": user()})
    return HubState(hub_id="h", revision=REVISION, workspaces=rows, **fields)


def plan_of(stored: HubState, *declared: Any, specs: Any = None, **options: Any) -> Plan:
    fields = {"users": dict(stored.users), "hub": stored.hub, **(specs or {})}
    incoming = spec_set(*declared, **fields)
    return make_plan(stored, incoming, now=NOW, options=PlanOptions(**options))


def only(stored: HubState, *declared: Any, **options: Any) -> Change:
    (change,) = plan_of(stored, *declared, **options).changes
    return change
