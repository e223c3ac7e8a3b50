"""Where a request comes from, behind proxies that are believed and others."""

from __future__ import annotations

import pytest

from codehub.proxy.address import Addresses
from codehub.proxy.seam import RequestHead

FRONT = Addresses(["127.0.0.1", "10.0.0.0/8"])


@pytest.mark.parametrize(
    ("peer", "said", "address"),
    [
        ("127.0.0.1", [b"192.0.2.7"], "192.0.2.7"),
        ("127.0.0.1", [b"203.0.113.9, 192.0.2.7, 10.1.1.1"], "192.0.2.7"),
        ("127.0.0.1", [b"203.0.113.9", b"192.0.2.7"], "192.0.2.7"),
        ("::ffff:127.0.0.1", [b"192.0.2.7"], "192.0.2.7"),
        ("127.0.0.1", [b"192.0.2.7, nonsense"], "127.0.0.1"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("192.0.2.50", [b"192.0.2.7"], "192.0.2.50"),
    ],
)
def test_the_first_who_is_not_believed_is_where_it_comes_from(
    peer: str, said: list[bytes], address: str
) -> None:
    """What stands before that one, anybody could have written."""
    head = RequestHead(b"GET", b"/", [(b"X-Forwarded-For", each) for each in said], peer)
    assert FRONT.of(head) == address
    assert Addresses().of(head) == peer
