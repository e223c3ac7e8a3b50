"""What a request claims, whom a header may name, and what goes on to a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.config import Settings, load_settings
from codehub.core.fingerprint import checksum, fingerprint
from codehub.errors import UsageError
from codehub.model.access import Claim, Visitor, Way
from codehub.proxy.credentials import Trust, claims, outgoing, trust_of, visitor_of
from codehub.service.minting import new_secret
from tests.auth.people import request

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.proxy.seam import RequestHead

SECRET, OTHER = "s" * 43, "o" * 43
TOKEN = "chub_" + "t" * 43 + checksum("chub_" + "t" * 43)
"""The same in every process that collects these tests: they are parts of names."""
SSO = Trust("X-Forwarded-User", ["10.0.0.0/8", "fd00::/8", "192.0.2.50"])
NAMED = ("X-Forwarded-User", "alice")


def session(secret: str) -> Claim:
    return Claim(Way.SESSION, fingerprint(secret))


def test_a_cookie_claims_a_session() -> None:
    assert claims(request(cookie=SECRET)) == [session(SECRET)]
    assert claims(request()) == []


def test_with_tls_only_the_name_counts_that_no_other_host_can_set() -> None:
    assert claims(request(cookie=SECRET, secure=True)) == [session(SECRET)]
    plain = request(("Cookie", f"codehub={SECRET}"), secure=True)
    assert claims(plain) == []
    host = request(("Cookie", f"__Host-codehub={SECRET}"), secure=False)
    assert claims(host) == []


def test_several_cookies_of_our_name_are_several_claims_up_to_a_number() -> None:
    two = request(("Cookie", f"codehub={SECRET}; codehub={OTHER}"))
    assert claims(two) == [session(SECRET), session(OTHER)]
    many = "; ".join(f"codehub={new_secret()}" for _ in range(50))
    assert len(claims(request(("Cookie", many))) or []) == 4


@pytest.mark.parametrize("value", ["", "x", "deleted", SECRET[:-1], SECRET + "x", "../" + SECRET])
def test_what_cannot_be_ours_claims_nothing(value: str) -> None:
    assert claims(request(cookie=value)) == []


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_token_goes_before_a_cookie(scheme: str) -> None:
    head = request(("Authorization", f"{scheme} {TOKEN}"), cookie=SECRET)
    assert claims(head) == [Claim(Way.TOKEN, fingerprint(TOKEN))]


@pytest.mark.parametrize(
    "value", [TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer chub_"]
)
def test_a_token_that_is_shown_wrongly_is_not_made_up_for_by_a_cookie(value: str) -> None:
    assert claims(request(("Authorization", value), cookie=SECRET)) is None


def test_two_tokens_are_none() -> None:
    twice = request(("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {TOKEN}"))
    assert claims(twice) is None


def test_a_workspace_s_own_authorization_says_nothing_about_the_hub() -> None:
    head = request(("Authorization", "Bearer eyJhbGciOi"), cookie=SECRET)
    assert claims(head) == [session(SECRET)]


# The trusted header


@pytest.mark.parametrize("peer", ["10.1.2.3", "fd00::7", "192.0.2.50", "::ffff:10.1.2.3"])
def test_a_name_is_believed_from_the_sso_proxy(peer: str) -> None:
    assert claims(request(NAMED, peer=peer), SSO) == [Claim(Way.HEADER, "alice")]


@pytest.mark.parametrize(
    "peer", ["192.0.2.51", "11.0.0.1", "fe80::1", "::ffff:11.0.0.1", "", "unix:", "10.1.2.3.4"]
)
def test_a_name_is_not_believed_from_anywhere_else(peer: str) -> None:
    assert claims(request(NAMED, peer=peer), SSO) == []
    assert claims(request(NAMED, peer=peer, cookie=SECRET), SSO) == [session(SECRET)]


def test_without_a_header_or_addresses_nobody_is_believed() -> None:
    head = request(NAMED, peer="10.1.2.3")
    assert claims(head) == []
    assert claims(head, Trust("X-Forwarded-User", [])) == []
    assert claims(head, Trust(None, ["10.0.0.0/8"])) == []


@pytest.mark.parametrize("value", ["", " ", "a\x01b", "x" * 101])
def test_a_name_that_cannot_be_one_is_none(value: str) -> None:
    assert claims(request(("X-Forwarded-User", value), peer="10.1.2.3"), SSO) == []


def test_a_name_said_twice_is_not_said() -> None:
    twice = request(NAMED, ("x-forwarded-user", "bob"), peer="10.1.2.3")
    assert claims(twice, SSO) == []


def test_a_token_goes_before_a_name() -> None:
    head = request(NAMED, peer="10.1.2.3", bearer=TOKEN)
    assert claims(head, SSO) == [Claim(Way.TOKEN, fingerprint(TOKEN))]


# What goes on


def sent(head: RequestHead, trust: Trust = SSO) -> list[tuple[bytes, bytes]]:
    return outgoing(head.headers, trust)


def test_nothing_that_lets_in_goes_to_a_workspace() -> None:
    head = request(
        ("Host", "hub.example"),
        ("Cookie", f"a=1; codehub={SECRET}; b=2"),
        ("Authorization", f"Bearer {TOKEN}"),
        NAMED,
        ("X-CodeHub-CSRF", "canary"),
        ("x-codehub-wake", "1"),
        ("Accept", "*/*"),
    )
    assert sent(head) == [(b"Host", b"hub.example"), (b"Cookie", b"a=1; b=2"), (b"Accept", b"*/*")]


def test_the_trusted_header_is_removed_whoever_sent_it() -> None:
    for peer in ("10.1.2.3", "198.51.100.1"):
        assert sent(request(("X-FORWARDED-USER", "alice"), peer=peer)) == []
    assert sent(request(NAMED), Trust()) == [(b"X-Forwarded-User", b"alice")]


def test_a_workspace_s_own_authorization_goes_on() -> None:
    for value in ("Bearer eyJhbGciOi", "Basic dTpw", "token abc"):
        assert sent(request(("Authorization", value))) == [(b"Authorization", value.encode())]


@pytest.mark.parametrize("value", ["Bearer {}", "bearer  {}", "Basic {}", "{}", "x,{}"])
def test_a_token_never_goes_on_however_it_is_written(value: str) -> None:
    for name in ("Authorization", "Proxy-Authorization"):
        assert sent(request((name, value.format(TOKEN)))) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"Cookie", b"cookie", b"Authorization", b"Accept", b"X-A"]),
            st.sampled_from(
                [
                    b"a=1",
                    b"codehub=" + SECRET.encode(),
                    b"__Host-codehub=" + SECRET.encode() + b";z=9",
                    b"Bearer " + TOKEN.encode(),
                    b"Bearer theirs",
                ]
            ),
        ),
        max_size=8,
    )
)
def test_other_headers_keep_their_order_and_bytes(headers: list[tuple[bytes, bytes]]) -> None:
    kept = outgoing(headers)
    cookies = [value for name, value in kept if name.lower() == b"cookie"]
    assert len(cookies) <= 1
    assert SECRET.encode() not in b"".join(cookies)
    plain = [h for h in headers if h[0] in (b"Accept", b"X-A")]
    assert [h for h in kept if h[0] in (b"Accept", b"X-A")] == plain


def test_a_visitor_is_the_peer_unless_somebody_trusted_knows_better() -> None:
    head = request(("User-Agent", "curl/8"), peer="192.0.2.1")
    assert visitor_of(head) == Visitor("192.0.2.1", "curl/8")
    assert visitor_of(head, "203.0.113.9") == Visitor("203.0.113.9", "curl/8")


def test_the_settings_name_header_and_addresses_together() -> None:
    trust = trust_of(
        Settings(auth_trusted_header="X-User", auth_trusted_addresses=frozenset({"10.0.0.0/8"}))
    )
    assert claims(request(("X-User", "alice"), peer="10.0.0.1"), trust)
    assert not claims(request(("X-User", "alice"), peer="11.0.0.1"), trust)
    with pytest.raises(UsageError, match="go together"):
        trust_of(Settings(auth_trusted_header="X-User"))
    with pytest.raises(UsageError, match="go together"):
        trust_of(Settings(auth_trusted_addresses=frozenset({"10.0.0.0/8"})))


def test_addresses_come_as_a_list_and_a_wrong_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTH_TRUSTED_ADDRESSES", "10.0.0.0/8, 192.0.2.7,fd00::/8")
    assert load_settings().auth_trusted_addresses == {"10.0.0.0/8", "192.0.2.7", "fd00::/8"}
    for wrong in ("everywhere", "10.0.0.0/99", "*"):
        monkeypatch.setenv("AUTH_TRUSTED_ADDRESSES", wrong)
        with pytest.raises(UsageError, match="AUTH_TRUSTED_ADDRESSES"):
            load_settings()
    monkeypatch.setenv("AUTH_TRUSTED_ADDRESSES", "10.0.0.0/8")
    monkeypatch.setenv("AUTH_TRUSTED_HEADER", "X User")
    with pytest.raises(UsageError, match="AUTH_TRUSTED_HEADER"):
        load_settings()
