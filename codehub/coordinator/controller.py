"""The controller: observe → judge → decide → persist → act, for all workspaces at once.

Listings are taken before rows are read, so facts are never newer than what they are compared
with. Each workspace is dealt with on its own: one that is poisoned delays no other. Everything is
decided by pure functions; what is stored rests on the row as it was read, or nothing is stored.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from codehub.coordinator.case import (
    archive_fact,
    consider,
    is_leftover,
    needs_tidying,
    without_room,
)
from codehub.coordinator.observe import observe
from codehub.coordinator.pace import attempt
from codehub.coordinator.rested import Rested
from codehub.coordinator.rhythm import Look
from codehub.coordinator.steps import Job
from codehub.core.audit import audit
from codehub.model.decision import Claim, Continue, Nothing, Wait
from codehub.model.states import Operation
from codehub.store.clock import read_now
from codehub.store.places import read_places
from codehub.store.status import Write, read_active, save
from codehub.store.workspaces import read_versions, stream_workspaces

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.coordinator.acts import Acts
    from codehub.coordinator.archives import Archives
    from codehub.coordinator.case import Case
    from codehub.coordinator.hints import Hints
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Failures
    from codehub.coordinator.rhythm import Rhythm
    from codehub.coordinator.seen import Seen
    from codehub.model.conditions import Presence
    from codehub.model.decision import Rules
    from codehub.model.workspace import Runtime as RuntimeName
    from codehub.model.workspace import Workspace
    from codehub.ports import Runtime
    from codehub.service.limits import LimitDefaults
    from codehub.store.places import Place
    from codehub.store.status import Idleness

QUEUE_AT_ONCE: Final = 50
"""How many of those that wait for a free hand are looked at in a quick pass."""
NO_ID: Final = UUID(int=0)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class World:
    """What the controller looks at, and the rules it keeps to."""

    runtimes: Mapping[RuntimeName, Runtime]
    archives: Archives
    rules: Rules
    limits: LimitDefaults
    idleness: Idleness


class WorkspaceController:
    """One term's controller."""

    name = "controller"

    def __init__(
        self, lead: Lead, world: World, acts: Acts, hints: Hints, rhythm: Rhythm, failures: Failures
    ) -> None:
        self._lead = lead
        self._world = world
        self._acts = acts
        self._hints = hints
        self._rhythm = rhythm
        self._failures = failures
        self._queue: dict[UUID, None] = {}
        self._rested = Rested()
        self._first = True
        self._paused = False

    def pause(self) -> None:
        """Look no more: the hub is being shut down."""
        self._paused = True

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while True:
                hinted = self._hints.take()
                look = self._rhythm.choose(hinted, clock())
                if look is not None and not self._paused:
                    began = clock()
                    tick = partial(self.tick, look, hinted.ids)
                    # What a failed pass was hinted at is found by the next one over all.
                    done = await attempt(self.name, tick, self._failures)
                    self._rhythm.looked(look, began, clock(), busy=not done or self._acts.busy)
                await asyncio.sleep(self._rhythm.spacing(clock()))
                await self._hints.wait(self._rhythm.pause(clock()))
        finally:
            await self._acts.close()
            await self._world.archives.close()

    async def tick(self, look: Look = Look.FULL, ids: Iterable[UUID] = ()) -> None:
        """One pass: look at the world, then at the rows, then see to each."""
        ended = self._acts.ended
        seen = await observe(self._world.runtimes)
        async with self._lead.pool.connection() as conn:
            now = await read_now(conn)
            cases = [
                case
                async for rows, versions in self._read(conn, look, ids, seen)
                for case in await self._consider_all(rows, versions, seen, now, ended)
            ]
        if not self._paused:
            await self._see_to(cases, now)
        self._first = False

    async def _read(
        self, conn: AsyncConnection[DictRow], look: Look, ids: Iterable[UUID], seen: Seen
    ) -> AsyncIterator[tuple[Sequence[Workspace], Mapping[UUID, str]]]:
        """The rows to look at, some at a time, and their versions where a rest may be noted."""
        if look is not Look.FULL:
            wanted = {*ids, *list(self._queue)[:QUEUE_AT_ONCE]}
            yield await read_active(conn, list(wanted), mismatched=look is Look.ACTIVE), {}
            return
        versions = await read_versions(conn)
        self._rested.keep_only(versions)
        known = self._world.archives.version
        restless = [
            each
            for each, version in versions.items()
            if not self._rested.rests(each, version, seen.things_of(each), known)
        ]
        async for rows in stream_workspaces(conn, restless):
            yield rows, versions

    async def _consider_all(
        self,
        rows: Sequence[Workspace],
        versions: Mapping[UUID, str],
        seen: Seen,
        now: datetime,
        ended: int,
    ) -> list[Case]:
        """Those of which something follows; the others are noted as at rest."""
        known = self._world.archives.version
        archives = await self._world.archives.look(rows)
        cases = []
        for each in rows:
            case = self._consider(each, seen, archives, now, ended)
            if case is None:
                continue
            if self._rests(case, now):
                if each.id in versions:
                    self._rested.note(case, versions[each.id], known)
            else:
                cases.append(case)
        return cases

    def _rests(self, case: Case, now: datetime) -> bool:
        """Whether there is nothing to store, to begin, or to tidy up."""
        if not isinstance(case.decision, Nothing | Wait) or self._acts.is_running(case.seen.id):
            return False
        return case.status(now, NO_ID) is case.seen.status and not case.is_untidy

    def _consider(
        self,
        workspace: Workspace,
        seen: Seen,
        archives: Mapping[UUID, Presence],
        now: datetime,
        ended: int,
    ) -> Case | None:
        """None where there is nothing to do or to store, or not enough is known to say."""
        archive = archive_fact(workspace, archives)
        if archive is None:
            return None
        status = workspace.status
        outcome = self._acts.outcome(workspace.id, status.op_id)
        if outcome is not None and outcome.number > ended:
            return None  # its act ended while we looked: what was seen may be from before
        try:
            return consider(
                workspace,
                seen.of(workspace),
                archive,
                outcome,
                now,
                self._world.rules,
                unwatched=self._first,
            )
        except Exception as error:
            self._failures.note(f"{self.name} ({workspace.name})", error)
            return None

    async def _see_to(self, cases: Sequence[Case], now: datetime) -> None:
        """First what is under way, which frees hands; then what waits to begin, in its order."""
        claims = [each for each in cases if isinstance(each.decision, Claim)]
        for case in cases:
            if not isinstance(case.decision, Claim):
                await self._each(case, partial(self._carry_on, case, now))
        places = await self._places(claims)
        for case in sorted(claims, key=_order_of_asking):
            await self._each(case, partial(self._claim, case, places, now))

    async def _each(self, case: Case, step: Callable[[], Awaitable[object]]) -> None:
        await attempt(f"{self.name} ({case.seen.name})", step, self._failures)

    async def _carry_on(self, case: Case, now: datetime) -> None:
        workspace = case.seen
        wanted = isinstance(case.decision, Continue) and not self._acts.is_running(workspace.id)
        if wanted and not self._acts.has_room(workspace.status.operation):
            case, wanted = without_room(case), False
        after = await self._store(case, now)
        if after is None:
            return
        if after.status.operation is Operation.NONE:
            self._queue.pop(workspace.id, None)
            await self._acts.give_up(workspace.id, None)
        if after.status.op_id != workspace.status.op_id or after.status.retry_at is not None:
            self._acts.forget(workspace.id)
        if wanted:
            self._acts.begin(Job(after, case.things, now, again=True))
        else:
            self._tidy(after, case, now)

    async def _claim(self, case: Case, places: Mapping[UUID, Place] | None, now: datetime) -> None:
        """Begin an operation, if there is a hand free for it and no limit in the way."""
        workspace, operation = case.seen, case.decision_operation
        if operation is Operation.STARTING and places is not None:
            place = places.get(workspace.id)
            if place is None or not place.fits:
                self._queue.pop(workspace.id, None)
                return
        if self._paused:
            return
        if self._acts.is_running(workspace.id) or not self._acts.has_room(operation):
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
        return replace(case.seen, status=status) if saved else None

    def _tidy(self, workspace: Workspace, case: Case, now: datetime) -> None:
        leftover = is_leftover(workspace, case.things)
        if not leftover and not needs_tidying(workspace, case.things):
            return
        self._rested.forget(workspace.id)
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
