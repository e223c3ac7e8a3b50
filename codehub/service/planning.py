"""Plans for people: the specs on one side, the hub or an empty one on the other.

Called by `plan`, `apply` and `drift`; all that is decided is decided in `core`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.core.admit import refusals
from codehub.core.plan import make_plan
from codehub.errors import SpecsInvalid

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.plan import Plan, PlanOptions
    from codehub.model.revision import HubState, SpecSet


def plan_specs(stored: HubState, incoming: SpecSet, *, now: datetime, options: PlanOptions) -> Plan:
    """The plan, unless this hub cannot hold what the specs ask for: then all the reasons."""
    problems = refusals(stored, incoming, options.enabled)
    if problems:
        raise SpecsInvalid(problems)
    return make_plan(stored, incoming, now=now, options=options)
