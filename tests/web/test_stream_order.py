"""Nobody gets an old state after a newer one, however snapshots and changes come together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from codehub.model.states import Phase
from codehub.store.connect import connect
from codehub.store.streams import read_owned
from codehub.web import stream_reader
from tests.integration.stored import insert
from tests.web.stream_world import stream_world
from tests.web.web_world import at_rest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.store.streams import Sight
    from tests.web.stream_world import Follower, StreamWorld

    Conn = AsyncConnection[DictRow]
    Asked = Sequence[tuple[str, UUID]]
    Found = dict[tuple[str, UUID], list[Sight]]

pytestmark = pytest.mark.anyio

A_WHILE = 0.3
NAMES = [f"cy-{number:02}" for number in range(12)]
ROUNDS = 150
COUNT_ON = "UPDATE workspaces SET memo = (memo::int + 1)::text WHERE name LIKE %s"


async def hammer(url: str, pattern: str) -> None:
    """Count on, one write after the other."""
    async with await connect(url) as conn:
        for _ in range(ROUNDS):
            await conn.execute(COUNT_ON, (pattern,))


async def newest(tab: Follower, wanted: str) -> dict[str, int]:
    """What the tab has of each when all have counted to the end; it must never count back."""
    seen: dict[str, int] = {}
    whole = False
    while not whole or set(seen.values()) != {int(wanted)}:
        found = await tab.next()
        assert found.kind in ("snapshot", "workspace_updated"), found
        items = found.data["items"] if found.kind == "snapshot" else [found.data]
        whole = whole or found.data.get("last", False)
        for each in items:
            count = int(each["memo"])
            assert count >= seen.get(each["name"], 0), "this is older than what was told before"
            seen[each["name"]] = count
    return seen


async def newcomers(world: StreamWorld, until: asyncio.Task[None]) -> list[asyncio.Task[object]]:
    """Tabs that open one after the other while something goes on."""
    tabs: list[asyncio.Task[object]] = []
    cookies = [await world.cookie(name) for name in ("cy", "root")]
    while not until.done() and len(tabs) < 40:
        for cookie, query in zip(cookies, ("", "?owner=cy"), strict=True):
            tab = await world.follow(cookie, query)
            tabs.append(asyncio.create_task(newest(tab, str(ROUNDS))))
        await asyncio.sleep(0.05)
    return tabs


@pytest.mark.parametrize("page", [200, 5], ids=["whole", "in parts"])
async def test_snapshots_and_changes_under_a_hammering_writer(
    database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(stream_reader, "PAGE", page)
    monkeypatch.setattr(stream_reader, "GATHER_SECONDS", 0.002)
    async with stream_world(database_url, redis_url, web_streams_per_user=100) as world:
        made = [at_rest(name, 100 + at, Phase.STANDBY, "cy") for at, name in enumerate(NAMES)]
        await insert(world.conn, *made)
        await world.run("UPDATE workspaces SET memo = '0' WHERE name LIKE 'cy-%'")
        first = asyncio.create_task(newest(await world.tab("cy"), str(ROUNDS)))
        writers = asyncio.gather(hammer(database_url, "cy-0%"), hammer(database_url, "cy-1%"))
        writing = asyncio.ensure_future(writers)
        tabs = await newcomers(world, writing)  # type: ignore[arg-type]
        await writing
        for each in (first, *tabs):
            assert await each == dict.fromkeys(NAMES, ROUNDS)
        assert len(tabs) > 2


async def test_what_changes_while_a_snapshot_is_read_comes_after_it(
    database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot takes long, and is old when it arrives: the change must not have come before."""
    async with stream_world(database_url, redis_url) as world:
        early = await world.tab("bob")
        await early.all()

        async def read_slowly(conn: Conn, asked: Asked, limit: int) -> Found:
            found = await read_owned(conn, asked, limit)
            await world.change("bob-running", memo="meanwhile")
            # Long enough for whoever would not wait to read the change, and to hand it out.
            await asyncio.sleep(A_WHILE)
            return found

        monkeypatch.setattr(stream_reader, "read_owned", read_slowly)
        late = await world.tab("bob")
        assert {each["memo"] for each in await late.all()} == {""}
        for tab in (early, late):
            assert (await tab.update_of("bob-running"))["memo"] == "meanwhile"
