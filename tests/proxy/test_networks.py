"""Addresses and networks of the settings, and who is in them."""

from __future__ import annotations

import pytest

from codehub.proxy.networks import MOST_KNOWN, Networks

LISTED = ("10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "198.51.100.9/24")


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("192.0.2.7", True),
        ("192.0.2.70", False),
        ("198.51.100.200", True),
        ("2001:db8::1", True),
        ("2001:db8::1%eth0", True),
        ("2001:db9::1", False),
        ("::ffff:10.1.2.3", True),
        ("::ffff:11.1.2.3", False),
        ("unknown", False),
        ("10.0.0.0/8", False),
        ("", False),
    ],
)
def test_who_is_in_them(address: str, inside: bool) -> None:
    networks = Networks(LISTED)
    assert (address in networks) is inside
    assert (address in networks) is inside, "also when it is known by heart"
    assert address not in Networks()


def test_there_may_be_none() -> None:
    assert not Networks()
    assert Networks(LISTED)


def test_what_is_remembered_is_bounded() -> None:
    networks = Networks(LISTED)
    for number in range(3 * MOST_KNOWN):
        assert f"10.{number >> 8}.{number & 255}.1" in networks
    assert len(networks._known) <= MOST_KNOWN
