"""A workspace becomes somebody else's, or a person may see less: what is open to it is hung up.

Everything is real but the workspace; the proxy hears of it from the database, and asks it by
itself so rarely here that what it learns it learns by being told.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from codehub.model.access import Person
from codehub.model.people import Role
from codehub.model.states import DesiredState, Operation, Phase
from codehub.model.workspace import Intent, Status
from codehub.proxy.frames import POLICY
from codehub.proxy.held import Held
from codehub.store.users import read_user_ids, upsert_users
from tests.integration.stored import change, insert
from tests.make import NOW, user, workspace
from tests.proxy.gate_world import awake, gate_world, until
from tests.proxy.heads_of import SOCKET, head
from tests.proxy.whole_world import PATIENCE, log_in, whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from tests.proxy.whole_world import Whole

pytestmark = pytest.mark.anyio

RARELY = {"proxy_route_interval": 3600, "auth_refresh_seconds": 600}


@pytest.fixture
async def proxy(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(database_url, redis_url, tmp_path, **RARELY) as made:
        yield made


async def pass_on(conn: AsyncConnection[DictRow], to: str, name: str = "api") -> None:
    await change(conn, name, owner_user_id=(await read_user_ids(conn))[to])


async def test_whose_it_was_loses_the_websocket_and_an_admin_does_not(proxy: Whole) -> None:
    alices = await proxy.socket(proxy.secret)
    bobs = await proxy.socket(await log_in(proxy.conn, "bob"))
    assert await alices.echoes(b"mine")
    await pass_on(proxy.conn, "carol")
    assert await alices.ended_with() == POLICY
    assert await bobs.echoes(b"still here")
    carols = await proxy.socket(await log_in(proxy.conn, "carol"))
    assert await carols.echoes(b"mine now")
    answer = await proxy.ask(proxy.get("/w/api/", proxy.cookie))
    assert answer.startswith(b"HTTP/1.1 404")


async def test_who_is_no_admin_any_more_loses_what_is_others_and_reaches_their_own(
    proxy: Whole,
) -> None:
    secret = await log_in(proxy.conn, "bob")
    others = await proxy.socket(secret)
    assert await others.echoes(b"allowed")
    await upsert_users(proxy.conn, [user("bob", role=Role.MEMBER)])
    assert await others.ended_with() == POLICY
    await pass_on(proxy.conn, "bob")
    own = await proxy.socket(secret)
    assert await own.echoes(b"mine")
    await upsert_users(proxy.conn, [user("bob", role=Role.ADMIN)])
    assert await own.echoes(b"still mine")


async def test_a_page_that_follows_turns_away(proxy: Whole) -> None:
    starting = Status(
        Phase.STANDBY, operation=Operation.STARTING, op_id=UUID(int=9), op_started_at=NOW
    )
    waiting = workspace("web", number=2, intent=Intent(DesiredState.RUNNING), status=starting)
    await insert(proxy.conn, waiting)
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(proxy.get("/_codehub/follow/web", proxy.cookie))
    async with asyncio.timeout(PATIENCE):
        await reader.readuntil(b"event: state\n")
        await pass_on(proxy.conn, "carol", "web")
        rest = await reader.read()
    writer.close()
    assert b"event: turn\n" in rest


async def test_one_that_opens_while_the_workspace_changes_hands_is_hung_up_too(
    database_url: str, redis_url: str
) -> None:
    """It was let through by what was known a moment ago."""
    async with gate_world(database_url, redis_url) as world:
        await world.add(awake())
        await until(lambda: world.table.find("api"))
        asked = head(headers=SOCKET, cookie=await world.log_in())
        watcher = (await world.forward(asked)).watcher
        await pass_on(world.conn, "carol")
        carol = (await read_user_ids(world.conn))["carol"]
        await until(lambda: getattr(world.table.find("api"), "owner_id", None) == carol)
        ended = asyncio.Event()
        watcher.opened(ended.set)
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
        watcher.closed()


async def test_nothing_is_kept_of_what_is_closed(database_url: str, redis_url: str) -> None:
    async with gate_world(database_url, redis_url) as world:
        await world.add(awake())
        await until(lambda: world.table.find("api"))
        asked = [head(headers=SOCKET, cookie=await world.log_in()) for _ in range(3)]
        watchers = [(await world.forward(each)).watcher for each in asked]
        for each in watchers:
            each.opened(lambda: None)
        assert (len(world.identities._open), len(world.table._open)) == (3, 1)
        for each in watchers:
            each.closed()
        assert (len(world.identities._open), len(world.table._open)) == (0, 0)


def test_one_that_cannot_be_closed_keeps_nobody_else_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held, ended = Held(), list[str]()
    alice, bob = (Person(UUID(int=n), f"p{n}", Role.MEMBER) for n in (1, 2))

    def fail() -> None:
        raise RuntimeError("stuck")

    held.add(UUID(int=7), alice, fail)
    held.add(UUID(int=7), alice, lambda: ended.append("alice"))
    release = held.add(UUID(int=7), bob, lambda: ended.append("bob"))
    held.end(UUID(int=7), unless=lambda person: person is bob)
    assert ended == ["alice"]
    assert "stuck" in caplog.text
    held.end(UUID(int=7), unless=lambda person: person is bob)
    assert ended == ["alice"], "once is enough"
    release()
    held.end(UUID(int=7))
    assert (ended, len(held)) == (["alice"], 0)
