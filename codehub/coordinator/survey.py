"""The Surveyor: reads now and then what metrics tell of the hub as a whole.

It stands beside the others, so that what is only for looking at is in the way of nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.coordinator.pace import every
from codehub.store.figures import read_figures
from codehub.telemetry.instruments import (
    REVISION,
    REVISION_AGE,
    REVISION_PROBLEMS,
    RUNNING_LIMIT,
)

if TYPE_CHECKING:
    from codehub.config import Settings
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Failures


class Surveyor:
    """One small query in the time of a full pass, for as long as this process leads."""

    name = "survey"

    def __init__(self, lead: Lead, settings: Settings, failures: Failures) -> None:
        self._lead = lead
        self._interval = settings.coordinator_idle_interval
        self._limit = settings.limits_max_running_global
        self._failures = failures

    async def run(self) -> None:
        await every(self.name, self._interval, self.tick, self._failures)

    async def tick(self) -> None:
        async with self._lead.pool.connection() as conn:
            found = await read_figures(conn)
        limit = self._limit if found.running_limit is None else found.running_limit
        RUNNING_LIMIT.set(limit)
        REVISION_PROBLEMS.set(found.problems)
        if found.revision is not None and found.age is not None:
            REVISION.set(found.revision)
            REVISION_AGE.since(found.age)
