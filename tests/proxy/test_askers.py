"""Whose share of the web application a request takes: a person's, or a stranger's address's."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from uuid import UUID

from codehub.model.access import Identity, Person, Way
from codehub.model.people import Role
from codehub.proxy.address import Addresses
from codehub.proxy.behind import Behind
from codehub.proxy.credentials import NO_TRUST
from codehub.proxy.gate import Front
from codehub.proxy.hosts import HUB, Hosts
from codehub.proxy.seam import Forward
from tests.proxy.gate_world import UPSTREAM
from tests.proxy.heads_of import head

if TYPE_CHECKING:
    from codehub.proxy.gate import OwnAddresses
    from codehub.store.pool import Pool

FRONT, STRANGER = "10.0.0.1", "203.0.113.7"
ALICE = Identity(Person(UUID(int=100), "alice", Role.MEMBER), Way.SESSION, UUID(int=1))


def asker(peer: str, identity: Identity | None = None, said: str = STRANGER) -> str:
    front = Front(Hosts(), NO_TRUST, address=Addresses({FRONT}).of)
    # Neither the database nor the page in its place is asked by what is handed over at once.
    behind = Behind(UPSTREAM, cast("Pool", None), front, cast("OwnAddresses", None))
    behind._key = b"key"
    asked = head("/api/v1/me", {"X-Forwarded-For": said}, peer=peer)
    forward = behind.judge(asked, identity, HUB)
    assert isinstance(forward, Forward)
    assert forward.own
    return forward.asker


def test_a_stranger_has_the_share_of_an_address() -> None:
    assert asker("198.51.100.1") == "198.51.100.1", "what it says of itself is not believed"
    assert asker(FRONT) == STRANGER
    assert asker(FRONT, said="nonsense") == FRONT


def test_a_person_has_one_share_everywhere() -> None:
    assert {asker(peer, ALICE) for peer in (FRONT, STRANGER, "198.51.100.1")} == {
        str(ALICE.person.id)
    }
