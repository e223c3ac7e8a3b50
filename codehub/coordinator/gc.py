"""The collector of archives: what nothing refers to goes, late and only when everything is sound.

Anything odd (a mark that is missing or ahead, a listing or a query that fails, a store without any
archive we know) skips the whole collection, and nothing is remembered of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.coordinator.marker import create_marker, meet_store, raise_epoch, read_marker
from codehub.coordinator.pace import every, log
from codehub.core.collect import choose, find_obstacle, weigh
from codehub.core.keys import hub_prefix
from codehub.errors import FenceLost, Refused, Unreachable
from codehub.model.collection import Collected, Fate, Inventory, Marker
from codehub.service.collecting import (
    CONFIRM,
    KIND,
    call_store,
    take_inventory,
    write_answer,
)
from codehub.store import gc as stored
from codehub.store.requests import finish, open_requests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from codehub.config import Settings
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Failures
    from codehub.model.collection import Ledger, StoredArchive, Verdict
    from codehub.ports import ObjectStore
    from codehub.store.requests import Request

LOOK: Final = 15.0
"""Seconds between two looks for requests, should no hint of them come."""
SOON: Final = 300.0
"""Seconds until the next try after the store or the database gave no answer."""
BATCH: Final = 25
"""Archives deleted between two readings of what the database protects."""
NO_TIME: Final = timedelta(0)
ABANDONED: Final = timedelta(days=1)
"""Uploads that have not gone on for this long never will."""


class GcRunner:
    """Collects every so often, and at once when somebody asks; `nudge` says that they may have."""

    name = "gc"

    def __init__(
        self, lead: Lead, store: ObjectStore, settings: Settings, failures: Failures
    ) -> None:
        self.nudge = asyncio.Event()
        self._lead = lead
        self._store = store
        self._settings = settings
        self._failures = failures
        self._next_at = 0.0

    async def run(self) -> None:
        pause = min(LOOK, self._settings.coordinator_gc_interval)
        await every(self.name, pause, self.turn, self._failures, nudge=self.nudge)

    async def turn(self) -> None:
        """A nudge may be about something else, so ask whether there is anything to do."""
        now = asyncio.get_running_loop().time()
        interval = self._settings.coordinator_gc_interval
        if now < self._next_at:
            if await self._requests():
                await self.tick()
            return
        self._next_at = now + interval
        try:
            await self.tick()
        except Unreachable:
            self._next_at = now + min(SOON, interval)
            raise

    async def tick(self) -> Collected:
        """One collection, and the answer to those who asked for it before it began."""
        requests = await self._requests()
        try:
            outcome = await self._collect(requests)
        except FenceLost:
            raise
        except Exception as error:
            await self._answer(requests, error)
            raise
        await self._answer(requests, outcome)
        return outcome

    async def _requests(self) -> tuple[Request, ...]:
        async with self._lead.pool.connection() as conn:
            return await open_requests(conn, KIND)

    async def _answer(self, requests: Sequence[Request], outcome: Collected | Exception) -> None:
        for each in requests:
            async with self._lead.pool.connection() as conn:
                await finish(conn, self._lead.fence, each.id, write_answer(outcome))

    async def _collect(self, requests: Sequence[Request]) -> Collected:
        confirming = next((each for each in requests if each.arguments.get(CONFIRM)), None)
        if confirming is not None:
            await self._confirm(confirming)
        marker = await meet_store(self._lead, self._store)
        inventory = await take_inventory(self._store, self._lead.hub_id)
        purged, ledger, verdicts = await self._judge(marker, inventory)
        await self._begin(verdicts)
        chosen = choose(verdicts, self._settings.gc_max_deletes)
        done = await self._delete(chosen, inventory, ledger)
        fates = Counter(each.fate for each in verdicts)
        return replace(
            done,
            kept=fates[Fate.KEPT],
            waiting=fates[Fate.WAITING],
            postponed=fates[Fate.DUE] - len(chosen),
            aborted_uploads=await self._abort_uploads(ledger),
            purged=purged,
            confirmed=confirming is not None,
        )

    async def _confirm(self, request: Request) -> None:
        """Somebody vouches for database and store: the count catches up, a missing mark is made.

        Not in a store that has nothing of ours: everything would count as lost.
        """
        marker = await read_marker(self._store, self._lead.hub_id)
        if marker is None:
            inventory = await take_inventory(self._store, self._lead.hub_id)
            async with self._lead.pool.connection() as conn:
                ledger = await stored.read_ledger(conn, _workspaces(inventory))
            _require_sound(Marker(self._lead.hub_id), ledger, weigh(inventory, ledger, NO_TIME))
            await self._lead.confirm()
            marker = await create_marker(self._store, self._lead.hub_id)
        async with self._lead.pool.connection() as conn:
            await stored.confirm_restored(conn, self._lead.fence, marker.epoch, request.asked_by)
        log.warning("gc: %r vouched for the database", request.asked_by)

    async def _judge(
        self, marker: Marker, inventory: Inventory
    ) -> tuple[tuple[str, ...], Ledger, tuple[Verdict, ...]]:
        """What becomes of each archive; Refused when the whole is not sound.

        Purging comes after a first look: a database that is behind must not give up anything.
        """
        patience = timedelta(seconds=self._settings.gc_orphan_seconds)
        retention = timedelta(seconds=self._settings.retention_seconds)
        ids = _workspaces(inventory)
        async with self._lead.pool.connection() as conn:
            ledger = await stored.read_ledger(conn, ids)
            _require_sound(marker, ledger, weigh(inventory, ledger, patience))
            purged = await stored.purge(conn, self._lead.fence, retention)
            if purged:
                ledger = await stored.read_ledger(conn, ids)
        return purged, ledger, weigh(inventory, ledger, patience)

    async def _begin(self, verdicts: Sequence[Verdict]) -> None:
        """Count this collection, first here and then in the store, and remember the orphans."""
        async with self._lead.pool.connection() as conn:
            epoch = await stored.advance_epoch(conn, self._lead.fence)
        await raise_epoch(self._store, self._lead.hub_id, epoch)
        async with self._lead.pool.connection() as conn:
            await stored.remember(conn, self._lead.fence, verdicts)

    async def _delete(
        self, chosen: Sequence[Verdict], inventory: Inventory, ledger: Ledger
    ) -> Collected:
        done = Collected()
        shelves: dict[UUID, list[StoredArchive]] = defaultdict(list)
        for archive in inventory.archives:
            shelves[archive.workspace_id].append(archive)
        for start in range(0, len(chosen), BATCH):
            for each in await self._still_due(chosen[start : start + BATCH], shelves, ledger):
                await self._delete_archive(each)
                done = replace(
                    done,
                    deleted=done.deleted + 1,
                    objects=done.objects + len(each.archive.objects),
                    bytes=done.bytes + each.archive.bytes,
                )
        return done

    async def _still_due(
        self,
        batch: Sequence[Verdict],
        shelves: Mapping[UUID, Sequence[StoredArchive]],
        ledger: Ledger,
    ) -> list[Verdict]:
        """Those that nothing refers to even now: much may have happened since the first look."""
        ids = {each.archive.workspace_id for each in batch}
        async with self._lead.pool.connection() as conn:
            fresh = await stored.read_again(conn, ledger, ids)
        theirs = Inventory(tuple(archive for one in ids for archive in shelves[one]))
        patience = timedelta(seconds=self._settings.gc_orphan_seconds)
        due = {each.archive.key for each in weigh(theirs, fresh, patience) if each.fate is Fate.DUE}
        return [each for each in batch if each.archive.key in due]

    async def _delete_archive(self, verdict: Verdict) -> None:
        """The commit marker goes first; whatever stops us then, no half archive seems whole.

        The candidate is dropped by the next collection, which does not find it any more: what is
        left of a deletion that was cut short needs no second waiting time.
        """
        for each in verdict.archive.objects:
            await self._lead.confirm()
            await call_store(self._store.delete, each.key)

    async def _abort_uploads(self, ledger: Ledger) -> int:
        await self._lead.confirm()
        prefix = hub_prefix(self._lead.hub_id)
        return await call_store(self._store.abort_unfinished, prefix, ledger.now - ABANDONED)


def _require_sound(marker: Marker, ledger: Ledger, verdicts: Sequence[Verdict]) -> None:
    obstacle = find_obstacle(marker, ledger, verdicts)
    if obstacle is not None:
        raise Refused(f"no archive is collected: {obstacle.message}", hint=obstacle.hint)


def _workspaces(inventory: Inventory) -> set[UUID]:
    return {each.workspace_id for each in inventory.archives}
