"""A hub with webhooks whose time a test moves at will; Postgres and the receivers are real."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.adapters.http_post import HttpPost
from codehub.config import Settings
from codehub.coordinator.lead import Lead
from codehub.coordinator.pace import Failures
from codehub.coordinator.webhooks import WebhookRunner
from codehub.model.events import EventKind
from codehub.model.people import Hub, Webhook
from codehub.model.revision import Origin
from codehub.store.connect import connect, transaction
from codehub.store.events import append, entry
from codehub.store.fence import take_epoch
from codehub.store.hubs import ensure_hub_id, write_hub
from codehub.store.pool import Pool
from codehub.store.revisions import record_failed
from tests.integration.stored import insert
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import timedelta

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.ports import Notifier

    Conn = AsyncConnection[DictRow]

API = UUID(int=1)
SHIFT = """
UPDATE webhook_deliveries SET created_at = created_at - %(by)s, next_at = next_at - %(by)s,
    expires_at = expires_at - %(by)s, delivered_at = delivered_at - %(by)s,
    failed_at = failed_at - %(by)s
"""
DELIVERIES = "SELECT * FROM webhook_deliveries ORDER BY created_at, id"


async def tell(conn: Conn, kind: EventKind, old: str, new: str, **said: str) -> None:
    """A line of the audit about the one workspace, as its writers add it."""
    said = {"source": "controller", "by": "", "reason": ""} | said
    await append(conn, [entry(API, "api", kind, old=old, new=new, **said)])


async def fail(conn: Conn, message: str = "the image is not there") -> None:
    """The workspace goes into ERROR, as the controller says it."""
    async with transaction(conn):
        await tell(conn, EventKind.ERROR, "", "ImagePullFailed", reason=message)
        await tell(conn, EventKind.PHASE, "STANDBY", "ERROR", reason=message)


async def fail_load(conn: Conn, *problems: str, digest: str = "bad") -> None:
    """Specs that could not be loaded, as the watcher says it."""
    await record_failed(
        conn,
        digest=digest,
        origin=Origin("/srv/specs", commit="abc123"),
        problems=problems or ("specs/api.yaml:3:1: spec.owner: is required",),
        author="watcher",
        source="watch",
    )


@dataclass
class WebhookWorld:
    """One hub in one term of leadership; `lead_anew` begins the next one."""

    conn: Conn
    pool: Pool
    settings: Settings
    notifier: Notifier
    runner: WebhookRunner = field(init=False)
    failures: Failures = field(default_factory=Failures)

    async def lead_anew(self) -> WebhookRunner | None:
        """A new leader; returns the one before it."""
        before = getattr(self, "runner", None)
        fence = await take_epoch(self.conn, "coordinator", "test")
        lead = Lead(await ensure_hub_id(self.conn), fence, self.pool)
        self.runner = WebhookRunner(lead, self.notifier, self.settings, self.failures)
        return before

    async def declare(self, *webhooks: Webhook | str) -> None:
        """Load a Hub spec with these, as the loader does."""
        hooks = tuple(Webhook(each) if isinstance(each, str) else each for each in webhooks)
        async with transaction(self.conn):
            await write_hub(self.conn, Hub(name="team", webhooks=hooks))

    async def tick(self) -> None:
        """A look, and all posts that follow from it."""
        await self.runner.tick()
        await self.runner.quiet()

    async def pass_time(self, by: timedelta) -> None:
        """Everything on its way happened so much longer ago."""
        await self.conn.execute(SHIFT, {"by": by})

    async def deliveries(self) -> list[dict[str, Any]]:
        return await (await self.conn.execute(DELIVERIES)).fetchall()

    async def delivery(self) -> dict[str, Any]:
        (found,) = await self.deliveries()
        return found

    async def waiting(self) -> int:
        row = await (await self.conn.execute("SELECT count(*) AS n FROM webhook_events")).fetchone()
        assert row is not None
        return int(row["n"])


@asynccontextmanager
async def webhook_world(
    url: str, *webhooks: Webhook | str, notifier: Notifier | None = None, **settings: Any
) -> AsyncIterator[WebhookWorld]:
    """A hub with one workspace, `api` of alice, and these webhooks."""
    post = notifier or HttpPost("CodeHub/test", connect_seconds=30, total_seconds=60)
    async with await connect(url) as conn, Pool(url) as pool:
        await insert(conn, workspace("api"))
        world = WebhookWorld(conn, pool, Settings(**settings), post)
        await world.declare(*webhooks)
        await world.lead_anew()
        yield world
