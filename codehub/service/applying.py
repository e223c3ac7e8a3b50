"""Loading specs into the hub: all of a directory or nothing, and only what was shown.

Called by `codehub apply`. Between the plan a person read and the moment of writing the hub may have
moved, so everything is read and decided once more under the loader's lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.core.admit import admit
from codehub.errors import PlanStale, PlanUnsafe
from codehub.service.planning import plan_specs
from codehub.service.saved import staleness
from codehub.store.declare import loader_lock, write_spec_set
from codehub.store.hubs import read_hub_state

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.plan import Plan, PlanOptions
    from codehub.model.revision import Revision, SpecSet


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be loaded, and on whose word."""

    incoming: SpecSet
    author: str
    options: PlanOptions
    force: bool = False
    wait_seconds: int = 30


async def apply_specs(
    conn: AsyncConnection[DictRow], order: Order, *, shown: Plan, now: datetime
) -> Revision | None:
    """Write the revision that `shown` announced; None where there was nothing to write."""
    async with loader_lock(conn, author=order.author, wait_seconds=order.wait_seconds):
        stored = await read_hub_state(conn)
        changes = staleness(shown, stored, order.incoming.digest)
        if changes:
            raise PlanStale(changes)
        plan = plan_specs(stored, order.incoming, now=now, options=order.options)
        if plan.unsafe and not order.force:
            raise PlanUnsafe(plan.unsafe)
        return await write_spec_set(
            conn,
            order.incoming,
            admit(stored, order.incoming),
            author=order.author,
            source="cli",
            immediately=order.options.now,
        )
