"""Every call of the WebhookRunner × every fault: nothing is lost, and nothing handed out twice.

A post may come twice, under one id. What was recorded as delivered has arrived.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from codehub.config import Settings
from codehub.coordinator.lead import Lead
from codehub.coordinator.pace import Failures, attempt
from codehub.coordinator.webhooks import WebhookRunner
from codehub.errors import FenceLost
from codehub.model.webhook import Answer
from codehub.store.connect import connect
from codehub.store.fence import take_epoch
from codehub.store.hubs import ensure_hub_id
from codehub.store.webhooks import read_receivers
from tests.chaos.connection import LentPool, Lines
from tests.chaos.script import FAULTS, Crash, Fault, Script, telling
from tests.chaos.seams import ScriptedNotifier
from tests.integration.stored import insert, versions
from tests.integration.webhook_world import SHIFT, fail, fail_load
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

pytestmark = pytest.mark.anyio

TABLES = ("webhook_deliveries", "webhook_events", "leader_requests")
URLS = ("https://one.example/", "https://two.example/")
TOLD = {"revision.failed": 2, "workspace.error": 2, "test": 1}
"""Each event for each webhook, and the test for the one it was asked for."""
MOST = 10
"""Ticks after which everything must have arrived, an hour between each two."""
STATE = """
SELECT (SELECT count(*) FROM webhook_events) AS waiting,
    (SELECT count(*) FROM leader_requests WHERE done_at IS NULL) AS asked,
    (SELECT count(*) FROM webhook_deliveries WHERE delivered_at IS NULL) AS pending
"""


@dataclass
class Mailbox:
    """`codehub.ports.Notifier` whose receivers take everything; what arrived, by id."""

    arrived: Counter[str] = field(default_factory=Counter)
    bodies: dict[str, set[tuple[str, bytes]]] = field(default_factory=dict)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        await asyncio.sleep(0)
        parcel = headers["webhook-id"]
        self.arrived[parcel] += 1
        self.bodies.setdefault(parcel, set()).add((url, body))
        return Answer(200)


@dataclass
class Office:
    """A hub with two webhooks; leaders come and go."""

    conn: AsyncConnection[DictRow]
    lines: Lines
    mailbox: Mailbox = field(default_factory=Mailbox)
    runs: Any = field(default_factory=count)

    async def begin(self) -> None:
        """Two things happened, and somebody asked for a test."""
        for table in TABLES:
            await self.conn.execute(f"DELETE FROM {table}")
        self.mailbox = Mailbox()
        await fail(self.conn)
        await fail_load(self.conn, digest=f"run {next(self.runs)}")
        receiver = (await read_receivers(self.conn))[0]
        await self.conn.execute(
            "INSERT INTO leader_requests (kind, arguments) VALUES ('webhooks', %s)",
            (Jsonb({"test": str(receiver.id)}),),
        )

    async def lead(self, script: Script) -> None:
        """One leader's time, until all is delivered or something ends it."""
        fence = await take_epoch(self.conn, "coordinator", "test")
        lead = Lead(await ensure_hub_id(self.conn), fence, LentPool(self.lines, script))
        notifier = ScriptedNotifier(self.mailbox, script)
        failures = Failures()
        runner = WebhookRunner(lead, notifier, Settings(), failures)
        with suppress(Crash, FenceLost):
            for _ in range(MOST):
                await attempt("webhooks", runner.tick, failures)
                await runner.quiet()
                if script.dead or await self.is_over():
                    break
                await self.conn.execute(SHIFT, {"by": timedelta(hours=1)})
        script.kill()
        await script.idle()
        await runner.quiet()

    async def is_over(self) -> bool:
        row = await (await self.conn.execute(STATE)).fetchone()
        assert row is not None
        return not any(row.values())

    async def check(self) -> None:
        """All was handed out once, and has arrived; what arrived twice was the same."""
        assert await self.is_over()
        rows = await (await self.conn.execute("SELECT * FROM webhook_deliveries")).fetchall()
        assert Counter(row["kind"] for row in rows) == TOLD
        assert {str(row["id"]) for row in rows} == {*self.mailbox.arrived}
        for parcel, seen in self.mailbox.bodies.items():
            ((_, body),) = seen
            assert json.loads(body)["id"] == parcel


@asynccontextmanager
async def office(url: str) -> AsyncIterator[Office]:
    # What a dead leader's tasks raise is nobody's business.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    lines = Lines(url)
    async with await connect(url) as conn:
        await insert(conn, workspace("api"))
        await ensure_hub_id(conn)
        for each in URLS:
            await conn.execute("INSERT INTO webhooks (name, url) VALUES (%s, %s)", (each, each))
        try:
            yield Office(conn, lines)
        finally:
            await lines.close()


@pytest.mark.parametrize("fault", FAULTS)
async def test_nothing_is_lost_and_nothing_handed_out_twice(
    database_url: str, fault: Fault
) -> None:
    async with office(database_url) as place:
        for number in count():
            await place.begin()
            script = Script({number: fault})
            with telling(script.struck):
                await place.lead(script)
                if not await place.is_over():
                    await place.lead(Script())
                await place.check()
            if not script.struck:
                break
        assert number > 20, "it has more calls than that"
        assert {*place.mailbox.arrived.values()} == {1}, "without a fault each comes once"


@pytest.mark.parametrize("fault", [Fault.PAUSE, Fault.PAUSE_AFTER])
async def test_a_leader_that_slept_writes_and_begins_nothing(
    database_url: str, fault: Fault
) -> None:
    async with office(database_url) as place:
        for number in count():
            await place.begin()
            script = Script({number: fault})
            old = asyncio.create_task(place.lead(script))
            paused = asyncio.create_task(script.paused.wait())
            await asyncio.wait({paused, old}, return_when=asyncio.FIRST_COMPLETED)
            if not script.paused.is_set():
                paused.cancel()
                await old
                break
            with telling(script.struck):
                await _take_over(place)
                before, asked = await versions(place.conn, *TABLES), len(script.calls)
                script.resume()
                await old
                # Between having asked and posting there is always a moment; the id makes up for it.
                confirmed = "fence.READ" in script.struck[0]
                assert script.calls[asked:].count("notifier.post") <= confirmed, "posted unasked"
                assert await versions(place.conn, *TABLES) == before, "a stale epoch wrote"
                await place.check()
        assert number > 20, "it has more calls than that"


async def _take_over(place: Office) -> None:
    """Nobody holds the server's locks while asleep: it ends such a transaction after a minute."""
    pids = place.lines.in_transaction()
    await place.conn.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM unnest(%s::int[]) AS pid", (pids,)
    )
    await place.lead(Script())
    await place.check()
