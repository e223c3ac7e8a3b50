"""What one pass finds: the world in bulk, then the rows, then what follows for each.

Listings are taken before rows are read, so facts are never newer than what they are compared
with. Of those that rest nothing is read again until their row or the world changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.coordinator.case import archive_fact, consider
from codehub.coordinator.observe import observe
from codehub.coordinator.rested import Rested
from codehub.coordinator.rhythm import Look
from codehub.model.decision import Nothing, Wait
from codehub.store.clock import read_now
from codehub.store.status import read_active
from codehub.store.workspaces import collector_paused, read_versions, stream_workspaces
from codehub.telemetry.logs import bound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from datetime import datetime

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.coordinator.acts import Acts
    from codehub.coordinator.archives import Archives
    from codehub.coordinator.case import Case
    from codehub.coordinator.figures import Figures
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Failures
    from codehub.coordinator.seen import Seen
    from codehub.model.conditions import Presence
    from codehub.model.decision import Rules
    from codehub.model.workspace import Runtime as RuntimeName
    from codehub.model.workspace import Workspace
    from codehub.ports import Runtime
    from codehub.service.limits import LimitDefaults
    from codehub.store.status import Idleness

NAME: Final = "controller"
NO_ID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class World:
    """What the controller looks at, and the rules it keeps to."""

    runtimes: Mapping[RuntimeName, Runtime]
    archives: Archives
    rules: Rules
    limits: LimitDefaults
    idleness: Idleness


class Lookout:
    """One term's looks. `rested` is what needs no further look for now."""

    def __init__(
        self, lead: Lead, world: World, acts: Acts, failures: Failures, figures: Figures
    ) -> None:
        self.rested = Rested()
        self._lead = lead
        self._world = world
        self._acts = acts
        self._failures = failures
        self._figures = figures
        self._first = True

    async def look(self, look: Look, ids: Iterable[UUID]) -> tuple[list[Case], datetime]:
        """Those of which something follows, and the time at which they were looked at."""
        ended = self._acts.ended
        seen = await observe(self._world.runtimes)
        with collector_paused():
            async with self._lead.pool.connection() as conn:
                now = await read_now(conn)
                self._figures.began(now)
                cases = [
                    case
                    async for rows, versions in self._read(conn, look, ids, seen)
                    for case in await self._consider_all(rows, versions, seen, now, ended)
                ]
        return cases, now

    def seen_to(self) -> None:
        """What the first look of a term found in flight is watched from now on."""
        self._first = False

    async def _read(
        self, conn: AsyncConnection[DictRow], look: Look, ids: Iterable[UUID], seen: Seen
    ) -> AsyncIterator[tuple[Sequence[Workspace], Mapping[UUID, str]]]:
        """The rows to look at, some at a time, and their versions where a rest may be noted."""
        if look is not Look.FULL:
            yield await read_active(conn, list(ids), mismatched=look is Look.ACTIVE), {}
            return
        versions = await read_versions(conn)
        self.rested.keep_only(versions)
        self._figures.keep_only(versions)
        known = self._world.archives.version
        restless = [
            each
            for each, version in versions.items()
            if not self.rested.rests(each, version, seen.things_of(each), known)
        ]
        every_one = len(restless) == len(versions)
        async for rows in stream_workspaces(conn, None if every_one else restless):
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
        self._figures.read(rows)
        known = self._world.archives.version
        archives = await self._world.archives.look(rows)
        cases = []
        for each in rows:
            case = self._consider(each, seen, archives, now, ended)
            if case is None:
                continue
            if self._rests(case, now):
                if each.id in versions:
                    self.rested.note(case, versions[each.id], known)
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
                idle=not self._acts.is_running(workspace.id),
                doubt=self._world.archives.doubts.get(workspace.id, ""),
            )
        except Exception as error:
            with bound(workspace=workspace.name, operation=status.operation, op_id=status.op_id):
                self._failures.note(f"{NAME} ({workspace.name})", error)
            return None
