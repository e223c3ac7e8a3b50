"""Plans: the specs on one side, the hub or an empty one on the other.

Called by `plan`, `apply`, `rollback` and the watcher; all that is decided is decided in `core`.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from codehub.core.admit import refusals
from codehub.core.plan import make_plan
from codehub.errors import SpecsInvalid, UsageError
from codehub.model.plan import PlanOptions
from codehub.model.scalars import parse_duration
from codehub.service.rules import drain_of

if TYPE_CHECKING:
    from codehub.config import Settings
    from codehub.model.plan import Plan
    from codehub.model.revision import HubState, SpecSet
    from codehub.model.workspace import Runtime

_AHEAD: Final = re.compile(r"\+(\d+[smhd])")


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


def moment(text: str, now: datetime, name: str = "--as-of") -> datetime:
    """`+8h` from now, or a time such as 2026-12-01T08:00+01:00; one without a zone is UTC.

    `name` is what the asker calls it.
    """
    ahead = _AHEAD.fullmatch(text)
    try:
        if ahead:
            then = now + timedelta(seconds=parse_duration(ahead[1]))
        else:
            then = datetime.fromisoformat(text)
            then = then if then.tzinfo else then.replace(tzinfo=now.tzinfo)
    except (ValueError, OverflowError):
        raise UsageError(
            f'{name} cannot read "{text}"', hint="examples: +8h, +3d, 2026-12-01T08:00Z"
        ) from None
    if then <= now:
        raise UsageError(f"{name} must lie ahead", hint="examples: +8h, +3d")
    return then
