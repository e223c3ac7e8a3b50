"""What a workspace gets to see: its own path, nothing of the hub's, and who asked."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.core.fingerprint import csrf_token
from codehub.model.access import Way
from codehub.model.workspace import PathPrefix
from codehub.proxy.credentials import NO_TRUST, Trust
from codehub.proxy.onward import onward_headers, onward_target
from codehub.proxy.seam import RequestHead
from codehub.service.minting import new_secret, new_token

BASE = b"/w/api"
STRIP, KEEP = PathPrefix.STRIP, PathPrefix.KEEP
CANARY = "canary-of-a-secret"


def onward(*headers: tuple[str, str], trust: Trust = NO_TRUST, **more: Any) -> list[str]:
    """The lines that go on, for a request with these headers."""
    listed = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    asked = RequestHead(b"GET", b"/w/api/", listed, "192.0.2.1")
    options: dict[str, Any] = {"address": "192.0.2.1", "secure": False, "plain": False}
    base = more.pop("base", BASE)
    found = onward_headers(asked, base, trust, **(options | more))
    return [f"{name.decode()}: {value.decode('latin-1')}" for name, value in found]


def values(lines: list[str], name: str) -> list[str]:
    pairs = [line.partition(": ") for line in lines]
    return [value for key, _, value in pairs if key.lower() == name.lower()]


# The target


@pytest.mark.parametrize(
    ("target", "stripped"),
    [
        (b"/w/api/", b"/"),
        (b"/w/api/?", b"/?"),
        (b"/w/api/a/b?c=d", b"/a/b?c=d"),
        (b"/w/api//a", b"//a"),
        (b"/w/api/../x", b"/../x"),
        (b"/w/api/%2e%2e/x", b"/%2e%2e/x"),
        (b"/w/api/a%2Fb", b"/a%2Fb"),
        (b"/w/api/%zz\"'?x=/w/api/", b"/%zz\"'?x=/w/api/"),
        (b"/w/api/w/api/", b"/w/api/"),
        (b"/w/api/caf\xc3\xa9", b"/caf\xc3\xa9"),
    ],
)
def test_the_base_is_stripped_or_kept_and_the_rest_passes_byte_for_byte(
    target: bytes, stripped: bytes
) -> None:
    assert onward_target(target, BASE, STRIP) == stripped
    assert onward_target(target, BASE, KEEP) == target


@pytest.mark.parametrize("prefix", list(PathPrefix))
def test_on_a_host_of_its_own_there_is_nothing_to_strip(prefix: PathPrefix) -> None:
    assert onward_target(b"/a?b", b"", prefix) == b"/a?b"


@given(st.binary(max_size=40))
def test_whatever_follows_the_base_goes_on_unchanged(rest: bytes) -> None:
    assert onward_target(BASE + b"/" + rest, BASE, STRIP) == b"/" + rest


# Headers that go on


def test_other_headers_keep_their_order_spelling_and_repetitions() -> None:
    given_ = [("X-b", "1"), ("Accept", "*/*"), ("x-B", "2"), ("X-Odd", "a,  b;\tc\xe9"), ("A", "")]
    assert onward(*given_)[:5] == [f"{name}: {value}" for name, value in given_]


def test_who_asked_how_and_where_is_told() -> None:
    lines = onward(("Host", "Hub.example:8443"), address="2001:db8::1", secure=True)
    assert lines == [
        "Host: Hub.example:8443",
        "X-Forwarded-For: 2001:db8::1",
        "X-Forwarded-Host: Hub.example:8443",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Prefix: /w/api",
    ]


def test_on_a_host_of_its_own_there_is_no_prefix() -> None:
    lines = onward(("Host", "api.localhost"), base=b"")
    assert values(lines, "x-forwarded-prefix") == []
    assert values(lines, "x-forwarded-proto") == ["http"]


@pytest.mark.parametrize(
    "name",
    [
        *("X-Forwarded-For", "x-forwarded-host", "X-FORWARDED-PROTO", "X-Forwarded-Prefix"),
        *("Forwarded", "X-Forwarded-Port", "X-Real-IP"),
    ],
)
def test_what_a_client_says_of_itself_is_not_believed(name: str) -> None:
    lines = onward(("Host", "hub.example"), (name, CANARY), (name.lower(), CANARY))
    assert CANARY not in "\n".join(lines)


@pytest.mark.parametrize(
    "name",
    [
        *("Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "TE"),
        *("Proxy-Connection", "Trailer", "Transfer-Encoding", "Upgrade"),
    ],
)
def test_what_is_about_one_connection_stays_behind(name: str) -> None:
    assert values(onward((name, CANARY), (name.upper(), CANARY)), name) == []


def test_headers_that_the_connection_names_stay_behind() -> None:
    lines = onward(
        ("Host", "hub.example"),
        ("Connection", "close, X-Hop,x-leap"),
        ("connection", "X-Jump"),
        *((name, CANARY) for name in ("X-HOP", "X-Leap", "x-jump")),
        ("X-Stays", "1"),
    )
    assert CANARY not in "\n".join(lines)
    assert values(lines, "x-stays") == ["1"]


def test_nobody_can_name_the_host_away() -> None:
    """A workspace without a Host would not know under which name it was asked."""
    lines = onward(("Host", "hub.example"), ("Connection", "close, Host, X-Forwarded-For"))
    assert values(lines, "host") == ["hub.example"]
    assert values(lines, "x-forwarded-for") == ["192.0.2.1"]


@pytest.mark.parametrize(
    "said", ["keep-alive", "Keep-Alive", "close", "Upgrade", "keep-alive, Upgrade"]
)
def test_what_connections_usually_say_takes_nothing_away(said: str) -> None:
    lines = onward(("Connection", said), ("X-Kept", "1"))
    assert lines[0] == "X-Kept: 1"


def test_a_document_is_asked_for_as_it_is() -> None:
    """Something is put into it, so it must not be compressed."""
    lines = onward(("Accept-Encoding", "gzip"), ("accept-encoding", "br"), plain=True)
    assert values(lines, "accept-encoding") == ["identity"]
    assert values(onward(("Accept-Encoding", "gzip, br")), "accept-encoding") == ["gzip, br"]


# What must never arrive


def secrets() -> list[tuple[str, str]]:
    """Every header in which something of the hub's could stand, with the secret in it."""
    session, token = new_secret(), new_token()
    csrf = csrf_token(b"key", Way.SESSION, UUID(int=1))
    return [
        ("Cookie", f"codehub={session}"),
        ("Cookie", f"__Host-codehub={session}"),
        ("cookie", f' codehub ="{session}" ;x=1'),
        ("COOKIE", f"a=b; codehub={session};codehub={session}; c=d"),
        ("Cookie", f"codehub-login={session}; __Secure-codehub-login={session}"),
        ("Cookie", f"a=b; codehub-state={session}"),
        ("Cookie", f"__Host-codehub-state={session}"),
        ("Authorization", f"Bearer {token}"),
        ("authorization", f"bearer  {token}"),
        ("Authorization", f"Basic {token}"),
        ("Proxy-Authorization", f"Bearer {token}"),
        ("X-CodeHub-CSRF", session),
        ("X-CSRF-Token", csrf),
        ("x-csrf-TOKEN", f" {csrf}, x"),
        ("x-codehub-no-activity", session),
        ("X-CodeHub-Wake", session),
        ("X-Forwarded-User", session),
    ]


@pytest.mark.parametrize("number", range(len(secrets())))
def test_the_hubs_secrets_never_go_to_a_workspace(number: int) -> None:
    name, value = secrets()[number]
    secret = max(value.replace('"', " ").replace("=", " ").replace(";", " ").split(), key=len)
    lines = onward((name, value), trust=Trust("X-Forwarded-User", ["192.0.2.0/24"]))
    assert len(secret) > 20
    assert secret not in "\n".join(lines)


def test_cookies_of_the_workspace_arrive_in_one_header_as_they_were_sent() -> None:
    session = new_secret()
    lines = onward(
        ("X-First", "1"),
        ("Cookie", f'_xsrf=2|a|b; codehub={session}; odd="a b"'),
        ("X-Second", "2"),
        ("Cookie", "codehub2=mine; mycodehub=too"),
    )
    assert lines[:3] == [
        "X-First: 1",
        'Cookie: _xsrf=2|a|b; odd="a b"; codehub2=mine; mycodehub=too',
        "X-Second: 2",
    ]


@pytest.mark.parametrize(
    ("name", "value"), [("Authorization", "token abc"), ("X-CSRF-Token", "5f2c" * 16)]
)
def test_what_is_a_workspaces_own_arrives_under_the_same_name(name: str, value: str) -> None:
    assert onward((name, value))[0] == f"{name}: {value}"


def test_the_same_cookie_is_judged_the_same_however_often_it_comes() -> None:
    session = new_secret()
    first, second = (onward(("Cookie", f"a=1; codehub={session}")) for _ in range(2))
    assert first == second
    assert values(first, "cookie") == ["a=1"]
