"""The controller: observe → judge → decide → persist → act, for all workspaces at once.

`lookout.py` looks, and this sees to what it found. Each workspace is dealt with on its own: one
that is poisoned delays no other. Everything is decided by pure functions; what is stored rests on
the row as it was read, or nothing is stored.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from codehub.coordinator.case import (
    is_leftover,
    needs_tidying,
    without_room,
)
from codehub.coordinator.figures import Figures
from codehub.coordinator.hand_out import hand_out
from codehub.coordinator.lookout import NAME, Lookout
from codehub.coordinator.pace import attempt
from codehub.coordinator.rhythm import Look
from codehub.coordinator.steps import Job
from codehub.core.audit import audit
from codehub.model.decision import Claim, Continue, Retry
from codehub.model.states import Operation
from codehub.store.places import read_places
from codehub.store.status import Write, save
from codehub.telemetry.logs import bound

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )

    from codehub.coordinator.acts import Acts
    from codehub.coordinator.case import Case
    from codehub.coordinator.hints import Hints
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.lookout import World
    from codehub.coordinator.pace import Failures
    from codehub.coordinator.rhythm import Rhythm
    from codehub.model.workspace import Workspace
    from codehub.store.places import Place

QUEUE_AT_ONCE: Final = 50
"""How many of those that wait for a free hand are looked at in a quick pass."""
HANDING: Final = 0.25
"""Seconds after a look, at least, in which free hands are given to those that wait for one."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class WorkspaceController:
    """One term's controller."""

    name = NAME

    def __init__(
        self,
        lead: Lead,
        world: World,
        acts: Acts,
        hints: Hints,
        rhythm: Rhythm,
        failures: Failures,
        *,
        on_pass: Callable[[], None] = lambda: None,
    ) -> None:
        self._lead = lead
        self._world = world
        self._acts = acts
        self._hints = hints
        self._rhythm = rhythm
        self._failures = failures
        self._on_pass = on_pass
        self._queue: dict[UUID, None] = {}
        self._figures = Figures()
        self._lookout = Lookout(lead, world, acts, failures, self._figures)
        self._paused = False
        self._looked_at = 0.0

    def pause(self) -> None:
        """Look no more: the hub is being shut down."""
        self._paused = True

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while not self._paused:
                hinted = self._hints.take()
                look = self._rhythm.choose(hinted, clock())
                if look is not None:
                    began = clock()
                    tick = partial(self.tick, look, hinted.ids)
                    # What a failed pass was hinted at is found by the next one over all.
                    done = await attempt(self.name, tick, self._failures)
                    # What follows from a look is acting: the rest is as long as the look was.
                    ended = self._looked_at if self._looked_at > began else clock()
                    self._rhythm.looked(look, began, ended, busy=not done or self._acts.busy)
                await asyncio.sleep(self._rhythm.spacing(clock()))
                await self._hints.wait(self._rhythm.pause(clock()))
            await asyncio.Event().wait()  # to end would end the term
        finally:
            await self._acts.close()
            await self._world.archives.close()

    async def tick(self, look: Look = Look.FULL, ids: Iterable[UUID] = ()) -> None:
        """One pass: look at the world, then at the rows, then see to each."""
        clock = asyncio.get_running_loop().time
        began = clock()
        wanted = {*ids, *list(self._queue)[:QUEUE_AT_ONCE]}
        cases, now = await self._lookout.look(look, wanted)
        self._looked_at = clock()
        held = 0
        if not self._paused:
            held = await self._see_to(cases, now, patience=max(self._looked_at - began, HANDING))
        self._lookout.seen_to()
        self._figures.passed(look, clock() - began, queued=len(self._queue), held=held)
        self._on_pass()

    async def _see_to(self, cases: Sequence[Case], now: datetime, *, patience: float = 0.0) -> int:
        """First what is under way, which frees hands; then what waits to begin, in its order.

        Where there are more than hands, it stays for some seconds to give out those that get free.
        Gives the number of those that a limit keeps from beginning.
        """
        claims = [each for each in cases if isinstance(each.decision, Claim)]
        for case in cases:
            if not isinstance(case.decision, Claim):
                await self._each(case, partial(self._carry_on, case, now))
        places = await self._places(claims)
        fitting = [each for each in claims if self._fits(each, places)]

        async def begin(case: Case) -> None:
            await self._each(case, partial(self._claim, case, now))

        in_order = sorted(fitting, key=_order_of_asking)
        left = await hand_out(in_order, self._acts, begin, patience)
        self._queue.update(dict.fromkeys(each.seen.id for each in left))
        return len(claims) - len(fitting)

    async def _each(self, case: Case, step: Callable[[], Awaitable[object]]) -> None:
        workspace, status = case.seen, case.seen.status
        at_rest = status.operation is Operation.NONE
        with bound(
            workspace=workspace.name,
            operation=case.decision_operation if at_rest else status.operation,
            op_id=status.op_id,
            revision=workspace.spec_revision,
        ):
            await attempt(f"{self.name} ({workspace.name})", step, self._failures)

    async def _carry_on(self, case: Case, now: datetime) -> None:
        workspace = case.seen
        wanted = isinstance(case.decision, Continue) and not self._is_known(workspace)
        if wanted and not self._acts.has_room(workspace.status.operation):
            case, wanted = without_room(case), False
        if case.unheard:
            case = case.told(await self._acts.hear(workspace))
        after = await self._store(case, now)
        if after is None:
            return
        if after.status.operation is Operation.NONE:
            self._queue.pop(workspace.id, None)
            await self._acts.give_up(workspace.id, None)
        if after.status.op_id != workspace.status.op_id or isinstance(case.decision, Retry):
            self._acts.forget(workspace.id)
        if wanted:
            self._acts.begin(Job(after, case.things, now, again=True))
        else:
            self._tidy(after, case, now)

    def _is_known(self, workspace: Workspace) -> bool:
        """Whether its act is under way, or has ended since we looked: that is for the next pass."""
        ended = self._acts.outcome(workspace.id, workspace.status.op_id)
        return ended is not None or self._acts.is_running(workspace.id)

    def _fits(self, case: Case, places: Mapping[UUID, Place] | None) -> bool:
        """Whether no limit is in its way; one that it is in the way of waits for no hand."""
        if case.decision_operation is not Operation.STARTING or places is None:
            return True
        place = places.get(case.seen.id)
        if place is not None and place.fits:
            return True
        self._queue.pop(case.seen.id, None)
        return False

    async def _claim(self, case: Case, now: datetime) -> None:
        """Begin an operation: there is a hand free for it, and no limit in the way."""
        workspace = case.seen
        if self._paused:
            return
        if self._acts.is_running(workspace.id):
            self._queue.setdefault(workspace.id)
            return
        self._queue.pop(workspace.id, None)
        after = await self._store(case, now)
        if after is not None and after.status.op_id != workspace.status.op_id:
            self._acts.begin(Job(after, case.things, now))

    async def _store(self, case: Case, now: datetime) -> Workspace | None:
        """Store what changed; None when it rests on something that has changed since."""
        status = case.status(now, uuid4())
        if status is case.seen.status:
            return case.seen
        events = audit(case.seen.status, status, case.why)
        write = Write(case.seen, status, events, answered=case.answers)
        async with self._lead.pool.connection() as conn:
            saved = await save(conn, self._lead.fence, write, self._world.idleness)
        if not saved:
            return None
        self._figures.stored(case.seen, status, case.decision, now)
        return replace(case.seen, status=status)

    def _tidy(self, workspace: Workspace, case: Case, now: datetime) -> None:
        leftover = is_leftover(workspace, case.things)
        if not leftover and not needs_tidying(workspace, case.things):
            return
        self._lookout.rested.forget(workspace.id)
        if self._acts.has_room(Operation.NONE):
            self._acts.tidy(Job(workspace, case.things, now), leftover=leftover)

    async def _places(self, claims: Sequence[Case]) -> Mapping[UUID, Place] | None:
        starting = [
            each.seen.id for each in claims if each.decision_operation is Operation.STARTING
        ]
        if not starting:
            return None
        limits = self._world.limits
        async with self._lead.pool.connection() as conn:
            return await read_places(
                conn,
                starting,
                per_user=limits.max_running_per_user,
                everybody=limits.max_running_global,
            )


def _order_of_asking(case: Case) -> tuple[datetime, UUID]:
    return (case.seen.intent.at or _LONG_AGO, case.seen.id)
