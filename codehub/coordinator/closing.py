"""Putting everything to sleep when a hub is shut down on purpose.

A workspace whose container just vanished would count as crashed at the next start. So the leader
claims a stop for each, as it does for any other, and what was desired stays desired: the next
`codehub up` starts them again. What is in ERROR is stopped as well and stays in ERROR; only where a
container may be all that is left of a home, it is left alone and named.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from codehub.coordinator.case import KEEP_ALL, archive_fact, consider
from codehub.coordinator.observe import observe
from codehub.core.advise import advise
from codehub.core.audit import audit
from codehub.errors import Unreachable
from codehub.model.conditions import Presence
from codehub.model.decision import Claim
from codehub.model.states import Operation, Phase
from codehub.store.clock import read_now
from codehub.store.status import Write, save
from codehub.store.workspaces import read_workspaces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.coordinator.case import Case
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.lookout import World
    from codehub.model.workspace import Workspace

log: Final = logging.getLogger("codehub.coordinator")

WHY = "the hub shuts down"


async def put_to_sleep(lead: Lead, world: World, *, at_once: int = 8) -> int:
    """Stop every workspace that runs, and note that it was us; returns how many there were.

    One that cannot be stopped keeps no other awake; why it cannot is raised at the end. Unknown is
    not stopped: one that ran where nobody answers now counts among them.
    """
    cases = await _cases(lead, world)
    running = [each for each in cases if _runs(each)]
    for case in running:
        if _may_claim(case):
            await _store(lead, world, replace(case, decision=_claim(case)))
    room = asyncio.Semaphore(at_once)
    stops = (_stop(lead, world, case, room) for case in running)
    ends = await asyncio.gather(*stops, return_exceptions=True)
    for case in await _cases(lead, world):
        if case.seen.status.operation is Operation.STOPPING:
            await _store(lead, world, case)
    for failure in ends:
        if failure is not None:
            raise failure
    for case in cases:
        if case.things.unknown is not None and case.seen.status.phase is Phase.RUNNING:
            raise Unreachable(f"{case.seen.name} may still run: {case.things.unknown}")
        if _is_kept(case):
            _name(case)
    return len(running)


def _claim(case: Case) -> Claim:
    return Claim(Operation.STOPPING, case.seen.status.phase, WHY)


def _may_claim(case: Case) -> bool:
    status = case.seen.status
    return status.operation is Operation.NONE and status.phase is not Phase.ERROR


def _runs(case: Case) -> bool:
    return case.things.container is not None and not _is_kept(case)


def _is_kept(case: Case) -> bool:
    """Whether its container may hold what nothing else holds: a stop would remove it."""
    status = case.seen.status
    lost = status.phase is Phase.ERROR and status.error_reason in KEEP_ALL
    return lost and case.things.container is not None


def _name(case: Case) -> None:
    reason = case.seen.status.error_reason
    log.warning(
        "%s is not stopped: it is in ERROR (%s), and what runs of it may be all that is left; %s",
        case.seen.name,
        reason,
        advise(case.seen),
    )


async def _cases(lead: Lead, world: World) -> Sequence[Case]:
    seen = await observe(world.runtimes)
    async with lead.pool.connection() as conn:
        now = await read_now(conn)
        rows = await read_workspaces(conn)
    return [consider(each, seen.of(each), _archive(each), None, now, world.rules) for each in rows]


def _archive(workspace: Workspace) -> Presence:
    """As it was last known: nobody asks the store to stop something."""
    return archive_fact(workspace, {}) or Presence.UNKNOWN


async def _stop(lead: Lead, world: World, case: Case, room: asyncio.Semaphore) -> None:
    async with room:
        await lead.confirm()
        runtime = world.runtimes[case.seen.declaration.runtime]
        await runtime.stop(case.seen.id, world.rules.stop_grace)


async def _store(lead: Lead, world: World, case: Case) -> None:
    async with lead.pool.connection() as conn:
        status = case.status(await read_now(conn), uuid4())
        if status is not case.seen.status:
            events = audit(case.seen.status, status, case.why)
            await save(conn, lead.fence, Write(case.seen, status, events), world.idleness)
