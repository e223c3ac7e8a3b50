"""A workspace becomes another's just when somebody asks for something: they have lost it already.

The change of hands is under way, and not committed, when the asker comes; so whoever looks without
the row's lock still sees the old owner.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.states import DesiredState, IntentSource, Phase
from codehub.model.workspace import Intent, Status
from codehub.store.connect import connect, transaction
from codehub.store.events import events
from codehub.store.users import read_user_ids
from tests.integration.stored import change, live
from tests.make import workspace
from tests.proxy.gate_world import PATIENCE, gate_world
from tests.proxy.heads_of import VISIT, head
from tests.proxy.own_world import own_world
from tests.proxy.test_own_actions import shown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from codehub.model.workspace import Workspace

pytestmark = pytest.mark.anyio

WAITING = (
    "SELECT count(*) AS n FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


def asleep(phase: Phase = Phase.STANDBY) -> Workspace:
    intent = Intent(DesiredState.STANDBY, IntentSource.TTL)
    return workspace("api", status=Status(phase), intent=intent)


@asynccontextmanager
async def handed_over(database_url: str, to: str) -> AsyncIterator[None]:
    """Committed at the end of the block."""
    async with await connect(database_url) as conn, transaction(conn):
        await change(conn, "api", owner_user_id=(await read_user_ids(conn))[to])
        yield


async def meets(database_url: str, asking: Awaitable[Any], to: str) -> Any:
    """What comes of asking while the workspace changes hands."""
    async with await connect(database_url) as conn:
        async with handed_over(database_url, to):
            task = asyncio.ensure_future(asking)
            async with asyncio.timeout(PATIENCE):
                while not (await (await conn.execute(WAITING)).fetchone() or {})["n"]:
                    assert not task.done(), "nobody waited for the one who changes it"
                    await asyncio.sleep(0.01)
        return await task


async def test_a_button_does_nothing_to_what_is_anothers_by_now(database_url: str) -> None:
    async with own_world(database_url) as world:
        await world.add(asleep(Phase.PENDING))
        browser = await world.somebody()
        page = await shown(world, browser)
        done = await meets(database_url, browser.send(page, "Start api"), "carol")
        assert done.status == 404
        assert (await live(world.conn, "api")).intent.desired is DesiredState.STANDBY
        assert not [each for each in await events(world.conn, "api") if each.by == "alice"]


async def test_a_visit_does_not_wake_what_is_anothers_by_now(
    database_url: str, redis_url: str
) -> None:
    async with gate_world(database_url, redis_url, run=False) as world:
        await world.add(asleep())
        visit = head(headers=VISIT, cookie=await world.log_in())
        answer = await meets(database_url, world.answer(visit), "carol")
        assert answer.status == 404
        assert (await live(world.conn, "api")).intent.desired is DesiredState.STANDBY
        assert not [each for each in await events(world.conn, "api") if each.by == "alice"]


async def test_who_sees_it_before_and_after_is_refused_nothing(
    database_url: str, redis_url: str
) -> None:
    async with gate_world(database_url, redis_url, run=False) as world:
        await world.add(asleep())
        visit = head(headers=VISIT, cookie=await world.log_in("bob"))
        await meets(database_url, world.answer(visit), "carol")
        assert (await live(world.conn, "api")).intent.desired is DesiredState.RUNNING
