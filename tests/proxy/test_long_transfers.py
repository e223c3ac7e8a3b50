"""A body that is still on its way is traffic, and judged like all traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.proxy.heads_of import head
from tests.proxy.test_watch import AUTO, CONNECTIONS, TRAFFIC, Proxy, proxies, route, somebody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.model.workspace import ActivityPolicy

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def proxy(database_url: str, redis_url: str) -> AsyncIterator[Proxy]:
    async with proxies(database_url, redis_url) as (one,):
        yield one


@pytest.mark.parametrize("policy", [AUTO, TRAFFIC])
async def test_what_moves_is_traffic_as_long_as_it_does(
    proxy: Proxy, policy: ActivityPolicy
) -> None:
    watcher = proxy.watch.watcher(route(policy), head(), somebody())
    watcher.answered(200)
    proxy.taken()
    for _ in range(3):
        proxy.now += 300
        watcher.moving()
        assert proxy.taken() == {"traffic": 0}


async def test_it_tells_nothing_where_traffic_does_not(proxy: Proxy) -> None:
    who = somebody()
    quiet = head(headers={"X-CodeHub-No-Activity": "1"})
    proxy.watch.watcher(route(TRAFFIC), quiet, who).moving()
    proxy.watch.watcher(route(CONNECTIONS), head(), who).moving()
    assert proxy.taken() == {}


async def test_a_session_with_a_living_page_is_judged_by_input(proxy: Proxy) -> None:
    """A program of the same person has no page, so its transfer counts."""
    to, person, program = route(AUTO), somebody(), somebody()
    proxy.watch.reported(to, person, by_input=False)
    proxy.watch.watcher(to, head(), person).moving()
    assert proxy.taken() == {}
    proxy.watch.watcher(to, head(), program).moving()
    assert proxy.taken() == {"traffic": 0}
