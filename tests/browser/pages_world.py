"""A real proxy over a real database, a workspace behind it, and somebody with a real browser."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.proxy.process import Listening, serve_proxy
from codehub.service.passwords import hash_password
from codehub.store.connect import connect
from codehub.store.users import upsert_users
from tests.auth.people import CHEAP, PASSWORD
from tests.browser.driven import driven
from tests.integration.stored import change, insert, live
from tests.make import user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Workspace
    from tests.browser.driven import Tab

T = TypeVar("T")

PAGE = (
    b"<!doctype html><title>workspace</title><link rel=icon href=data:,>"
    b"<h1>This is the workspace</h1>"
)
HIDDEN = PAGE + b"<form method=post><button>Send it</button></form>"
"""At `/hidden`, with a policy that says to nobody where a request comes from."""
SENT = PAGE + b"<p>It was sent</p>"


@dataclass
class PagesWorld:
    """`port` is the proxy's, `workspace_port` that of the application behind it."""

    port: int
    workspace_port: int
    conn: AsyncConnection[DictRow]
    tab: Tab

    async def add(self, *rows: Workspace) -> None:
        await insert(self.conn, *rows)
        await upsert_users(self.conn, [user("alice", password_hash=hash_password(PASSWORD, CHEAP))])

    async def change(self, name: str, **columns: Any) -> None:
        await change(self.conn, name, **columns)

    async def runs(self, name: str = "api") -> None:
        """It has come, and answers."""
        await self.change(
            name,
            phase="RUNNING",
            operation="NONE",
            op_id=None,
            op_started_at=None,
            upstream_host="127.0.0.1",
            upstream_port=self.workspace_port,
        )

    async def sleeps(self, name: str = "api") -> None:
        """It was stopped."""
        nowhere = {"upstream_host": None, "upstream_port": None}
        await self.change(name, phase="STANDBY", desired_state="STANDBY", **nowhere)

    async def desired(self, name: str = "api") -> str:
        return (await live(self.conn, name)).intent.desired.value

    async def becomes(self, name: str, desired: str) -> None:
        async with asyncio.timeout(60):
            while await self.desired(name) != desired:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def do(self, work: Callable[[Tab], T]) -> T:
        """Something in the browser, while the proxy goes on."""
        return await asyncio.to_thread(work, self.tab)

    def url(self, path: str, host: str = "localhost") -> str:
        return f"http://{host}:{self.port}{path}"

    async def logs_in(self) -> None:
        def type_it(tab: Tab) -> None:
            tab.open(self.url("/login?next=/logout"))
            fill_in(tab, PASSWORD)
            tab.until("document.body.innerText.includes('Log out?')")

        await self.do(type_it)


def fill_in(tab: Tab, password: str, name: str = "alice") -> None:
    """The login form, by keyboard alone."""
    tab.until("document.activeElement && document.activeElement.id === 'name'")
    tab.type(name)
    tab.key("Tab")
    tab.type(password)
    tab.key("Enter")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            asked = await reader.readuntil(b"\r\n\r\n")
            body = SENT if asked.startswith(b"POST ") else PAGE
            policy = b"strict-origin-when-cross-origin"
            if asked.startswith(b"GET /hidden "):
                body, policy = HIDDEN, b"no-referrer"
            head = (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nReferrer-Policy: %b\r\n"
                b"Content-Length: %d\r\n\r\n"
            )
            writer.write(head % (policy, len(body)) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@asynccontextmanager
async def pages_world(url: str, redis_url: str, directory: Path) -> AsyncIterator[PagesWorld]:
    settings = Settings(proxy_drain_seconds=0.1)
    signals = RedisSignals(redis_url, prefix=f"pages-{uuid4().hex}")
    workspace = await asyncio.start_server(_serve, "127.0.0.1", 0)
    try:
        async with (
            await connect(url) as conn,
            serve_proxy(settings, url, signals, directory, Listening(port=0)) as port,
        ):
            behind = workspace.sockets[0].getsockname()[1]
            with driven(directory) as tab:
                yield PagesWorld(port, behind, conn, tab)
    finally:
        workspace.close()
        await signals.close()
