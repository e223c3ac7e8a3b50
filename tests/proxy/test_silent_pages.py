"""Somebody at work in a page that cannot tell of it, while other pages of theirs tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.engage import ALIVE_SECONDS, DOUBT_SECONDS, KNOWN_SECONDS, MOST_PAGES
from codehub.proxy.visit import opens_page
from tests.proxy.gate_world import running, until
from tests.proxy.heads_of import FETCH, HOST, RELOAD, SOCKET, VISIT, head
from tests.proxy.test_watch import AUTO, TEXT, TRAFFIC, Proxy, hears, proxies, route, somebody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.model.access import Identity
    from codehub.model.route import Route
    from codehub.proxy.request_watch import RequestWatch

pytestmark = pytest.mark.anyio

LAB, STRICT = "/w/api/lab", "/w/api/strict"
PLAIN_HTTP = {"Accept": "text/html"}
"""What a browser says of itself where there is no TLS: nothing."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def proxy(database_url: str, redis_url: str) -> AsyncIterator[Proxy]:
    async with proxies(database_url, redis_url) as (one,):
        yield one


class Browser:
    """One session's tabs on one workspace."""

    def __init__(self, proxy: Proxy, to: Route | None = None, who: Identity | None = None) -> None:
        self.proxy = proxy
        self.to = to or route(AUTO)
        self.who = who or somebody()

    def open(self, path: str, headers: dict[str, str] = VISIT, status: int = 200) -> str:
        """Go there; what the page is called that comes back, should its script run."""
        asked = head(path, headers)
        watch, opens = self.proxy.watch, opens_page(asked)
        tag = (watch.script(self.to, asked, b"/w/api") or b"").decode()
        watch.watcher(self.to, asked, self.who, opens=opens).answered(status)
        return tag.partition('data-page="')[2].partition('"')[0]

    def tells(self, page: str) -> None:
        self.proxy.watch.reported(self.to, self.who, by_input=False, page=page)

    def lives(self, path: str = LAB, headers: dict[str, str] = VISIT) -> str:
        """A page that tells of input is open, and nobody touches it."""
        page = self.open(path, headers)
        self.tells(page)
        self.proxy.taken()
        return page

    def works(self, at: str = "", path: str = "/w/api/save") -> dict[str, float]:
        """A page saves something; what that counts as."""
        self.proxy.taken()
        said = FETCH | ({"Referer": f"http://{HOST}{at}?q=1"} if at else {})
        self.proxy.watch.watcher(self.to, head(path, said, method="POST"), self.who).answered(200)
        return self.proxy.taken()

    def socket(self) -> RequestWatch:
        watcher = self.proxy.watch.watcher(self.to, head(headers=SOCKET), self.who)
        watcher.opened(lambda: None)
        return watcher

    def waits(self, seconds: float, *, telling: str) -> None:
        """Time passes, and this page tells every minute that it is open."""
        while seconds > 0:
            self.proxy.now += min(60, seconds)
            seconds -= 60
            self.tells(telling)


# A forgotten page that tells


@pytest.mark.parametrize("headers", [VISIT, RELOAD, PLAIN_HTTP], ids=["visit", "reload", "plain"])
async def test_a_forgotten_page_that_tells_has_no_traffic_counted(
    proxy: Proxy, headers: dict[str, str]
) -> None:
    """Not even where it loads itself anew again and again."""
    browser = Browser(proxy)
    page = browser.lives(headers=headers)
    for _ in range(3):
        browser.waits(300, telling=page)
        assert browser.works(LAB) == {}
        assert browser.open(LAB, headers) == page
        assert proxy.taken() == {}
        assert browser.works(LAB) == {}


async def test_it_counts_for_nothing_in_another_session(proxy: Proxy) -> None:
    browser = Browser(proxy)
    page = browser.lives()
    other = Browser(proxy, browser.to)
    other.open(STRICT)
    assert browser.works() == {}
    browser.tells(page)
    assert other.works() == {"traffic": 0}


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_what_is_no_page_is_not_open(proxy: Proxy, status: int) -> None:
    browser = Browser(proxy)
    browser.lives()
    browser.open(STRICT, status=status)
    assert browser.works() == {}


@pytest.mark.parametrize("dest", ["iframe", "object"])
async def test_a_frame_of_a_page_is_not_another_page(proxy: Proxy, dest: str) -> None:
    """Applications open many, by themselves, and few of them let a script in."""
    browser = Browser(proxy)
    browser.lives()
    browser.open(STRICT, RELOAD | {"Sec-Fetch-Dest": dest})
    assert browser.works() == {}


# Somebody in a page that does not


@pytest.mark.parametrize("first", [True, False])
async def test_who_works_in_a_page_that_cannot_tell_is_seen_by_the_traffic(
    proxy: Proxy, first: bool
) -> None:
    """Whichever of the two was opened first."""
    browser = Browser(proxy)
    if first:
        browser.open(STRICT)
    browser.lives()
    if not first:
        browser.open(STRICT)
        assert proxy.taken() == {"traffic": 0}
    assert browser.works() == {"traffic": 0}
    socket = browser.socket()
    for from_client in (True, False):
        proxy.now += 1
        socket.frame(TEXT, 5, b"hello", from_client=from_client)
        assert proxy.taken() == {"traffic": 0}
    browser.proxy.watch.watcher(browser.to, head("/w/api/upload"), browser.who).moving(ends=False)
    assert proxy.taken() == {"traffic": 0}


async def test_a_page_that_tells_late_has_told(proxy: Proxy) -> None:
    """Until then the doubt is in its person's favour."""
    browser = Browser(proxy)
    lab = browser.lives()
    other = browser.open("/w/api/tree")
    assert browser.works() == {"traffic": 0}
    browser.tells(other)
    assert browser.works() == {}
    browser.waits(ALIVE_SECONDS, telling=lab)
    assert browser.works() == {}


async def test_the_doubt_ends_where_nothing_more_is_seen_of_the_page(proxy: Proxy) -> None:
    """It was closed, for all that can be told: a forgotten page beside it falls asleep."""
    browser = Browser(proxy)
    lab = browser.lives()
    browser.open(STRICT)
    browser.waits(DOUBT_SECONDS - 1, telling=lab)
    assert browser.works(LAB) == {"traffic": 0}
    browser.waits(1, telling=lab)
    assert browser.works(LAB) == {}


async def test_it_lasts_as_long_as_the_idle_time_where_that_is_longer(proxy: Proxy) -> None:
    browser = Browser(proxy, route(AUTO, standby_ttl=7200))
    lab = browser.lives()
    browser.open(STRICT)
    browser.waits(7199, telling=lab)
    assert browser.works() == {"traffic": 0}
    browser.waits(1, telling=lab)
    assert browser.works() == {}


async def test_a_request_that_names_the_page_shows_that_it_is_open(proxy: Proxy) -> None:
    """For as long as that goes on, and after any pause; and then all traffic counts again."""
    browser = Browser(proxy)
    lab = browser.lives()
    browser.open(STRICT)
    for _ in range(5):
        browser.waits(2 * DOUBT_SECONDS, telling=lab)
        assert browser.works(LAB) == {}
        assert browser.works(STRICT) == {"traffic": 0}
        assert browser.works() == {"traffic": 0}


async def test_a_page_that_only_polls_shows_nothing(proxy: Proxy) -> None:
    """It is as forgotten as the other one."""
    browser = Browser(proxy)
    lab = browser.lives()
    browser.open(STRICT)
    poll = head("/w/api/poll", FETCH | {"Referer": f"http://{HOST}{STRICT}"})
    for _ in range(20):
        browser.waits(60, telling=lab)
        proxy.watch.watcher(browser.to, poll, browser.who).answered(200)
    assert browser.works(LAB) == {}


async def test_a_socket_opened_beside_such_a_page_may_be_its_own(proxy: Proxy) -> None:
    """What a person sends on it counts for as long as it is open; what it only gets does not."""
    browser = Browser(proxy)
    lab, before = browser.lives(), browser.socket()
    browser.open(STRICT)
    socket = browser.socket()
    for _ in range(3):
        browser.waits(2 * DOUBT_SECONDS, telling=lab)
        proxy.taken()
        socket.frame(TEXT, 5, b"hello", from_client=False)
        before.frame(TEXT, 5, b"hello", from_client=True)
        assert proxy.taken() == {}
        socket.frame(TEXT, 5, b"hello", from_client=True)
        assert proxy.taken() == {"traffic": 0}, "what came right before must not hide it"


# Where there is no doubt


@pytest.mark.parametrize("more", [{"activity": TRAFFIC}, {"inject": False}])
async def test_where_pages_do_not_tell_nothing_is_remembered_of_them(
    proxy: Proxy, more: dict[str, Any]
) -> None:
    browser = Browser(proxy, route(**more))
    browser.open(STRICT)
    assert proxy.watch._pages.known == 0
    assert browser.works() == {"traffic": 0}


async def test_what_is_remembered_has_an_end(proxy: Proxy) -> None:
    browser = Browser(proxy)
    lab = browser.lives()
    for number in range(MOST_PAGES + 1):
        browser.open(f"{STRICT}/{number}")
    browser.waits(2 * DOUBT_SECONDS, telling=lab)
    assert browser.works(f"{STRICT}/0") == {}
    assert browser.works(f"{STRICT}/1") == {"traffic": 0}
    proxy.now += KNOWN_SECONDS - 1
    proxy.watch.tidy()
    assert proxy.watch._pages.known == 1
    proxy.now += 1
    proxy.watch.tidy()
    assert proxy.watch._pages.known == 0


# Several processes


async def test_what_one_process_gave_is_known_to_all(database_url: str, redis_url: str) -> None:
    async with proxies(database_url, redis_url, 2) as (one, other), running(other.watch):
        await hears(other, one)
        here = Browser(one)
        there = Browser(other, here.to, here.who)
        here.lives()
        await until(lambda: there.works() == {})
        strict = here.open(STRICT)
        await until(lambda: there.works() == {"traffic": 0})
        here.tells(strict)
        await until(lambda: there.works() == {})
