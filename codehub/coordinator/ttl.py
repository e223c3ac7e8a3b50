"""The TTLRunner: activity from Redis to Postgres, then whom idleness lowers.

A tick drains the buffer, remembers how far activity is known by that, and asks the two checks.
Where something may have been lost nobody is lowered for silence: `core/horizon.py` says when that
is, `store/ttl.py` what follows from it. Only desired states are written; the controller acts.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.coordinator.busy import CpuWatch
from codehub.coordinator.pace import every
from codehub.core.horizon import (
    Seen,
    blindness,
    fingerprint,
    forgettable,
    horizon,
    longest_gap,
    newest,
)
from codehub.errors import Unreachable
from codehub.store import ttl
from codehub.store.activity import known_ids, record_seen
from codehub.store.activity_sync import mistrust, read_watch, write_drain
from codehub.telemetry.instruments import ACTIVITY_LAG, TTL_MOVES, TTL_SKIPPED
from codehub.telemetry.logs import bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from codehub import ports
    from codehub.config import Settings
    from codehub.coordinator.hints import Hints
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Failures
    from codehub.model.signals import ActivityRead
    from codehub.model.workspace import Runtime
    from codehub.store.activity_sync import Drained

log: Final = logging.getLogger("codehub.coordinator")

PATIENCE: Final = 30.0
"""Seconds for all that is asked of Redis in one drain."""

LOOK_AHEAD: Final = 2
"""So many ticks before a workspace falls its work is first looked at."""

MOVES: Final = {"STANDBY": "standby", "ARCHIVED": "archive", "RUNNING": "return"}
"""What a move is called in metrics, by the state it asks for."""


class TtlRunner:
    """One look at everybody's idleness per tick, for as long as this process leads."""

    name = "ttl"

    def __init__(
        self,
        lead: Lead,
        signals: ports.Signals,
        runtimes: Mapping[Runtime, ports.Runtime],
        settings: Settings,
        failures: Failures,
        hints: Hints,
    ) -> None:
        self._lead = lead
        self._signals = signals
        self._settings = settings
        self._failures = failures
        self._hints = hints
        self._interval = timedelta(seconds=settings.coordinator_ttl_interval)
        self._flush = timedelta(seconds=settings.activity_flush_interval)
        self._slack = timedelta(seconds=settings.activity_slack_seconds)
        self._work = CpuWatch(runtimes, self._interval, failures)

    async def run(self) -> None:
        await every(self.name, self._interval.total_seconds(), self.tick, self._failures)

    async def tick(self) -> None:
        """Drain, then check. Without a drain nobody is lowered, and who was may come back."""
        await self._lead.confirm()
        drained = await self._drain()
        await self._bring_back()
        if drained is not None:
            bounds = self._bounds(drained)
            await self._lower(bounds)
            await self._remind(bounds)

    async def _drain(self) -> Drained | None:
        """Activity into Postgres, and how far it is known by that; None when Redis is away."""
        async with self._lead.pool.connection() as conn:
            begun, watch = await read_watch(conn)
        if watch.drained_at is not None:
            ACTIVITY_LAG.since((begun - watch.drained_at).total_seconds())
        read = await self._read()
        if read is None:
            TTL_SKIPPED.labels("unreachable").inc()
            return None
        shown = fingerprint(read)
        longest = longest_gap(self._interval, self._flush)
        blind = blindness(watch, shown, begun, longest)
        if blind is not None:
            log.info("ttl: idleness counts anew, because %s", blind)
            TTL_SKIPPED.labels("blind").inc()
        async with self._lead.pool.connection() as conn:
            if read.sightings:
                await record_seen(conn, self._lead.fence, newest(read))
            drained = await write_drain(
                conn, self._lead.fence, begun, shown, blind=blind is not None
            )
        ACTIVITY_LAG.since()
        await self._forget(read)
        return drained

    async def _read(self) -> ActivityRead | None:
        """The buffer, under a sentinel; None, and mistrust, when Redis gives no answer."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._read_marked()
        except (Unreachable, TimeoutError) as error:
            self._failures.note(self.name, _no_answer(error))
        async with self._lead.pool.connection() as conn:
            await mistrust(conn, self._lead.fence)
        return None

    async def _read_marked(self) -> ActivityRead:
        """What is read counts only with a sentinel that was there before it.

        A sentinel is written when there is none, never over another: it may be that of a hub
        which shares this Redis, and each token is written once, so it can only have stayed.
        """
        read = await self._signals.read_activity()
        if fingerprint(read):
            return read
        await self._signals.write_sentinel(secrets.token_hex(16))
        read = await self._signals.read_activity()
        if not fingerprint(read):
            raise Unreachable("Redis does not keep what it is told", hint="see its memory limits")
        return read

    async def _forget(self, read: ActivityRead) -> None:
        """It is recorded: what stays is recorded again, to no effect."""
        if not read.sightings:
            return
        async with self._lead.pool.connection() as conn:
            known = await known_ids(conn, {each.workspace_id for each in read.sightings})
        try:
            async with asyncio.timeout(PATIENCE):
                await self._signals.forget_activity(forgettable(read, known))
        except (Unreachable, TimeoutError) as error:
            self._failures.note(self.name, _no_answer(error))

    def _bounds(self, drained: Drained) -> ttl.Bounds:
        return ttl.Bounds(
            horizon=horizon(drained.at, self._flush, self._slack),
            blind_until=drained.blind_until,
            standby=self._settings.ttl_standby_seconds,
            archive=self._settings.ttl_archive_seconds,
        )

    async def _bring_back(self) -> None:
        async with self._lead.pool.connection() as conn:
            back = await ttl.bring_back(
                conn,
                self._lead.fence,
                standby=self._settings.ttl_standby_seconds,
                flush=self._settings.activity_flush_interval,
                slack=self._settings.activity_slack_seconds,
            )
        self._tell(back)

    async def _lower(self, bounds: ttl.Bounds) -> None:
        quiet = await self._quiet(bounds)
        async with self._lead.pool.connection() as conn:
            self._tell(await ttl.lower_to_standby(conn, self._lead.fence, bounds, quiet))
            self._tell(await ttl.lower_to_archived(conn, self._lead.fence, bounds))

    async def _quiet(self, bounds: ttl.Bounds) -> frozenset[UUID]:
        """Those that surely do no work, of the ones that fall soon; who works is recorded."""
        soon = bounds.horizon + LOOK_AHEAD * self._interval
        async with self._lead.pool.connection() as conn:
            watched = await ttl.read_watched(conn, bounds, soon)
        looked = await self._work.look(watched)
        if looked.busy:
            seen = dict.fromkeys(looked.busy, Seen(timedelta(0), "cpu"))
            async with self._lead.pool.connection() as conn:
                await record_seen(conn, self._lead.fence, seen)
        return looked.quiet

    async def _remind(self, bounds: ttl.Bounds) -> None:
        reminder = timedelta(seconds=self._settings.ttl_reminder_seconds)
        if reminder:
            async with self._lead.pool.connection() as conn:
                await ttl.remind(conn, self._lead.fence, bounds, reminder)

    def _tell(self, moved: Iterable[ttl.Fallen]) -> None:
        for each in moved:
            TTL_MOVES.labels(MOVES[each.new]).inc()
            with bound(workspace=each.name):
                log.info("ttl: %s is to be %s: %s", each.name, each.new, each.reason)
            self._hints.tell(each.id)


def _no_answer(error: Unreachable | TimeoutError) -> Unreachable:
    if isinstance(error, Unreachable):
        return error
    return Unreachable("Redis took too long to answer", hint="see whether its server runs")
