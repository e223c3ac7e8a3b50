"""Who is at the other end: a person, a page by itself, or a program; and how a head is read."""

from __future__ import annotations

import pytest

from codehub.proxy.seam import RequestHead
from codehub.proxy.visit import (
    asked_again,
    is_visit,
    note_again,
    opens_page,
    says_who,
    wants_page,
)
from tests.proxy.heads_of import FETCH, HOST, RELOAD, SOCKET, VISIT, head

HTML = {"Accept": "text/html"}
BASE = b"/w/api"
AGENT = "Mozilla/5.0 ({}) AppleWebKit/{} (KHTML, like Gecko) {}"
CHROME = AGENT.format("X11; Linux x86_64", "537.36", "Chrome/141.0.0.0 Safari/537.36")
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"
IPHONE = "iPhone; CPU iPhone OS 18_6 like Mac OS X"
WEBKITS = {
    "Safari": AGENT.format(
        "Macintosh; Intel Mac OS X 10_15_7", "605.1.15", "Version/18.6 Safari/605.1.15"
    ),
    "Chrome on an iPhone": AGENT.format(
        IPHONE, "605.1.15", "CriOS/141.0.7390.41 Mobile/15E148 Safari/604.1"
    ),
    "Firefox on an iPhone": AGENT.format(
        IPHONE, "605.1.15", "FxiOS/144.0 Mobile/15E148 Safari/605.1.15"
    ),
}
SAFARI = {
    "Sec-Fetch-Dest": "document",
    "User-Agent": WEBKITS["Safari"],
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Sec-Fetch-Site": "none",
    "Sec-Fetch-Mode": "navigate",
    "Accept-Language": "en-GB,en;q=0.9",
    "Priority": "u=0, i",
    "Accept-Encoding": "gzip, deflate, br",
}
"""Somebody opens a page in Safari, over TLS: who asked is not said."""


def from_page(path: str, headers: dict[str, str] = SAFARI) -> RequestHead:
    """Safari goes to the workspace from another page of the same origin."""
    said = {"Sec-Fetch-Site": "same-origin", "Referer": f"https://{HOST}{path}"}
    return head(headers=headers | said)


def without_tls(referer: str) -> RequestHead:
    """Browsers say nothing of who asks then, but name the page that they come from."""
    return head(headers={"Accept": "text/html", "User-Agent": CHROME, "Referer": referer})


def ahead(name: str, value: str, headers: dict[str, str] = VISIT) -> RequestHead:
    """A browser asks for what somebody may want to see next."""
    return head(headers=headers | {name: value})


CASES = {
    "a person in a browser": (head(headers=VISIT), True, True),
    "a browser that says nothing of itself": (
        head(headers={"Accept": "TEXT/HTML,*/*"}),
        True,
        True,
    ),
    "a tab that reloads itself": (head(headers=RELOAD), True, False),
    "a page in a frame of another": (
        head(headers=VISIT | {"Sec-Fetch-Dest": "iframe"}),
        True,
        False,
    ),
    "an object in a page": (head(headers=VISIT | {"Sec-Fetch-Dest": "object"}), True, False),
    "a browser that names no destination": (
        head(headers={k: v for k, v in VISIT.items() if k != "Sec-Fetch-Dest"}),
        True,
        True,
    ),
    "a mark that is none": (head(headers=VISIT | {"Sec-Fetch-User": "?0"}), True, False),
    "a form that is sent": (head(headers=VISIT, method="POST"), False, False),
    "somebody who asks for the head alone": (head(headers=VISIT, method="HEAD"), True, False),
    "a script": (head(headers=FETCH), False, False),
    "a script that takes pages": (head(headers=FETCH | HTML), False, False),
    "an image": (head(headers={"Accept": "image/*", "Sec-Fetch-Mode": "no-cors"}), False, False),
    "a WebSocket": (head(headers=SOCKET), False, False),
    "a WebSocket that takes pages": (
        head(headers={"Accept": "text/html", "Connection": "upgrade", "Upgrade": "websocket"}),
        False,
        False,
    ),
    "Chrome": (head(headers=VISIT | {"User-Agent": CHROME}), True, True),
    "Chrome, where a tab reloads itself": (
        head(headers=RELOAD | {"User-Agent": CHROME}),
        True,
        False,
    ),
    "Firefox": (head(headers=VISIT | {"User-Agent": FIREFOX}), True, True),
    "Firefox, where a tab reloads itself": (
        head(headers=RELOAD | {"User-Agent": FIREFOX}),
        True,
        False,
    ),
    **{
        name: (head(headers=SAFARI | {"User-Agent": agent}), True, True)
        for name, agent in WEBKITS.items()
    },
    "Safari, from a link of another site": (
        head(headers=SAFARI | {"Sec-Fetch-Site": "cross-site"}),
        True,
        True,
    ),
    "Safari, from the dashboard": (from_page("/"), True, True),
    "Safari, from another workspace": (from_page("/w/api-2/lab"), True, True),
    "Safari, where a tab reloads itself": (from_page("/w/api/"), True, False),
    "Safari, from inside the workspace": (from_page("/w/api/lab/tree?q=/"), True, False),
    "Safari, should it ever say that a person asked": (
        from_page("/w/api/", SAFARI | {"Sec-Fetch-User": "?1"}),
        True,
        True,
    ),
    "Safari, in a frame": (head(headers=SAFARI | {"Sec-Fetch-Dest": "iframe"}), True, False),
    "Safari without TLS": (
        head(headers={k: v for k, v in SAFARI.items() if not k.startswith("Sec-")}),
        True,
        True,
    ),
    "without TLS, from the dashboard": (without_tls(f"http://{HOST}/"), True, True),
    "without TLS, from another workspace": (without_tls(f"http://{HOST}/w/api-2/lab"), True, True),
    "without TLS, from another site": (without_tls("http://other.test/w/api/"), True, True),
    "without TLS, where a tab reloads itself": (
        without_tls(f"http://{HOST.upper()}/w/api/lab?q=1"),
        True,
        False,
    ),
    "a page that is fetched ahead": (ahead("Sec-Purpose", "prefetch"), True, False),
    "a page that is made ready ahead": (ahead("Sec-Purpose", "prefetch;prerender"), True, False),
    "a page that an older Chrome fetches ahead": (ahead("Purpose", "prefetch"), True, False),
    "a page that an older Firefox fetches ahead": (ahead("X-Moz", "prefetch"), True, False),
    "a page that Safari shows small": (ahead("X-Purpose", "preview", SAFARI), True, False),
    "a purpose that is another": (ahead("Purpose", "reading"), True, True),
    "a program": (head(headers={"Accept": "*/*"}), False, False),
    "a program that says nothing": (head(), False, False),
}


AGAIN = "_codehub=again"


@pytest.mark.parametrize("name", CASES)
def test_who_sees_a_page_and_who_comes_to_visit(name: str) -> None:
    asked, page, visit = CASES[name]
    assert wants_page(asked) is page
    assert is_visit(asked, BASE) is visit


def test_whoever_visits_opens_a_page() -> None:
    assert all(page and opens_page(asked) for asked, page, visit in CASES.values() if visit)


def test_a_tab_that_reloads_itself_opens_one_too_and_a_frame_does_not() -> None:
    """Nor does what is only fetched ahead: it may never be seen."""
    opening = {name for name, (asked, _, _) in CASES.items() if opens_page(asked)}
    visits = {name for name, (_, _, visit) in CASES.items() if visit}
    by_themselves = {name for name in CASES if "reloads itself" in name}
    from_inside = "Safari, from inside the workspace"
    assert opening - visits == {*by_themselves, from_inside, "a mark that is none"}


def test_where_the_browser_does_not_say_who_asks_the_hubs_pages_say_it() -> None:
    """Then their addresses are marked; see `asked_again`."""
    assert not any(says_who(head(headers=SAFARI | {"User-Agent": a})) for a in WEBKITS.values())
    assert not says_who(head(headers=HTML))
    assert all(says_who(head(headers=RELOAD | {"User-Agent": a})) for a in (CHROME, FIREFOX, ""))


def test_on_a_host_of_its_own_all_is_inside() -> None:
    assert is_visit(head(headers=SAFARI), b"")
    assert not is_visit(from_page("/lab"), b"")
    other = {"Sec-Fetch-Site": "same-site", "Referer": "https://hub.example/"}
    assert is_visit(head(headers=SAFARI | other), b""), "from the hub's own pages"


@pytest.mark.parametrize(
    ("marked", "target"),
    [
        (f"/w/api/?{AGAIN}", b"/w/api/"),
        (f"/w/api/a%2Fb?c=d&{AGAIN}", b"/w/api/a%2Fb?c=d"),
        (f"/w/api/?&{AGAIN}", b"/w/api/?"),
    ],
)
def test_a_page_of_the_hubs_own_that_asks_again_is_nobodys_visit(
    marked: str, target: bytes
) -> None:
    """Whatever the browser says, or does not; and nobody sees the mark."""
    for headers in (HTML, VISIT, RELOAD, SAFARI):
        asked = head(marked, headers)
        note_again(asked)
        assert (asked.again, asked.target) == (True, target)
        assert not is_visit(asked, BASE)
        assert wants_page(asked)


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/w/api/", HTML),
        (f"/w/api/?{AGAIN}&a=b", HTML),
        (f"/w/api/?{AGAIN}=", HTML),
        (f"/w/api/?a={AGAIN}x", HTML),
        (f"/w/api/?{AGAIN}", FETCH),
        (f"/w/api/?{AGAIN}", SOCKET),
    ],
)
def test_any_other_address_is_left_as_it_is(target: str, headers: dict[str, str]) -> None:
    asked = head(target, headers)
    note_again(asked)
    assert (asked.again, asked.target) == (False, target.encode())


@pytest.mark.parametrize("address", ["/", "/w/api/?", "/w/api/?a=b", "/w/api/lab/tree"])
def test_the_mark_comes_off_as_it_was_put_on(address: str) -> None:
    asked = head(asked_again(address), HTML)
    note_again(asked)
    assert asked.target == address.encode()


def test_names_are_found_however_they_are_written_and_the_first_counts() -> None:
    asked = RequestHead(
        b"GET", b"/w/api/?a?b", [(b"X-ONE", b"1"), (b"x-one", b"2"), (b"X-Two", b"")], "192.0.2.1"
    )
    assert asked.get(b"x-one") == b"1"
    assert asked.all(b"x-one") == [b"1", b"2"]
    assert asked.get(b"x-two") == b""
    assert asked.get(b"x-three") is None
    assert asked.all(b"x-three") == []
    assert asked.path == b"/w/api/"


def test_a_request_without_headers_has_none() -> None:
    asked = RequestHead(b"GET", b"/", [], "192.0.2.1")
    assert asked.get(b"host") is None
    assert not asked.is_websocket


def test_words_are_gathered_from_all_headers_of_a_name() -> None:
    asked = RequestHead(
        b"GET", b"/", [(b"Connection", b"Keep-Alive, ,X"), (b"connection", b"upgrade")], ""
    )
    assert asked.tokens(b"connection") == {b"keep-alive", b"x", b"upgrade"}


@pytest.mark.parametrize(
    ("method", "headers", "is_one"),
    [
        ("GET", {"Connection": "Upgrade", "Upgrade": "WebSocket"}, True),
        ("GET", {"Connection": "keep-alive, upgrade", "Upgrade": "websocket"}, True),
        ("POST", {"Connection": "Upgrade", "Upgrade": "websocket"}, False),
        ("GET", {"Upgrade": "websocket"}, False),
        ("GET", {"Connection": "Upgrade"}, False),
        ("GET", {"Connection": "Upgrade", "Upgrade": "h2c"}, False),
        ("GET", {"Connection": "Upgrade", "Upgrade": "websocket, h2c"}, False),
    ],
)
def test_what_is_a_websocket(method: str, headers: dict[str, str], is_one: bool) -> None:
    assert head(headers=headers, method=method).is_websocket is is_one
