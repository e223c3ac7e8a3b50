"""Under which names the hub and its workspaces are reached."""

from __future__ import annotations

import pytest

from codehub.errors import UsageError
from codehub.proxy.hosts import HUB, Hosts, Place

LOCAL = Hosts(domain="localhost")
PUBLIC = Hosts("https://hub.example.com", "ws.example.com")


@pytest.mark.parametrize("host", [b"localhost:8080", b"127.0.0.1:8080", b"LOCALHOST", b"[::1]:80"])
def test_this_machines_names(host: bytes) -> None:
    assert LOCAL.place(host) is HUB


@pytest.mark.parametrize(
    "host",
    [
        *(b"evil.example:8080", b"127.0.0.1.evil.example", b"localhost.evil.example", b"", None),
        *(b"127.0.0.2", b"localhost:8080:1", b"user@localhost", b"localhost/", b"a.b.localhost"),
        *(b"-a.localhost", b".localhost", b"\xff.localhost", b"localhost\r\n", b"[::2]"),
    ],
)
def test_other_names_get_nothing(host: bytes | None) -> None:
    """A page from elsewhere can make its own name point here."""
    assert LOCAL.place(host) is None


def test_a_workspace_has_a_host_of_its_own() -> None:
    assert LOCAL.place(b"payments-api.localhost:8080") == Place(
        "payments-api.localhost", "payments-api"
    )
    assert PUBLIC.place(b"API.ws.example.com") == Place("api.ws.example.com", "api")
    assert PUBLIC.place(b"hub.example.com") is HUB
    assert PUBLIC.place(b"localhost") is None
    assert PUBLIC.place(b"api.hub.example.com") is None
    assert PUBLIC.place(b"api.wsXexample.com") is None


def test_without_a_domain_there_are_none() -> None:
    assert Hosts("https://hub.example.com").place(b"api.hub.example.com") is None


@pytest.mark.parametrize("url", ["hub.example.com", "ftp://hub", "https://"])
def test_a_public_address_must_be_one(url: str) -> None:
    with pytest.raises(UsageError, match="not one that a browser could open"):
        Hosts(url)
