"""Logins and tokens that end, in every way there is: nothing stays open that was opened with them.

A WebSocket and a page that follows are open through a real proxy, which asks the database by itself
so rarely that it must be told; a natural end nobody tells of, so there it asks every second.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from codehub.model.access import Scope
from codehub.model.states import DesiredState, Operation, Phase
from codehub.model.workspace import Intent, Status
from codehub.proxy.frames import POLICY
from codehub.service.tokens import create_token
from tests.integration.stored import insert
from tests.make import NOW, workspace
from tests.proxy.whole_world import PATIENCE, whole

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy.whole_world import Whole

pytestmark = pytest.mark.anyio

RARELY = 600
LATER = "SET expires_at = now() + interval '1 second'"
TOLD = {
    "a logout": ("session", "UPDATE sessions SET revoked_at = now()"),
    "a session cut short": ("session", "UPDATE sessions SET expires_at = now()"),
    "a session removed": ("session", "DELETE FROM sessions"),
    "a token revoked": ("token", "UPDATE api_tokens SET revoked_at = now()"),
    "a token cut short": ("token", "UPDATE api_tokens SET expires_at = now()"),
    "a token for less": ("token", "UPDATE api_tokens SET scopes = '[\"plan\"]'"),
    "a user disabled, by session": ("session", "UPDATE users SET disabled_at = now()"),
    "a user disabled, by token": ("token", "UPDATE users SET disabled_at = now()"),
}
BY_ITSELF = {
    "a session that runs out": ("session", f"UPDATE sessions {LATER}"),
    "a token that runs out": ("token", f"UPDATE api_tokens {LATER}"),
}


async def follow(proxy: Whole, shown: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A page that waits for a workspace which never comes."""
    starting = Status(
        Phase.STANDBY, operation=Operation.STARTING, op_id=UUID(int=9), op_started_at=NOW
    )
    waiting = workspace("web", number=2, intent=Intent(DesiredState.RUNNING), status=starting)
    await insert(proxy.conn, waiting)
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    proxy.writers.append(writer)
    writer.write(proxy.get("/_codehub/follow/web", shown))
    async with asyncio.timeout(PATIENCE):
        await reader.readuntil(b"event: state\n")
    return reader, writer


async def ends(proxy: Whole, kind: str, sql: str) -> None:
    made = await create_token(
        proxy.conn, "alice", "all", [Scope.READ, Scope.WAKE], timedelta(days=1), by="test"
    )
    cookie, bearer = f"Cookie: codehub={proxy.secret}", f"Authorization: Bearer {made.secret}"
    shown = cookie if kind == "session" else bearer
    more = () if kind == "session" else (bearer,)
    socket = await proxy.socket(proxy.secret if kind == "session" else "", *more)
    assert await socket.echoes(b"open")
    reader, _ = await follow(proxy, shown)
    await proxy.conn.execute(sql.encode())
    assert await socket.ended_with() == POLICY
    async with asyncio.timeout(PATIENCE):
        await reader.read()
    for target in ("/w/api/", "/_codehub/follow/web"):
        answer = await proxy.ask(proxy.get(target, shown))
        assert answer.split(b" ", 2)[1] in (b"401", b"403"), answer


@pytest.mark.parametrize("name", TOLD)
async def test_what_ends_takes_along_what_is_open(
    database_url: str, redis_url: str, tmp_path: Path, name: str
) -> None:
    async with whole(database_url, redis_url, tmp_path, auth_refresh_seconds=RARELY) as proxy:
        await ends(proxy, *TOLD[name])


@pytest.mark.parametrize("name", BY_ITSELF)
async def test_so_does_what_ends_by_itself(
    database_url: str, redis_url: str, tmp_path: Path, name: str
) -> None:
    async with whole(database_url, redis_url, tmp_path, auth_refresh_seconds=1) as proxy:
        await ends(proxy, *BY_ITSELF[name])
