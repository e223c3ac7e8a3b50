"""Explaining one workspace: read what surrounds it, and ask the pure core what that means."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from codehub.core.explain import explain
from codehub.core.suggest import did_you_mean
from codehub.errors import NotFound
from codehub.model.explanation import Customs
from codehub.service.limits import DEFAULTS
from codehub.service.planning import plan_options
from codehub.service.rules import rules_of
from codehub.store.circumstances import read_circumstances
from codehub.store.workspaces import read_names

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.config import Settings
    from codehub.model.explanation import Explanation
    from codehub.service.limits import LimitDefaults


async def explain_workspace(
    conn: AsyncConnection[DictRow],
    name: str,
    customs: Customs | None = None,
    limits: LimitDefaults = DEFAULTS,
) -> Explanation:
    """All there is to say of this workspace, deleted ones included; NotFound if none ever was."""
    found = await read_circumstances(
        conn,
        name,
        per_user=limits.max_running_per_user,
        everybody=limits.max_running_global,
    )
    if found is None:
        raise await unknown_workspace(conn, name)
    workspace, around = found
    return explain(workspace, around, customs or Customs())


def customs_of(settings: Settings) -> Customs:
    """The settings that an explanation depends on."""
    looks = 2 * settings.coordinator_ttl_interval + settings.activity_flush_interval
    return Customs(
        options=plan_options(settings, frozenset()),
        rules=rules_of(settings),
        remind=timedelta(seconds=settings.ttl_reminder_seconds),
        # Two looks that failed, and what one look itself may take.
        stale=timedelta(seconds=looks),
    )


async def unknown_workspace(conn: AsyncConnection[DictRow], name: str) -> NotFound:
    """What to tell somebody who names a workspace that never was."""
    suggestion = did_you_mean(name, await read_names(conn))
    return NotFound(
        f'there is no workspace "{name}"{suggestion}',
        hint="'codehub status' lists the workspaces there are",
    )
