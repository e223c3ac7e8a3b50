"""The proxy's memory, with a clock of its own."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import pytest

from codehub.model.access import Claim, Identity, Person, Way
from codehub.model.people import Role
from codehub.proxy import known as module
from codehub.proxy.known import Known
from codehub.service.recognising import Recognised

ALICE = Person(UUID(int=1), "alice", Role.MEMBER)
CLAIM = Claim(Way.SESSION, "hash")
MINE = Identity(ALICE, Way.SESSION, UUID(int=10))


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(clock: Clock) -> Known:
    return Known(outage=100, refresh=30, clock=clock)


def holds(memory: Known, claim: Claim = CLAIM) -> bool | None:
    """Whether a claim is known to hold; None when nothing is known."""
    known, entry = memory.ask(claim)
    return entry is not None if known else None


def test_nothing_is_known_of_what_was_never_asked(memory: Known) -> None:
    assert holds(memory) is None


def test_what_was_confirmed_holds_until_it_was_not_for_too_long(
    memory: Known, clock: Clock
) -> None:
    memory.put(CLAIM, Recognised(MINE, 10_000))
    clock.now += 100
    assert holds(memory) is True
    clock.now += 1
    assert holds(memory) is None
    assert memory.unconfirmed() == [CLAIM]
    memory.put(CLAIM, Recognised(MINE, 10_000))
    assert holds(memory) is True
    assert memory.unconfirmed() == []


def test_what_has_run_out_does_not_hold_though_nobody_said_so(memory: Known, clock: Clock) -> None:
    memory.put(CLAIM, Recognised(MINE, 50))
    clock.now += 49
    assert holds(memory) is True
    clock.now += 1
    assert holds(memory) is False
    assert memory.identity(CLAIM) == MINE


def test_a_refusal_is_remembered_for_a_while(memory: Known, clock: Clock) -> None:
    memory.put(CLAIM, Recognised(MINE))
    memory.refuse(CLAIM)
    assert holds(memory) is False
    clock.now += 30
    assert holds(memory) is None


def test_refusals_are_bounded_and_crowd_out_nobody(
    memory: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_UNFOUNDED", 10)
    memory.put(CLAIM, Recognised(MINE))
    for number in range(100):
        memory.refuse(Claim(Way.SESSION, str(number)))
    assert holds(memory) is True
    assert holds(memory, Claim(Way.SESSION, "0")) is None
    assert holds(memory, Claim(Way.SESSION, "99")) is False
    memory.forget_refusals()
    assert holds(memory, Claim(Way.SESSION, "99")) is None


def test_claims_are_found_by_session_and_by_user(memory: Known) -> None:
    other = Claim(Way.TOKEN, "other")
    memory.put(CLAIM, Recognised(MINE))
    memory.put(other, Recognised(Identity(ALICE, Way.TOKEN, UUID(int=11))))
    assert memory.about(MINE.id) == [CLAIM]
    assert set(memory.about(ALICE.id)) == {CLAIM, other}
    assert memory.drop(CLAIM) == MINE
    assert memory.drop(CLAIM) is None
    assert memory.about(MINE.id) == []
    assert memory.about(ALICE.id) == [other]


def test_a_user_s_own_claim_by_header_is_dropped_cleanly(memory: Known) -> None:
    claim = Claim(Way.HEADER, "alice")
    memory.put(claim, Recognised(Identity(ALICE, Way.HEADER, ALICE.id)))
    assert memory.drop(claim)
    assert memory.about(ALICE.id) == []


def test_uses_are_told_once_and_again_after_a_while(memory: Known, clock: Clock) -> None:
    memory.put(CLAIM, Recognised(MINE, 10_000))
    clock.now += 5
    ((entry, ago),) = memory.used(slack=60)
    assert (entry.identity, ago) == (MINE, 5)
    entry.written = entry.seen
    assert list(memory.used(slack=60)) == []
    entry.seen = clock.now = clock.now + 60
    assert [each for each, _ in memory.used(slack=60)] == [entry]
    memory.put(CLAIM, Recognised(MINE, 10_000))
    assert len(list(memory.used(slack=60))) == 1
