"""The WebhookRunner: tells those whom the specs name of what happened, at least once each.

A tick hands out what waits in the outbox (`store/deliveries.py`) and begins to post. Each webhook
has a lane of its own, so one that hangs or fails holds up no other, and no tick waits for any of
them; all lanes together take one database connection at a time. What becomes of a try is for
`core/redeliver.py` to say.
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.coordinator.pace import attempt, every, log
from codehub.coordinator.term import end
from codehub.core.notify import address
from codehub.core.redeliver import Patience, settle
from codehub.core.sign import sign, stamp
from codehub.errors import ActionFailed, FenceLost, Unreachable
from codehub.service.notifying import KIND, answer_request
from codehub.service.secrets import read_secret
from codehub.store import deliveries as stored
from codehub.store.clock import read_now
from codehub.store.fence import fenced_transaction
from codehub.store.requests import open_requests
from codehub.store.session import insist
from codehub.store.webhooks import read_receivers, read_sender
from codehub.telemetry.instruments import WEBHOOKS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.config import Settings
    from codehub.coordinator.lead import Lead
    from codehub.coordinator.pace import Failures
    from codehub.core.redeliver import Settled
    from codehub.model.webhook import Answer, Due
    from codehub.ports import Notifier

BATCH: Final = 500
"""Events handed out in one transaction."""
LANE: Final = 4
"""Posts under way at once to one webhook."""
TIDYING: Final = 3600.0
"""Seconds between two looks for what is too old to keep."""
ENDING: Final = 2.0
"""Seconds that posts under way get when we end; what is cut off is posted again by the next."""


class WebhookRunner:
    """Hands out and posts for as long as this process leads; `nudge` says that it may at once."""

    name = "webhooks"

    def __init__(
        self, lead: Lead, notifier: Notifier, settings: Settings, failures: Failures
    ) -> None:
        self.nudge = asyncio.Event()
        self._lead = lead
        self._notifier = notifier
        self._settings = settings
        self._failures = failures
        self._patience = Patience(
            first=timedelta(seconds=settings.webhook_backoff_seconds),
            limit=timedelta(seconds=settings.webhook_backoff_max_seconds),
            lasts=timedelta(seconds=settings.webhook_give_up_seconds),
        )
        self._lanes: dict[UUID, asyncio.Task[None]] = {}
        self._line = asyncio.Lock()
        self._tidy_at = 0.0

    async def run(self) -> None:
        interval = self._settings.coordinator_webhook_interval
        try:
            await every(self.name, interval, self.tick, self._failures, nudge=self.nudge)
        finally:
            await insist(end(set(self._lanes.values()), ENDING))

    async def tick(self) -> None:
        """Hand out, do what was asked for, and begin to post what is due; waits for no post."""
        await self._lead.confirm()
        await self._hand_out()
        await self._answer()
        await self._tidy()
        async with self._lead.pool.connection() as conn:
            due = await stored.who_is_due(conn)
        for webhook_id in due:
            if webhook_id not in self._lanes:
                self._open_lane(webhook_id)

    async def quiet(self) -> None:
        """Until no post is under way."""
        while self._lanes:
            await asyncio.wait(set(self._lanes.values()))

    async def _hand_out(self) -> None:
        """All that waits becomes deliveries, and what waited for a removed webhook ends."""
        async with self._lead.pool.connection() as conn:
            waiting, orphaned = await stored.look(conn)
            while waiting:
                waiting = await self._hand_out_some(conn)
            if orphaned:
                WEBHOOKS.labels("removed").inc(await stored.end_removed(conn, self._lead.fence))

    async def _hand_out_some(self, conn: AsyncConnection[DictRow]) -> bool:
        """A batch; whether there may be more."""
        async with fenced_transaction(conn, self._lead.fence):
            happenings = await stored.read_waiting(conn, BATCH)
            receivers = await read_receivers(conn)
            sender = await read_sender(conn, self._settings.proxy_public_url)
            parcels = [
                parcel
                for each in happenings
                if each.what is not None and sender is not None
                for parcel in address(each.what, receivers, sender)
            ]
            numbers = [each.number for each in happenings]
            await stored.hand_out(conn, self._lead.fence, parcels, numbers, self._patience.lasts)
        return len(happenings) == BATCH

    async def _answer(self) -> None:
        async with self._lead.pool.connection() as conn:
            for each in await open_requests(conn, KIND):
                async with fenced_transaction(conn, self._lead.fence):
                    await answer_request(conn, self._lead.fence, each, self._patience.lasts)

    async def _tidy(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._tidy_at:
            return
        age = timedelta(seconds=self._settings.webhook_retention_seconds)
        async with self._lead.pool.connection() as conn:
            await stored.prune(conn, self._lead.fence, age)
        self._tidy_at = now + TIDYING

    def _open_lane(self, webhook_id: UUID) -> None:
        task = asyncio.create_task(self._run_lane(webhook_id), name=f"webhook {webhook_id}")
        self._lanes[webhook_id] = task

    async def _run_lane(self, webhook_id: UUID) -> None:
        """Post to one webhook until nothing is due; what fails here is for the next tick."""
        try:
            ended_well = await attempt(self.name, lambda: self._empty(webhook_id), self._failures)
        except FenceLost:
            # The tick will hear of it too, and end this term.
            ended_well = True
        finally:
            self._lanes.pop(webhook_id, None)
        if ended_well:
            # What was handed out since the last look in here did not find the lane free.
            self.nudge.set()

    async def _empty(self, webhook_id: UUID) -> None:
        while True:
            async with self._connection() as conn:
                due = await stored.read_due(conn, webhook_id, LANE)
            if not due:
                return
            posts = (self._deliver(each) for each in due)
            _raise_first(await asyncio.gather(*posts, return_exceptions=True))

    async def _deliver(self, due: Due) -> None:
        async with self._line:
            await self._lead.confirm()
        came = await self._post(due)
        async with self._connection() as conn, fenced_transaction(conn, self._lead.fence):
            now = await read_now(conn)
            settled = settle(due.delivery, came, now, random.random(), self._patience)
            kept = await stored.record(conn, self._lead.fence, due.delivery.id, settled)
        if kept:
            WEBHOOKS.labels(_result(settled)).inc()
        self._tell(due, settled)

    async def _post(self, due: Due) -> Answer | ActionFailed | Unreachable:
        """Signed where a secret is declared, or not at all."""
        receiver = due.delivery.receiver
        body = json.dumps(due.payload, sort_keys=True, separators=(",", ":")).encode()
        headers = stamp(due.delivery.id, due.now)
        try:
            if receiver.secret is not None:
                secrets = self._settings.secrets_dir
                secret = await asyncio.to_thread(read_secret, secrets, receiver.secret)
                headers = sign(secret, headers, body)
            return await self._notifier.post(receiver.url, headers, body)
        except (ActionFailed, Unreachable) as error:
            return error

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection[DictRow]]:
        """One for all lanes: the controller needs the others."""
        async with self._line, self._lead.pool.connection() as conn:
            yield conn

    def _tell(self, due: Due, settled: Settled) -> None:
        """Names only: addresses often carry a token."""
        name, kind = due.delivery.receiver.name, due.delivery.kind
        if settled.delivered:
            log.debug("webhooks: %s was told of %s", name, kind)
        elif settled.failed:
            log.warning("webhooks: %s is given up on %s: %s", name, kind, settled.error)
        elif not due.delivery.attempts:
            log.warning("webhooks: %s could not be told of %s: %s", name, kind, settled.error)


def _result(settled: Settled) -> str:
    if settled.delivered:
        return "delivered"
    return "given_up" if settled.failed else "retried"


def _raise_first(ended: list[BaseException | None]) -> None:
    """What went wrong, if anything did; a lost fence explains whatever else there is."""
    errors = [each for each in ended if each is not None]
    for each in sorted(errors, key=lambda error: not isinstance(error, FenceLost)):
        raise each
