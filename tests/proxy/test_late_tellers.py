"""A page that opens its WebSocket before it tells of itself: the doubt ends when it does tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.engage import ALIVE_SECONDS, DOUBT_SECONDS, MOST_PAGES
from codehub.proxy.request_watch import MOMENT
from tests.proxy.gate_world import running, until
from tests.proxy.test_silent_pages import LAB, STRICT, Browser
from tests.proxy.test_watch import TEXT, Proxy, hears, proxies

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.proxy.request_watch import RequestWatch

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def proxy(database_url: str, redis_url: str) -> AsyncIterator[Proxy]:
    async with proxies(database_url, redis_url) as (one,):
        yield one


def sends(proxy: Proxy, socket: RequestWatch) -> dict[str, float]:
    """Something goes out on a WebSocket; what that counts as."""
    proxy.now += 2 * MOMENT
    proxy.taken()
    socket.frame(TEXT, 5, b"hello", from_client=True)
    return proxy.taken()


async def test_a_page_that_tells_after_its_socket_is_open_falls_asleep(proxy: Proxy) -> None:
    browser = Browser(proxy)
    page = browser.open(LAB)
    socket = browser.socket()
    assert sends(proxy, socket) == {"traffic": 0}, "nobody knows yet"
    browser.tells(page)
    assert sends(proxy, socket) == {}
    browser.waits(2 * DOUBT_SECONDS, telling=page)
    assert sends(proxy, socket) == {}


async def test_so_it_does_however_late_something_is_sent(proxy: Proxy) -> None:
    """Whether anybody looked meanwhile or not."""
    browser = Browser(proxy)
    page, socket = browser.open(LAB), browser.socket()
    browser.waits(3 * DOUBT_SECONDS, telling=page)
    for _ in range(MOST_PAGES // 2):
        browser.lives(f"{LAB}/{proxy.now}")
        proxy.now += 1
    assert sends(proxy, socket) == {}


async def test_the_doubt_about_another_page_that_never_tells_stays(proxy: Proxy) -> None:
    browser = Browser(proxy)
    browser.open(STRICT)
    page, socket = browser.open(LAB), browser.socket()
    browser.waits(2 * DOUBT_SECONDS, telling=page)
    assert sends(proxy, socket) == {"traffic": 0}, "it may be that one's own"


async def test_what_it_told_before_it_was_opened_anew_says_nothing(proxy: Proxy) -> None:
    """It is another document now, and may be one that cannot."""
    browser = Browser(proxy)
    other = browser.lives("/w/api/tree")
    browser.lives()
    browser.waits(2 * ALIVE_SECONDS, telling=other)
    page, socket = browser.open(LAB), browser.socket()
    browser.waits(2 * DOUBT_SECONDS, telling=other)
    assert sends(proxy, socket) == {"traffic": 0}
    browser.tells(page)
    assert sends(proxy, socket) == {}


async def test_a_page_that_is_forgotten_has_not_told(proxy: Proxy) -> None:
    """There may be many; the doubt is in the favour of whoever works in one."""
    browser = Browser(proxy)
    browser.open(STRICT)
    socket, page = browser.socket(), browser.lives()
    for number in range(MOST_PAGES + 1):
        browser.open(f"{STRICT}/{number}")
    browser.waits(2 * DOUBT_SECONDS, telling=page)
    assert sends(proxy, socket) == {"traffic": 0}


async def test_what_another_process_was_told_counts(database_url: str, redis_url: str) -> None:
    async with proxies(database_url, redis_url, 2) as (one, other), running(other.watch):
        await hears(other, one)
        here = Browser(one)
        there = Browser(other, here.to, here.who)
        page, socket = there.open(LAB), there.socket()
        assert sends(other, socket) == {"traffic": 0}
        here.tells(page)
        await until(lambda: sends(other, socket) == {})
