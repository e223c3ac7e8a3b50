"""Safari never says that a person asked: it wakes all the same, and a tab that reloads does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.states import DesiredState
from tests.integration.stored import live
from tests.proxy.gate_world import asleep, gate_world
from tests.proxy.heads_of import VISIT, head
from tests.proxy.test_visit import AGAIN, SAFARI, from_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.proxy.seam import RequestHead
    from tests.proxy.gate_world import GateWorld

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[GateWorld]:
    async with gate_world(database_url, redis_url) as made:
        await made.add(asleep())
        yield made


async def shown(world: GateWorld, asked: RequestHead) -> str:
    """The page that somebody who is logged in gets to see."""
    asked.headers.append((b"Cookie", b"codehub=%b" % (await world.log_in()).encode()))
    body = (await world.answer(asked)).body
    assert isinstance(body, bytes)
    return body.decode()


async def is_woken(world: GateWorld) -> bool:
    return (await live(world.conn, "api")).intent.desired is DesiredState.RUNNING


async def test_a_person_in_safari_wakes_it_and_the_page_does_not_do_so_again(
    world: GateWorld,
) -> None:
    page = await shown(world, head(headers=SAFARI))
    assert await is_woken(world)
    assert AGAIN in page, "by its address, as the browser would not tell"
    assert AGAIN not in await shown(world, head(headers=VISIT))


async def test_a_tab_that_reloads_itself_is_told_that_it_sleeps(world: GateWorld) -> None:
    for asked in (from_page("/w/api/"), from_page("/w/api/lab")):
        assert "<h1>api is asleep" in (await shown(world, asked)).replace("\n", "")
    marked = await shown(world, head(f"/w/api/?{AGAIN}", SAFARI))
    assert "asleep" in marked
    assert not await is_woken(world)


@pytest.mark.parametrize("name", ["Sec-Purpose", "Purpose", "X-Moz"])
async def test_what_is_fetched_ahead_wakes_nothing(world: GateWorld, name: str) -> None:
    await shown(world, head(headers=VISIT | {name: "prefetch"}))
    assert not await is_woken(world)
