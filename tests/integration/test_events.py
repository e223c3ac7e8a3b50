"""The audit: appended in order, read from either end, never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from codehub.model.events import EventKind
from codehub.store.activity import record_activity
from codehub.store.connect import connect, transaction
from codehub.store.events import append, entry, events
from tests.integration.stored import change, count, insert, live, number
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import AsyncConnection

pytestmark = pytest.mark.anyio


def moved(key: int, name: str, new: str) -> dict[str, str]:
    return entry(
        number(key), name, EventKind.PHASE, old="PENDING", new=new, source="controller", by="c1"
    )


async def reads(conn: AsyncConnection[Any], *asked: Any, **more: Any) -> list[str]:
    return [one.new for one in await events(conn, *asked, **more)]


async def test_an_event_comes_back_with_the_servers_time(database_url: str) -> None:
    async with await connect(database_url) as conn:
        async with transaction(conn):
            row = await (await conn.execute("SELECT now() AS now")).fetchone()
            await append(conn, [moved(1, "api", "STANDBY") | {"reason": "why not"}])
        (one,) = await events(conn)

        assert row is not None
        assert (one.at, one.workspace_id, one.workspace) == (row["now"], number(1), "api")
        assert (one.kind, one.old, one.new) == (EventKind.PHASE, "PENDING", "STANDBY")
        assert (one.source, one.by, one.reason) == ("controller", "c1", "why not")


async def test_events_keep_the_order_they_were_given(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await append(conn, [moved(9 - n, "api", str(n)) for n in range(9)])

        assert await reads(conn) == [str(n) for n in range(9)]


async def test_the_latest_are_read_oldest_first(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await append(conn, [moved(1, "api", str(n)) for n in range(5)])

        assert await reads(conn, limit=2) == ["3", "4"]


async def test_whoever_follows_gets_what_came_after(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await append(conn, [moved(1, "api", str(n)) for n in range(5)])
        first, *_ = await events(conn)

        assert await reads(conn, since_id=first.id, limit=2) == ["1", "2"]
        assert await reads(conn, since_id=(await events(conn))[-1].id) == []


async def test_one_workspace_is_read_by_name_or_id(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, workspace("api", number=1), workspace("lab", number=2))
        await append(conn, [moved(1, "old-name", "a"), moved(2, "lab", "b"), moved(1, "api", "c")])

        assert await reads(conn, "api") == ["a", "c"]
        assert await reads(conn, number(2)) == ["b"]
        assert await reads(conn, "nobody") == []
        assert await reads(conn, "api", since_id=0, limit=1) == ["a"]


async def test_appending_nothing_is_fine(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await append(conn, [])

        assert await count(conn, "workspace_events") == 0


async def test_the_audit_cannot_be_rewritten(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await append(conn, [moved(1, "api", "STANDBY")])

        with pytest.raises(psycopg.errors.RestrictViolation):
            await conn.execute("UPDATE workspace_events SET by = 'nobody'")
        with pytest.raises(psycopg.errors.RestrictViolation):
            await conn.execute("DELETE FROM workspace_events")
        assert await reads(conn) == ["STANDBY"]


async def test_activity_moves_forward_only_and_never_past_now(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await insert(conn, *(workspace(name, number=n) for n, name in enumerate("abcd", 1)))
        await change(conn, "b", last_access_at=NOW, last_access_source="input")
        row = await (await conn.execute("SELECT now() AS now")).fetchone()
        assert row is not None
        seen: dict[Any, datetime | None] = {
            number(1): NOW,
            number(2): NOW.replace(year=2020),
            number(3): NOW.replace(year=2999),
            number(4): None,
        }

        assert await record_activity(conn, seen, "traffic") == 3
        at = {name: (await live(conn, name)).activity for name in "abcd"}
        assert (at["a"].last_access_at, at["a"].source) == (NOW, "traffic")
        assert (at["b"].last_access_at, at["b"].source) == (NOW, "input")
        for name in "cd":
            recorded = at[name].last_access_at
            assert recorded is not None
            assert row["now"] <= recorded
            assert recorded.year < 2999
