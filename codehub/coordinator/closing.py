"""Putting everything to sleep when a hub is shut down on purpose.

A workspace whose container just vanished would count as crashed at the next start. So the leader
claims a stop for each, as it does for any other, and what was desired stays desired: the next
`codehub up` starts them again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from codehub.coordinator.case import archive_fact, consider
from codehub.coordinator.observe import observe
from codehub.core.audit import audit
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

WHY = "the hub shuts down"


async def put_to_sleep(lead: Lead, world: World, *, at_once: int = 8) -> int:
    """Stop every workspace that runs, and note that it was us; returns how many there were.

    One that cannot be stopped keeps no other awake; why it cannot is raised at the end.
    """
    running = await _running(lead, world)
    for case in running:
        if case.seen.status.operation is Operation.NONE:
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
    return len(running)


def _claim(case: Case) -> Claim:
    return Claim(Operation.STOPPING, case.seen.status.phase, WHY)


async def _running(lead: Lead, world: World) -> Sequence[Case]:
    return [
        each
        for each in await _cases(lead, world)
        if each.things.container is not None and each.seen.status.phase is not Phase.ERROR
    ]


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
