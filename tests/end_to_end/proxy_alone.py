"""`codehub serve proxy` as a process of its own, between a test's database, Redis and workspace."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

from codehub.model.runtime import Upstream
from codehub.service.passwords import hash_password
from codehub.store.connect import connect
from codehub.store.users import upsert_users
from tests.auth.people import CHEAP, PASSWORD
from tests.integration.command_line import NEUTRAL, OURS
from tests.integration.relay import Relay
from tests.integration.stored import insert
from tests.make import user
from tests.proxy.gate_world import awake
from tests.proxy.whole_world import PATIENCE, Whole, Workspace, log_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ADDRESS = re.compile(r"CodeHub proxy on 127\.0\.0\.1:(\d+)")


@dataclass
class Alone:
    """A process, and the way to talk to it as somebody who is logged in."""

    process: subprocess.Popen[bytes]
    said: Path
    proxy: Whole

    async def work(self) -> None:
        """Something that counts as activity, answered."""
        posted = self.proxy.get("/w/api/save", self.proxy.cookie, "Origin: http://localhost")
        answer = await self.proxy.ask(posted.replace(b"GET", b"POST", 1))
        assert answer.startswith(b"HTTP/1.1 200"), answer

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=PATIENCE)


def address_of(relay: Relay) -> str:
    """The relay's address, as settings take it."""
    parts = conninfo_to_dict(relay.url)
    return f"postgresql://{parts['user']}@/{parts['dbname']}?host={quote(str(parts['host']), '')}"


@asynccontextmanager
async def alone(
    database_url: str, redis_url: str, directory: Path, **settings: str
) -> AsyncIterator[Alone]:
    """It serves the workspace `api`, which runs and is alice's; she has a password."""
    workspace = Workspace()
    async with AsyncExitStack() as stack:
        server = await asyncio.start_server(workspace.serve, "127.0.0.1", 0)
        stack.callback(server.close)
        workspace.port = server.sockets[0].getsockname()[1]
        relay = await stack.enter_async_context(Relay(database_url))
        conn = await stack.enter_async_context(await connect(database_url))
        await insert(conn, awake("api", upstream=Upstream("127.0.0.1", workspace.port)))
        await upsert_users(conn, [user("alice", password_hash=hash_password(PASSWORD, CHEAP))])
        env = {"DATABASE_URL": address_of(relay), "REDIS_URL": redis_url, **settings}
        made = await stack.enter_async_context(serving(directory, env))
        proxy = Whole(made[2], workspace, await log_in(conn), "", relay, conn)
        stack.callback(proxy.hang_up)
        yield Alone(made[0], made[1], proxy)


def begin(said: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    plain = {name: value for name, value in os.environ.items() if name not in OURS}
    with said.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "codehub", "serve", "proxy", "--port", "0"],
            cwd=said.parent,
            env={**plain, **NEUTRAL, **env},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )


@asynccontextmanager
async def serving(
    directory: Path, env: dict[str, str]
) -> AsyncIterator[tuple[subprocess.Popen[bytes], Path, int]]:
    """The process, what it says, and its port, once it listens."""
    said = directory / "said"
    process = begin(said, env)
    try:
        async with asyncio.timeout(PATIENCE):
            while not (found := ADDRESS.search(said.read_text())):
                assert process.poll() is None, said.read_text()
                await asyncio.sleep(0.05)
        yield process, said, int(found[1])
    finally:
        process.kill()
        process.wait(timeout=PATIENCE)
