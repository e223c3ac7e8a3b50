"""Plans: the specs on one side, the hub or an empty one on the other.

Called by `plan`, `apply`, `rollback` and the watcher; all that is decided is decided in `core`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from codehub.core.admit import refusals
from codehub.core.plan import make_plan
from codehub.errors import SpecsInvalid
from codehub.model.plan import PlanOptions
from codehub.service.rules import drain_of

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.config import Settings
    from codehub.model.plan import Plan
    from codehub.model.revision import HubState, SpecSet
    from codehub.model.workspace import Runtime


def plan_options(settings: Settings, enabled: frozenset[Runtime]) -> PlanOptions:
    """What every plan on this hub depends on, before anybody asks for anything special."""
    drain = drain_of(settings)
    return PlanOptions(
        enabled=enabled,
        standby_ttl=settings.ttl_standby_seconds,
        archive_ttl=settings.ttl_archive_seconds,
        retention=timedelta(seconds=settings.retention_seconds),
        drain_idle=drain.idle,
        drain_limit=drain.limit,
    )


def plan_specs(stored: HubState, incoming: SpecSet, *, now: datetime, options: PlanOptions) -> Plan:
    """The plan, unless this hub cannot hold what the specs ask for: then all the reasons."""
    problems = refusals(stored, incoming, options.enabled)
    if problems:
        raise SpecsInvalid(problems)
    return make_plan(stored, incoming, now=now, options=options)
