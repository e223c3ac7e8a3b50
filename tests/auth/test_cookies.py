"""The hub's cookies: made safe, found among others, and cut out without touching those."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.proxy.cookies import (
    NAMES,
    clear_cookie,
    cookie_name,
    parse_cookies,
    set_cookie,
    strip_cookies,
)

SECRET = "s3cret_S3CRET-s3cret"
TOKEN = st.from_regex(re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}"), fullmatch=True)
VALUE = st.from_regex(re.compile(rb'[!#-+\--:<-\[\]-~"= ]{0,20}[!#-+\--:<-\[\]-~]'), fullmatch=True)
FOREIGN = st.builds(lambda n, v: n + b"=" + v, TOKEN.filter(lambda n: n not in NAMES), VALUE)
OWN = st.builds(
    lambda name, before, after, value: before + name + after + b"=" + value,
    st.sampled_from(sorted(NAMES)),
    st.sampled_from([b"", b" ", b"\t"]),
    st.sampled_from([b"", b" ", b"\t "]),
    st.one_of(st.just(SECRET.encode()), st.just(b'"' + SECRET.encode() + b'"')),
)
PAIRS = st.lists(st.tuples(st.booleans(), FOREIGN, OWN), max_size=8)


@given(PAIRS)
def test_ours_are_gone_and_all_others_are_as_they_were(
    pairs: list[tuple[bool, bytes, bytes]],
) -> None:
    sent = b"; ".join(own if ours else foreign for ours, foreign, own in pairs)
    kept = [foreign for ours, foreign, _ in pairs if not ours]
    assert strip_cookies([sent]) == (b"; ".join(kept) or None)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=3))
def test_whatever_is_sent_nothing_of_ours_remains(values: list[bytes]) -> None:
    laced = [value + b"; codehub=" + SECRET.encode() + b";" + value for value in values]
    rest = strip_cookies(laced) or b""
    assert SECRET.encode() not in rest
    assert parse_cookies([rest], b"codehub") == parse_cookies([rest], b"__Host-codehub") == []


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=3))
def test_what_is_read_as_ours_is_always_cut_out(values: list[bytes]) -> None:
    """The two must never disagree: what lets somebody in would go upstream."""
    rest = strip_cookies(values)
    for name in NAMES:
        assert rest is None or parse_cookies([rest], name) == []


@given(st.lists(FOREIGN, max_size=6))
def test_without_ours_not_a_byte_changes(pairs: list[bytes]) -> None:
    sent = b"; ".join(pairs)
    assert strip_cookies([sent]) == (sent or None)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"codehub=x", None),
        (b"a=1; codehub=x", b"a=1"),
        (b"codehub=x; a=1", b"a=1"),
        (b"a=1; codehub=x; b=2", b"a=1; b=2"),
        (b"a=1;codehub=x;b=2", b"a=1;b=2"),
        (b"a=codehub; codehubx=1; xcodehub=2", b"a=codehub; codehubx=1; xcodehub=2"),
        (b'__Host-codehub=x; a="b; c"', b'a="b; c"'),
        (b"CODEHUB=theirs", b"CODEHUB=theirs"),
        (b"a=1; codehub=x; codehub=y; __Host-codehub=z", b"a=1"),
        (b"codehub", None),
    ],
)
def test_cases_that_are_easy_to_get_wrong(sent: bytes, kept: bytes | None) -> None:
    assert strip_cookies([sent]) == kept


def test_several_headers_become_one() -> None:
    assert strip_cookies([b"a=1", b"codehub=x; b=2", b"c=3"]) == b"a=1; b=2; c=3"
    assert strip_cookies([b"a=1", b"b=2"]) == b"a=1; b=2"


def test_all_values_under_our_name_are_found() -> None:
    sent = [b"a=1; codehub=x", b'codehub="y"; codehub=x; codehubx=no']
    assert parse_cookies(sent, b"codehub") == [b"x", b"y"]
    assert parse_cookies([b"a=codehub"], b"codehub") == []


def test_a_login_cookie_is_for_this_host_alone_and_no_script() -> None:
    parts = set_cookie(SECRET, secure=True, seconds=3600).decode().split("; ")
    assert parts[0] == f"__Host-codehub={SECRET}"
    assert set(parts[1:]) == {"Path=/", "Max-Age=3600", "HttpOnly", "SameSite=Lax", "Secure"}


def test_without_tls_it_has_another_name_and_is_not_marked_secure() -> None:
    made = set_cookie(SECRET, secure=False, seconds=60)
    assert made.startswith(b"codehub=")
    assert b"Secure" not in made
    assert b"Domain" not in made
    assert cookie_name(secure=False) != cookie_name(secure=True)


def test_a_cleared_cookie_is_forgotten_at_once() -> None:
    for secure in (True, False):
        cleared = clear_cookie(secure=secure)
        assert cleared.startswith(cookie_name(secure=secure) + b"=;")
        assert b"Max-Age=0" in cleared
        assert (b"Secure" in cleared) is secure
