"""A hub with people and workspaces in every phase, and its web application to talk to.

Everything is real but the wire: requests go straight into the application (`httpx.ASGITransport`,
which hands over an answer once it is whole). For what streams, `served` puts it on a port.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import httpx

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.core.fingerprint import fingerprint
from codehub.model.access import Scope, Visitor
from codehub.model.people import Role
from codehub.model.runtime import Upstream
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Activity, Intent, Source, Status
from codehub.proxy.process import Listening
from codehub.service.minting import new_secret
from codehub.service.tokens import create_token
from codehub.store.access import find_account
from codehub.store.connect import connect
from codehub.store.sessions import add_session
from codehub.store.users import upsert_users
from codehub.web.app import create_app
from codehub.web.process import open_hub, serve_web
from tests.integration.stored import insert
from tests.make import user, workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import FastAPI
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace
    from codehub.web.hub import Hub, ReadLogs

PATIENCE = 60
DAY = timedelta(days=1)
ORIGIN = "http://localhost"
API = "/api/v1"
PLENTY = {"limits_max_running_per_user": 1000, "limits_max_running_global": 1000}
SINCE = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


@dataclass
class WebWorld:
    """The application; ana and bob (members) and root (an admin) can be let in."""

    url: str
    conn: AsyncConnection[DictRow]
    """The test's own, in autocommit."""
    settings: Settings
    signals: RedisSignals
    hub: Hub
    app: FastAPI
    clients: AsyncExitStack

    async def anonymous(self, base: str = ORIGIN, **headers: str) -> httpx.AsyncClient:
        """Somebody who shows nothing; on another `base` than ORIGIN, over the wire."""
        wire = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=("127.0.0.1", 4711))
        client = httpx.AsyncClient(
            base_url=base,
            headers=headers,
            transport=wire if base == ORIGIN else None,
            timeout=PATIENCE,
            trust_env=False,
        )
        return await self.clients.enter_async_context(client)

    async def session(self, name: str, base: str = ORIGIN) -> httpx.AsyncClient:
        """A browser with a new login, on a page of ours: cookie, Origin and CSRF token."""
        secret = await self.log_in(name)
        client = await self.anonymous(base, Cookie=f"codehub={secret}", Origin=base)
        me = await client.get(f"{API}/me")
        client.headers["X-CSRF-Token"] = me.raise_for_status().json()["csrf"]
        return client

    async def token(
        self, name: str, *scopes: Scope, base: str = ORIGIN, lasts: timedelta = DAY
    ) -> httpx.AsyncClient:
        """A program with a new token, good for everything unless scopes are named."""
        made = await create_token(
            self.conn, name, f"t-{uuid4().hex[:8]}", scopes or tuple(Scope), lasts, by="test"
        )
        return await self.anonymous(base, Authorization=f"Bearer {made.secret}")

    async def log_in(self, name: str) -> str:
        """The secret of a new session."""
        account, secret = await find_account(self.conn, name), new_secret()
        assert account is not None
        await add_session(self.conn, account.person.id, fingerprint(secret), Visitor(), DAY)
        return secret

    async def add(self, *workspaces: Workspace) -> None:
        await insert(self.conn, *workspaces)

    async def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        cursor = await self.conn.execute(query.encode(), values or None)
        return list(await cursor.fetchall()) if cursor.description else []

    async def everything(self) -> list[str]:
        """All rows of workspaces and their audit, as text: equal if nothing changed."""
        found: list[str] = []
        for table in ("workspaces", "workspace_events"):
            rows = await self.rows(f"SELECT t::text AS row FROM {table} t ORDER BY 1")
            found += [row["row"] for row in rows]
        return found


@asynccontextmanager
async def web_world(url: str, redis_url: str, **chosen: Any) -> AsyncIterator[WebWorld]:
    """People and workspaces of `fill`; limits are out of the way unless `chosen` sets them."""
    settings = Settings(**(PLENTY | chosen))
    signals = RedisSignals(redis_url, prefix=f"web-{uuid4().hex}")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(signals.close)
        conn = await stack.enter_async_context(await connect(url))
        await fill(conn)
        hub = await stack.enter_async_context(open_hub(settings, url, signals))
        await stack.enter_async_context(_running(hub))
        clients = await stack.enter_async_context(AsyncExitStack())
        yield WebWorld(url, conn, settings, signals, hub, create_app(hub), clients)


@asynccontextmanager
async def served(world: WebWorld, logs: ReadLogs | None = None) -> AsyncIterator[str]:
    """The same hub on a port, as long as the block lasts: its address, for `base`."""
    listening = Listening(port=0)
    async with serve_web(world.settings, world.url, world.signals, listening, logs=logs) as port:
        yield f"http://localhost:{port}"


async def fill(conn: AsyncConnection[DictRow]) -> None:
    """ana and bob (members), root (an admin), and a workspace of ana's in every phase."""
    await upsert_users(conn, [user("ana"), user("bob"), user("root", role=Role.ADMIN)])
    await insert(conn, *workspaces())


def workspaces() -> list[Workspace]:
    """Named for whose they are and where they stand."""
    return [
        at_rest("ana-pending", 1, Phase.PENDING, "ana"),
        at_rest("ana-running", 2, Phase.RUNNING, "ana", labels={"team": "payments"}),
        at_rest("ana-standby", 3, Phase.STANDBY, "ana", description="The payments service"),
        at_rest("ana-archived", 4, Phase.ARCHIVED, "ana"),
        _in_error("ana-error", 5, "ana"),
        _starting("ana-starting", 6, "ana"),
        _leaving("ana-deleting", 7, "ana", Status(Phase.DELETING, phase_changed_at=SINCE)),
        _leaving("ana-deleted", 8, "ana", Status(Phase.DELETED, deleted_at=SINCE)),
        at_rest("ana-orphan", 9, Phase.STANDBY, "ana", orphaned=True),
        at_rest("bob-running", 21, Phase.RUNNING, "bob"),
        at_rest("bob-standby", 22, Phase.STANDBY, "bob"),
        at_rest("bob-archived", 23, Phase.ARCHIVED, "bob"),
    ]


def at_rest(name: str, number: int, phase: Phase, owner: str, **more: Any) -> Workspace:
    """One that is where it is desired to be; only RUNNING can be reached."""
    desired = DesiredState.RUNNING if phase is Phase.PENDING else DesiredState(phase.value)
    archived = phase is Phase.ARCHIVED
    status = Status(
        phase,
        phase_changed_at=SINCE,
        upstream=Upstream("127.0.0.1", 4711) if phase is Phase.RUNNING else None,
        archive_key=f"{name}/home.tar.zst" if archived else None,
        archive_bytes=4096 if archived else None,
    )
    return workspace(
        name,
        number=number,
        owner=owner,
        source=Source("workspaces.yaml", number),
        intent=Intent(desired, IntentSource.SPEC, SINCE, "alice"),
        status=status,
        activity=Activity(SINCE, "input"),
        **more,
    )


def _in_error(name: str, number: int, owner: str) -> Workspace:
    status = Status(
        Phase.ERROR,
        phase_changed_at=SINCE,
        error_reason=ErrorReason.RETRY_EXCEEDED,
        error_message="the port never answered",
        error_count=4,
    )
    return workspace(name, number=number, owner=owner, status=status)


def _starting(name: str, number: int, owner: str) -> Workspace:
    status = Status(
        Phase.STANDBY,
        phase_changed_at=SINCE,
        operation=Operation.STARTING,
        op_started_at=SINCE,
        op_id=UUID(int=1),
    )
    return workspace(name, number=number, owner=owner, status=status)


def _leaving(name: str, number: int, owner: str, status: Status) -> Workspace:
    return workspace(
        name, number=number, owner=owner, desired=DesiredState.DELETED, status=status, orphaned=True
    )


@asynccontextmanager
async def _running(hub: Hub) -> AsyncIterator[None]:
    """Logins and their ends are followed, as `serve_web` does it."""
    task = asyncio.create_task(hub.identities.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
