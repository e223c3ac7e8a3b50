"""Requests that other sites' pages make, and where a login may lead to."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codehub.model.access import Way
from codehub.proxy.origin import (
    local_path,
    may_change,
    may_open_socket,
    may_send,
    origin_of,
    same_origin,
)
from tests.auth.people import request

HUB = b"https://hub.example"
OTHERS = (
    "https://evil.example",
    "http://hub.example",
    "https://hub.example.evil.example",
    "https://api.hub.example",
    "https://hub.example:8443",
    "https://HUB.example",
    "https://hub.example/",
    "https://user@hub.example",
    "null",
    "",
)


@pytest.mark.parametrize(
    ("host", "secure", "origin"),
    [
        (b"hub.example", True, b"https://hub.example"),
        (b"Hub.Example:443", True, b"https://hub.example"),
        (b"hub.example:443", False, b"http://hub.example:443"),
        (b"localhost:8000", False, b"http://localhost:8000"),
        (b"hub.example:80", False, b"http://hub.example"),
        (b"[::1]:8000", False, b"http://[::1]:8000"),
    ],
)
def test_an_origin_is_written_as_browsers_do(host: bytes, secure: bool, origin: bytes) -> None:
    assert origin_of(host, secure=secure) == origin


@pytest.mark.parametrize("other", OTHERS)
def test_another_origin_changes_nothing_and_opens_no_socket(other: str) -> None:
    head = request(("Origin", other), method="POST")
    assert not may_change(head, HUB, Way.SESSION)
    assert not may_change(head, HUB, None)
    assert not may_open_socket(request(("Origin", other)), HUB, Way.SESSION)
    assert not may_open_socket(request(("Origin", other)), HUB, Way.TOKEN)


def test_the_hub_s_own_pages_may() -> None:
    origin = ("Origin", "https://hub.example")
    assert may_change(request(origin, method="POST"), HUB, Way.SESSION)
    assert may_change(request(origin, ("Sec-Fetch-Site", "same-origin"), method="PUT"), HUB, None)
    assert may_open_socket(request(origin), HUB, Way.SESSION)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "same-origin, cross-site"])
def test_what_the_browser_says_counts_whatever_the_origin(site: str) -> None:
    head = request(("Origin", "https://hub.example"), ("Sec-Fetch-Site", site), method="POST")
    assert not same_origin(head, HUB)
    assert not same_origin(request(("Sec-Fetch-Site", site), method="POST"), HUB)


def test_a_page_that_hides_its_origin_is_believed_by_workspaces_alone() -> None:
    """And only where the browser says whose it is: what has no origin at all sends the same."""
    hidden = ("Origin", "null")
    own = request(hidden, ("Sec-Fetch-Site", "same-origin"), method="POST")
    assert may_send(own, HUB, Way.SESSION)
    assert not may_change(own, HUB, Way.SESSION)
    assert not same_origin(own, HUB)
    for site in ("cross-site", "same-site", "none", "same-origin, cross-site", ""):
        head = request(hidden, ("Sec-Fetch-Site", site), method="POST")
        assert not may_send(head, HUB, Way.SESSION)
    assert not may_send(request(hidden, method="POST"), HUB, Way.SESSION)
    twice = [hidden, ("Origin", "https://evil.example"), ("Sec-Fetch-Site", "same-origin")]
    assert not may_send(request(*twice, method="POST"), HUB, Way.SESSION)


def test_two_origins_are_none() -> None:
    twice = [("Origin", "https://hub.example"), ("Origin", "https://evil.example")]
    assert not same_origin(request(*twice), HUB)
    assert not may_open_socket(request(*twice), HUB, Way.SESSION)
    sites = [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")]
    assert not same_origin(request(*sites), HUB)


def test_who_says_nothing_may_only_look_unless_they_have_a_token() -> None:
    post = request(method="POST")
    assert not may_change(post, HUB, Way.SESSION)
    assert not may_change(post, HUB, Way.HEADER)
    assert may_change(post, HUB, Way.TOKEN)
    assert may_change(request(method="GET"), HUB, Way.SESSION)
    assert not may_open_socket(request(), HUB, Way.SESSION)
    assert not may_open_socket(request(), HUB, None)
    assert may_open_socket(request(), HUB, Way.TOKEN)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "get", "PROPFIND", "CONNECT"])
def test_every_method_that_is_not_known_to_be_safe_is_not(method: str) -> None:
    assert not may_change(request(method=method), HUB, Way.SESSION)


# Where a login leads to


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "\t//evil.example",
        " /w/api/",
        "https://evil.example",
        "https:evil.example",
        "javascript:alert(1)",
        "evil.example",
        "",
        None,
        "/w/api/\r\nSet-Cookie: codehub=x",
        "/w/\x00",
        "/w/\x7f",
        "/ä",
        "/" + "a" * 2000,
    ],
)
def test_what_leads_elsewhere_leads_home(target: str | None) -> None:
    assert local_path(target) == "/"
    assert local_path(target, "/home") == "/home"


@pytest.mark.parametrize(
    "target", ["/", "/w/api/", "/w/api/lab?reset#cell=2", "/w/a%2Fb/../c?u=https://x//y", "/@x:y"]
)
def test_paths_of_this_host_are_kept_as_they_are(target: str) -> None:
    assert local_path(target) == target


def as_browsers_read(target: str) -> str:
    """What a URL parser makes of a Location: no tabs or breaks, and `\\` is `/`."""
    return re.sub(r"[\t\r\n]", "", target.strip("".join(map(chr, range(33))))).replace("\\", "/")


@given(
    st.one_of(
        st.text(max_size=40),
        st.text(st.sampled_from("/\\\t\r\n .:@?#%aehtpsjv\x00\x7f\x85\u2028\uff0f"), max_size=14),
    )
)
@example("/\\/evil.example")
@example("/.//evil.example")
def test_no_target_leaves_this_host(target: str) -> None:
    path = local_path(target)
    base = "https://hub.example/login"
    assert urlsplit(urljoin(base, as_browsers_read(path))).netloc == "hub.example"
    assert not as_browsers_read(path).startswith("//")
    assert path.isascii()
    assert path.isprintable()
