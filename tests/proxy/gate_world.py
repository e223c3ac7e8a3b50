"""A gate over a real database and Redis: people who are logged in, and workspaces in any state."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.core.fingerprint import fingerprint
from codehub.model.access import Person, Visitor
from codehub.model.people import Role
from codehub.model.runtime import Upstream
from codehub.model.states import DesiredState, IntentSource, Phase
from codehub.model.workspace import Intent, Status
from codehub.proxy.activity import ActivityBuffer
from codehub.proxy.credentials import NO_TRUST
from codehub.proxy.gate import Front, ProxyGate, Ways
from codehub.proxy.hosts import Hosts
from codehub.proxy.identity import Identities
from codehub.proxy.queueing import finder
from codehub.proxy.reports import Reports
from codehub.proxy.seam import Answer, Ask, Forward
from codehub.proxy.table import RouteTable
from codehub.proxy.wake import waker
from codehub.proxy.watch import Watch
from codehub.service.limits import LimitDefaults
from codehub.service.links import arrive, hand_over
from codehub.service.minting import new_secret
from codehub.service.tokens import create_token
from codehub.store.access import find_account
from codehub.store.connect import connect
from codehub.store.pool import Pool
from codehub.store.sessions import add_session
from codehub.store.users import upsert_users
from tests.integration.stored import insert
from tests.make import user, workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.access import Scope
    from codehub.model.route import Route
    from codehub.model.workspace import Workspace
    from codehub.proxy.seam import RequestHead

PATIENCE = 60
HOURLY = 3600.0
"""Nothing is read again by the clock: what is learnt is learnt by being told."""
UPSTREAM = Upstream("127.0.0.1", 4711)
PLENTY = LimitDefaults(1000, 1000)


def awake(name: str = "api", number: int = 1, **more: Any) -> Workspace:
    """A workspace that runs and can be reached."""
    status = more.pop("status", Status(Phase.RUNNING, upstream=more.pop("upstream", UPSTREAM)))
    return workspace(name, number=number, status=status, **more)


def asleep(
    name: str = "api", number: int = 1, phase: Phase = Phase.STANDBY, **more: Any
) -> Workspace:
    """A workspace that a TTL has put to rest."""
    lowered = Intent(DesiredState(phase.value), IntentSource.TTL)
    return workspace(name, number=number, intent=lowered, status=Status(phase), **more)


@dataclass
class GateWorld:
    """The gate, what it asks, and users alice and carol (members) and bob (an admin)."""

    url: str
    conn: AsyncConnection[DictRow]
    """The test's own, past whatever lies between the gate and the database."""
    pool: Pool
    signals: RedisSignals
    identities: Identities
    table: HeardTable
    buffer: ActivityBuffer
    watch: Watch
    gate: ProxyGate

    async def person(self, name: str) -> Person:
        account = await find_account(self.conn, name)
        assert account is not None
        return account.person

    async def log_in(self, name: str = "alice") -> str:
        """The secret of a new session of the hub."""
        secret = new_secret()
        person = await self.person(name)
        opened = await add_session(
            self.conn, person.id, fingerprint(secret), Visitor(), timedelta(days=1)
        )
        assert opened is not None
        return secret

    async def log_in_on(self, host: str, name: str = "alice") -> str:
        """The secret of a new session on a workspace's own host."""
        secret, person = new_secret(), await self.person(name)
        hub = await add_session(
            self.conn, person.id, fingerprint(secret), Visitor(), timedelta(days=1)
        )
        assert hub is not None
        code = await hand_over(self.conn, hub.id, host)
        return (await arrive(self.conn, code, host, Visitor())).secret

    async def token(self, *scopes: Scope, name: str = "alice") -> str:
        made = await create_token(
            self.conn, name, f"t-{uuid4().hex[:8]}", scopes, timedelta(days=1), by="test"
        )
        return made.secret

    async def add(self, *workspaces: Workspace) -> None:
        await insert(self.conn, *workspaces)

    async def ask(self, head: RequestHead, body: bytes = b"") -> Answer | Forward:
        """What becomes of a request, however long that takes."""
        verdict = self.gate.judge(head)
        return await verdict.handle(body) if isinstance(verdict, Ask) else verdict

    async def answer(self, head: RequestHead) -> Answer:
        found = await self.ask(head)
        assert isinstance(found, Answer), found
        return found

    async def forward(self, head: RequestHead) -> Forward:
        found = await self.ask(head)
        assert isinstance(found, Forward), found
        return found


async def people(conn: AsyncConnection[DictRow]) -> None:
    await upsert_users(conn, [user("alice"), user("bob", role=Role.ADMIN), user("carol")])


@asynccontextmanager
async def gate_world(
    url: str,
    redis_url: str,
    *,
    through: str | None = None,
    limits: LimitDefaults = PLENTY,
    interval: float = HOURLY,
    run: bool = True,
    front: Front | None = None,
    clock: Callable[[], float] | None = None,
    most: int = 500,
) -> AsyncIterator[GateWorld]:
    """`through` is the way the gate takes to the database, where it is not the test's own."""
    through = through or url
    signals = RedisSignals(redis_url, prefix=f"gate-{uuid4().hex}")
    timed: dict[str, Any] = {"clock": clock} if clock is not None else {}
    async with AsyncExitStack() as stack:
        stack.push_async_callback(signals.close)
        conn = await stack.enter_async_context(await connect(url))
        pool = await stack.enter_async_context(Pool(through, size=4, checked=True))
        await people(conn)
        table = HeardTable(pool, through, interval=interval)
        front = front or Front(Hosts(domain="localhost"), NO_TRUST)
        identities = Identities(pool, through, refresh=HOURLY, trust=front.trust)
        buffer = ActivityBuffer(signals, pool, Settings(), **timed)
        watch = Watch(buffer, signals, identities, table, most=most, **timed)
        stack.push_async_callback(watch.close)

        gate = ProxyGate(
            front,
            identities,
            table,
            Ways(finder(pool, limits), waker(pool, limits)),
            (Reports(table, watch),),
            watch,
        )
        world = GateWorld(url, conn, pool, signals, identities, table, buffer, watch, gate)
        if run:
            await stack.enter_async_context(running(table))
            await table.hears(conn)
            async with reading_all(identities):
                await stack.enter_async_context(running(identities))
        yield world


@asynccontextmanager
async def running(part: RouteTable | Identities | Watch) -> AsyncIterator[None]:
    """It follows what it follows, as long as the block lasts."""
    task = asyncio.create_task(part.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def reading_all(identities: Identities) -> AsyncIterator[None]:
    """Begun in this block, it listens at its end, and has read what it missed before.

    Whoever looks at what it knows earlier than that finds it renewed a moment later.
    """
    done, refresh = asyncio.Event(), identities.refresh

    async def refreshed() -> None:
        await refresh()
        done.set()

    identities.refresh = refreshed  # type: ignore[method-assign]
    yield
    async with asyncio.timeout(PATIENCE):
        await done.wait()
    identities.refresh = refresh  # type: ignore[method-assign]


class HeardTable(RouteTable):
    """A table that remembers of which workspaces it asked."""

    def __init__(self, pool: Pool, url: str, *, interval: float = HOURLY) -> None:
        super().__init__(pool, url, interval=interval)
        self.reads: list[frozenset[UUID] | None] = []

    async def _read(self, ids: Iterable[UUID] | None) -> list[Route]:
        found = await super()._read(ids)
        self.reads.append(None if ids is None else frozenset(ids))
        return found

    async def hears(self, conn: AsyncConnection[DictRow]) -> None:
        """Until it was told something, and asked about it: from now on it is told everything."""
        mark = uuid4()
        async with asyncio.timeout(PATIENCE):
            while not any(mark in ids for ids in self.reads if ids is not None):
                await conn.execute("SELECT pg_notify('ws_sse', %s)", (f'{{"id": "{mark}"}}',))
                await asyncio.sleep(0.01)


async def until(condition: Callable[[], object]) -> None:
    """Returns once it holds; somebody else is at work on it."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (what is waited for tells nobody)
            await asyncio.sleep(0.005)
