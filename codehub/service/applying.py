"""Loading specs into the hub: all of a directory or nothing, and only what was shown.

Called by `codehub apply` and `codehub rollback`. Between the plan a person read and the moment of
writing the hub may have moved, so everything is read and decided once more under the loader's lock.
The watcher shows its plan to nobody and calls `write_order` alone.
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
    from codehub.model.revision import HubState, Revision, SpecSet


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be loaded, on whose word, and through what (cli, rollback, watch)."""

    incoming: SpecSet
    author: str
    options: PlanOptions
    force: bool = False
    wait_seconds: int = 30
    source: str = "cli"


async def apply_specs(
    conn: AsyncConnection[DictRow], order: Order, *, shown: Plan, now: datetime
) -> Revision | None:
    """Write the revision that `shown` announced; None where there was nothing to write."""
    async with loader_lock(conn, author=order.author, wait_seconds=order.wait_seconds):
        stored = await read_hub_state(conn)
        changes = staleness(shown, stored, order.incoming.digest)
        if changes:
            raise PlanStale(changes)
        return await write_order(conn, order, stored, now=now)


async def write_order(
    conn: AsyncConnection[DictRow], order: Order, stored: HubState, *, now: datetime
) -> Revision | None:
    """Write a revision to the hub as `stored`, which was read under the loader's lock.

    None where there was nothing to write. SpecsInvalid and PlanUnsafe are raised before any write.
    """
    plan = plan_specs(stored, order.incoming, now=now, options=order.options)
    if plan.unsafe and not order.force:
        raise PlanUnsafe(plan.unsafe)
    return await write_spec_set(
        conn,
        order.incoming,
        admit(stored, order.incoming),
        author=order.author,
        source=order.source,
        immediately=order.options.now,
    )
