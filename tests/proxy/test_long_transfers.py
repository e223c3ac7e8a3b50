"""A body that is still on its way: somebody waits for it, unless it is a stream without an end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codehub.proxy.visit import opens_page
from tests.proxy.heads_of import FETCH, VISIT, head
from tests.proxy.test_silent_pages import Browser
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
        watcher.moving(ends=False)
        assert proxy.taken() == {"traffic": 0}


async def test_it_tells_nothing_where_traffic_does_not(proxy: Proxy) -> None:
    who = somebody()
    quiet = head(headers={"X-CodeHub-No-Activity": "1"})
    for ends in (True, False):
        proxy.watch.watcher(route(TRAFFIC), quiet, who).moving(ends=ends)
        proxy.watch.watcher(route(AUTO), quiet, who).moving(ends=ends)
        proxy.watch.watcher(route(CONNECTIONS), head(), who).moving(ends=ends)
    assert proxy.taken() == {}


async def test_a_stream_beside_a_living_page_is_judged_by_input(proxy: Proxy) -> None:
    """A program of the same person has no page, so its transfer counts."""
    to, person, program = route(AUTO), somebody(), somebody()
    proxy.watch.reported(to, person, by_input=False)
    proxy.watch.watcher(to, head(), person).moving(ends=False)
    assert proxy.taken() == {}
    proxy.watch.watcher(to, head(), program).moving(ends=False)
    assert proxy.taken() == {"traffic": 0}


@pytest.mark.parametrize(
    ("path", "headers", "method"),
    [("/w/api/files/big.iso", VISIT, "GET"), ("/w/api/contents/big", FETCH, "PUT")],
    ids=["download", "upload"],
)
async def test_nobody_is_cut_off_who_waits_for_a_file_beside_a_living_page(
    proxy: Proxy, path: str, headers: dict[str, str], method: str
) -> None:
    """For an hour, which is far longer than a page is in doubt that does not tell."""
    browser = Browser(proxy)
    page = browser.lives()
    asked = head(path, headers, method=method)
    watcher = proxy.watch.watcher(browser.to, asked, browser.who, opens=opens_page(asked))
    for _ in range(60):
        browser.waits(60, telling=page)
        proxy.taken()
        watcher.moving(ends=True)
        assert proxy.taken() == {"traffic": 0}
