"""Collecting archives as the leader does it and as commands see it: what both have in common.

The order of looking is part of the safety. First the store's mark, then its objects, then the
database: an archive that was committed in between is not in the listing, and a mark can only be
older than the database's count. The leader alone acts (`coordinator/gc.py`); a command asks it, or
shows what it would do.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from codehub.core.collect import expire, find_obstacle, purgeable, sort_objects, weigh
from codehub.core.keys import hub_prefix
from codehub.errors import CodeHubError, Refused, Unreachable
from codehub.model.collection import Collected, Survey
from codehub.service.threads import Threads
from codehub.store.advisory import somebody_leads
from codehub.store.gc import read_ledger
from codehub.store.requests import ask, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.config import Settings
    from codehub.model.collection import Inventory, Marker
    from codehub.ports import ObjectStore

KIND: Final = "gc"
CONFIRM: Final = "confirm_restored"
PATIENCE: Final = 300.0
"""Seconds that one call to the store may take."""
_THREADS: Final = Threads("codehub-store", 4)
"""For these calls alone: a store that hangs holds them, and neither others nor the end."""

Answer = TypeVar("Answer")


async def call_store(call: Callable[..., Answer], *arguments: object) -> Answer:
    """A blocking call in a thread. One that does not come back is given up, and counts as silence.

    What it does later does no harm: keys are written once, and only orphans are deleted.
    """
    try:
        async with asyncio.timeout(PATIENCE):
            return await _THREADS.call(partial(call, *arguments))
    except TimeoutError:
        raise Unreachable(f"the archive store gave no answer within {PATIENCE:.0f} s") from None


async def take_inventory(store: ObjectStore, hub_id: UUID) -> Inventory:
    """All objects of this hub, and of no other: complete, or an error."""
    return await call_store(lambda: sort_objects(hub_id, store.list(hub_prefix(hub_id))))


async def survey(
    conn: AsyncConnection[DictRow],
    store: ObjectStore,
    hub_id: UUID,
    marker: Marker | None,
    settings: Settings,
) -> Survey:
    """What a collection would do now; nothing is changed. `marker` was read before."""
    inventory = await take_inventory(store, hub_id)
    ledger = await read_ledger(conn, {each.workspace_id for each in inventory.archives})
    retention = timedelta(seconds=settings.retention_seconds)
    purging = tuple(sorted(each.name for each in purgeable(ledger, retention)))
    patience = timedelta(seconds=settings.gc_orphan_seconds)
    obstacle = find_obstacle(marker, ledger, weigh(inventory, ledger, patience))
    verdicts = weigh(inventory, expire(ledger, retention), patience)
    return Survey(hub_id, ledger.now, verdicts, inventory.others, purging, obstacle)


async def ask_to_collect(
    conn: AsyncConnection[DictRow], *, by: str, seconds: float, confirm: bool = False
) -> Collected:
    """Ask the leader for a collection and wait for what it did."""
    if not await somebody_leads(conn):
        raise Refused(
            "no coordinator leads this hub, and nobody else collects archives",
            hint="start 'codehub up' or 'codehub serve coordinator'",
        )
    number = await ask(conn, KIND, {CONFIRM: confirm}, by)
    answer = await wait_for(conn, number, seconds)
    if answer is None:
        raise CodeHubError(
            f"the collection has not ended within {seconds:g} s; the coordinator goes on with it",
            hint="wait longer with --timeout, or see what is left with 'codehub gc --dry-run'",
        )
    return read_answer(answer)


def write_answer(outcome: Collected | Exception) -> dict[str, Any]:
    """What the leader answers, as JSON has it. Of a fault only its kind is told."""
    if isinstance(outcome, Collected):
        return {"collected": asdict(outcome)}
    if isinstance(outcome, CodeHubError):
        return {"error": outcome.message, "hint": outcome.hint}
    return {
        "error": f"the collection failed ({type(outcome).__name__})",
        "hint": "the coordinator's log tells more",
    }


def read_answer(answer: Mapping[str, Any]) -> Collected:
    """What `write_answer` wrote; an error is raised here as it was there."""
    if "collected" not in answer:
        message = str(answer.get("error") or "the coordinator answered nothing of use")
        raise Refused(message, hint=answer.get("hint"))
    read = dict(answer["collected"])
    return Collected(**{**read, "purged": tuple(read["purged"])})
