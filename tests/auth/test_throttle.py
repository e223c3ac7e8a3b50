"""How pauses grow and are forgotten, and whom they hit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.core.throttle import PACES, Pace, Tally, count, keys, wait

PACE = Pace(free=2, first=1, most=8, forget=10)


@pytest.mark.parametrize(
    ("failures", "pause"),
    [(0, 0), (2, 0), (2.1, 1), (3, 1), (4, 2), (5, 4), (6, 8), (7, 8), (1e6, 8)],
)
def test_pauses_double_after_the_free_ones_up_to_the_longest(failures: float, pause: float) -> None:
    assert wait(Tally(failures, 0), PACE) == pause


def test_a_pause_runs_out() -> None:
    assert wait(Tally(4, 1.5), PACE) == pytest.approx(0.5)
    assert wait(Tally(4, 2), PACE) <= 0


def test_failures_are_forgotten_with_time() -> None:
    assert count(Tally(5, 0), PACE) == 6
    assert count(Tally(5, 20), PACE) == 4
    assert count(Tally(5, 1000), PACE) == 1


def test_a_clock_that_went_back_neither_helps_nor_hurts() -> None:
    assert wait(Tally(3, -100), PACE) == 1
    assert count(Tally(3, -100), PACE) == 4


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_nobody_waits_longer_than_the_longest_pause(failures: float, ago: float) -> None:
    assert wait(Tally(failures, ago), PACE) <= PACE.most
    assert count(Tally(failures, ago), PACE) >= 1


def guesses(seconds: float, pace: Pace) -> tuple[int, float]:
    """How many tries somebody gets who never waits longer than they must; the counter after."""
    now, last, failures, tries = 0.0, 0.0, 0.0, 0
    while True:
        pause = wait(Tally(failures, now - last), pace)
        now += max(pause, 0)
        if now > seconds:
            return tries, failures
        failures, last, tries = count(Tally(failures, now - last), pace), now, tries + 1


def test_guessing_is_hopeless_from_one_address_and_from_many() -> None:
    assert guesses(86_400, PACES.pair)[0] < 320
    assert guesses(86_400, PACES.address)[0] < 1500
    assert guesses(86_400, PACES.account)[0] < 6000


def test_one_stranger_cannot_keep_an_account_slow() -> None:
    """Their tries pass the strict counter less often than the account's counter forgets one."""
    steady = PACES.pair.most
    failures = 0.0
    for _ in range(100):
        failures = count(Tally(failures, steady), PACES.account)
    assert wait(Tally(failures, 0), PACES.account) <= 0


def test_many_strangers_cost_the_owner_seconds_only() -> None:
    assert PACES.account.most <= 15


def test_a_place_the_account_was_opened_from_does_not_pay_for_strangers() -> None:
    stranger = keys("alice", "192.0.2.7", PACES, known=False)
    owner = keys("alice", "192.0.2.1", PACES, known=True)
    assert PACES.account in stranger.values()
    assert set(owner.values()) == {PACES.pair, PACES.address}
    assert set(stranger) & set(owner) == set()


def test_a_network_of_ipv6_counts_as_one_address() -> None:
    one = keys("alice", "2001:db8::1", PACES, known=True)
    assert keys("alice", "2001:db8::ffff:2", PACES, known=True) == one
    assert keys("alice", "2001:db8:0:1::1", PACES, known=True) != one
    mapped = keys("alice", "::ffff:192.0.2.1", PACES, known=True)
    assert mapped == keys("alice", "192.0.2.1", PACES, known=True)


@given(st.text(max_size=30), st.text(max_size=30))
def test_counters_tell_nothing_of_what_was_typed(name: str, address: str) -> None:
    """Somebody's password may have been typed where the name belongs."""
    for key in keys(name, address, PACES, known=False):
        assert len(key) < 60
        if len(name) > 6 and not set(name) <= set("0123456789abcdef:. unkowpairdes/"):
            assert name not in key
