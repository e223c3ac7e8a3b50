"""Following the audit: every event once, however late its transaction commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.events import EventKind
from codehub.service import following
from codehub.service.following import LOOKING_BACK, Follower, begin, read_after
from codehub.store.connect import connect, transaction
from codehub.store.events import append, entry, id_before, last_event
from tests.integration.stored import number

if TYPE_CHECKING:
    from psycopg import AsyncConnection

pytestmark = pytest.mark.anyio


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def told(new: str, key: int = 1, kind: EventKind = EventKind.PHASE) -> dict[str, str]:
    return entry(number(key), "api", kind, old="", new=new, source="controller", by="c1")


async def news(follower: Follower, conn: AsyncConnection[Any]) -> list[str]:
    return [each.new for each in await follower.look(conn, None)]


async def test_a_follower_begins_after_what_is_there(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await append(conn, [told("old")])
        follower = await begin(conn, None, Clock())

        assert await news(follower, conn) == []
        await append(conn, [told("new")])
        assert await news(follower, conn) == ["new"]
        assert await news(follower, conn) == []


async def test_what_commits_late_is_found_until_it_is_very_late(database_url: str) -> None:
    clock = Clock()
    async with await connect(database_url) as conn, await connect(database_url) as slow:
        follower = await begin(conn, None, clock)
        async with transaction(slow):
            await append(slow, [told("late")])
            await append(conn, [told("early")])
            assert await news(follower, conn) == ["early"]
            clock.now += LOOKING_BACK - 1
            assert await news(follower, conn) == []
        assert await news(follower, conn) == ["late"]


async def test_who_commits_later_than_that_is_missed(database_url: str) -> None:
    """The price of not reading everything again for ever."""
    clock = Clock()
    async with await connect(database_url) as conn, await connect(database_url) as slow:
        follower = await begin(conn, None, clock)
        async with transaction(slow):
            await append(slow, [told("too late")])
            await append(conn, [told("early")])
            assert await news(follower, conn) == ["early"]
            clock.now += LOOKING_BACK + 1
            assert await news(follower, conn) == []
        await append(conn, [told("later")])
        assert await news(follower, conn) == ["later"]


async def test_a_begin_among_many_still_sees_late_ones(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PAGE", 2)
    async with await connect(database_url) as conn, await connect(database_url) as slow:
        await append(conn, [told(str(each)) for each in range(3)])
        async with transaction(slow):
            await append(slow, [told("late")])
            await append(conn, [told("last")])
            follower = await begin(conn, None, Clock())
        assert await news(follower, conn) == ["late"]


async def test_all_pages_are_read(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PAGE", 2)
    async with await connect(database_url) as conn:
        await append(conn, [told(str(each)) for each in range(5)])

        assert [each.new for each in await read_after(conn, None, 0)] == list("01234")
        assert [each.new for each in await read_after(conn, None, 0, 3)] == list("012")


async def test_the_last_event_of_a_kind(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await append(conn, [told("a"), told("b"), told("c", kind=EventKind.ERROR), told("d", 2)])

        found = await last_event(conn, number(1), EventKind.PHASE)
        assert found is not None
        assert found.new == "b"
        assert await last_event(conn, number(3), EventKind.PHASE) is None


async def test_no_event_within_a_while_begins_at_the_end(database_url: str) -> None:
    from datetime import timedelta

    async with await connect(database_url) as conn:
        assert await id_before(conn, timedelta(hours=1)) == 0
        await append(conn, [told("a")])
        await conn.execute("ALTER TABLE workspace_events DISABLE TRIGGER USER")
        await conn.execute("UPDATE workspace_events SET at = at - interval '1 day'")
        (only,) = await read_after(conn, None, 0)
        assert await id_before(conn, timedelta(hours=1)) == only.id
        assert await id_before(conn, timedelta(days=2)) == only.id - 1
