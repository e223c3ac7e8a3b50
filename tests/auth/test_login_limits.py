"""The limit on failed logins, shared by all processes, on a real database."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from codehub.core.throttle import Pace, Paces
from codehub.errors import CodeHubError, NotLetIn, TooManyTries
from codehub.model.access import Opened, Visitor
from codehub.service.passwords import Passwords
from codehub.service.sessions import log_out
from tests.auth.people import CHEAP, HOME, LONG, PASSWORD, PATIENT, Hub, open_hub

pytestmark = pytest.mark.anyio

STRANGER = Visitor("198.51.100.7")
NEVER = Pace(free=10**6, first=0, most=0, forget=1)


async def attempt(hub: Hub, name: str, password: str, visitor: Visitor) -> str:
    try:
        await hub.log_in(name, password, visitor)
    except CodeHubError as error:
        return type(error).__name__
    return Opened.__name__


async def fail(hub: Hub, times: int, name: str = "alice", visitor: Visitor = STRANGER) -> None:
    for _ in range(times):
        with pytest.raises(NotLetIn):
            await hub.log_in(name, "wrong", visitor)


async def test_after_a_few_failures_one_must_wait_and_is_told_how_long(hub: Hub) -> None:
    await fail(hub, LONG.free + 1)
    with pytest.raises(TooManyTries, match="can be tried in 60 minutes") as raised:
        await hub.log_in("alice", PASSWORD, STRANGER)
    assert 3500 < raised.value.seconds <= 3600
    assert raised.value.hint


async def test_the_right_password_does_not_help_while_one_must_wait(hub: Hub) -> None:
    """Or the answer would tell that it was the right one."""
    await fail(hub, LONG.free + 1)
    assert await attempt(hub, "alice", PASSWORD, STRANGER) == "TooManyTries"
    assert await hub.rows("SELECT id FROM sessions") == []


async def test_names_nobody_has_are_limited_alike(hub: Hub) -> None:
    await fail(hub, LONG.free + 1, name="nobody-here")
    assert await attempt(hub, "nobody-here", PASSWORD, STRANGER) == "TooManyTries"


async def test_fifty_at_once_in_two_processes_get_no_more_tries(
    hub: Hub, database_url: str
) -> None:
    async with open_hub(database_url) as other:
        tries = [attempt(each, "alice", "wrong", STRANGER) for each in (hub, other) * 25]
        answers = await asyncio.gather(*tries)
    assert answers.count("NotLetIn") == LONG.free + 1
    assert answers.count("TooManyTries") == 50 - LONG.free - 1


async def test_refused_tries_do_not_make_the_wait_longer(hub: Hub) -> None:
    await fail(hub, LONG.free + 1)
    read = "SELECT key, failures, last_at FROM login_failures ORDER BY key"
    before = await hub.rows(read)
    for _ in range(3):
        assert await attempt(hub, "alice", "wrong", STRANGER) == "TooManyTries"
    assert await hub.rows(read) == before


async def test_a_stranger_locks_out_nobody_but_themselves(hub: Hub) -> None:
    await fail(hub, LONG.free + 1)
    assert await attempt(hub, "alice", PASSWORD, HOME) == "Opened"


async def test_one_address_cannot_try_everybody(hub: Hub) -> None:
    for number in range(PATIENT.address.free + 1):
        assert await attempt(hub, f"user{number}", "password1", STRANGER) == "NotLetIn"
    assert await attempt(hub, "alice", PASSWORD, STRANGER) == "TooManyTries"
    assert await attempt(hub, "alice", PASSWORD, HOME) == "Opened"


async def from_many(hub: Hub, tries: int) -> list[str]:
    """Guesses at one account, each from another machine."""
    return [
        await attempt(hub, "alice", "wrong", Visitor(f"203.0.113.{number}"))
        for number in range(tries)
    ]


async def test_many_machines_together_cannot_guess_at_one_account(hub: Hub) -> None:
    answers = await from_many(hub, PATIENT.account.free + 3)
    assert answers[-2:] == ["TooManyTries", "TooManyTries"]


async def test_whoever_was_here_lately_gets_in_while_many_machines_guess(hub: Hub) -> None:
    opened = await hub.log_in()
    async with hub.pool.connection() as conn:
        await log_out(conn, opened.session.id, HOME)
    await from_many(hub, PATIENT.account.free + 3)
    assert await attempt(hub, "alice", PASSWORD, HOME) == "Opened"
    assert await attempt(hub, "alice", PASSWORD, STRANGER) == "TooManyTries"


async def test_a_success_clears_the_failures_of_that_account_from_there(hub: Hub) -> None:
    await fail(hub, LONG.free, visitor=HOME)
    assert await attempt(hub, "alice", PASSWORD, HOME) == "Opened"
    await fail(hub, LONG.free, visitor=HOME)
    assert await attempt(hub, "alice", PASSWORD, HOME) == "Opened"


async def test_an_account_of_ones_own_does_not_wipe_out_failures_with_others(hub: Hub) -> None:
    for number in range(PATIENT.address.free + 1):
        assert await attempt(hub, f"user{number}", "password1", STRANGER) == "NotLetIn"
        if number < PATIENT.address.free:
            assert await attempt(hub, "bob", "another password", STRANGER) == "Opened"
    assert await attempt(hub, "bob", "another password", STRANGER) == "TooManyTries"


async def test_logins_that_succeed_are_not_limited(hub: Hub) -> None:
    answers = [await attempt(hub, "alice", PASSWORD, HOME) for _ in range(30)]
    assert set(answers) == {"Opened"}


async def test_a_wait_that_is_over_lets_the_next_try_through(hub: Hub) -> None:
    await fail(hub, LONG.free + 1)
    await hub.rows("UPDATE login_failures SET last_at = last_at - interval '1 hour'")
    assert await attempt(hub, "alice", PASSWORD, STRANGER) == "Opened"


async def test_counters_that_have_nothing_to_say_are_deleted(hub: Hub) -> None:
    await fail(hub, 1)
    await hub.rows("UPDATE login_failures SET last_at = now() - interval '25 hours'")
    await fail(hub, 1, name="bob", visitor=HOME)
    rows = await hub.rows("SELECT key FROM login_failures")
    assert sorted(row["key"].split()[0] for row in rows) == ["account", "address", "pair"]


async def test_the_limits_can_be_loosened_for_a_test_only_by_name(hub: Hub) -> None:
    """What is not said has its default: four free tries for an account from one address."""
    loose = Paces(NEVER, NEVER, NEVER)
    for _ in range(8):
        with pytest.raises(NotLetIn):
            await hub.log_in("alice", "wrong", STRANGER, paces=loose)
    with pytest.raises(TooManyTries):
        await hub.log_in("alice", "wrong", STRANGER, paces=Paces())


async def test_a_login_that_nobody_had_time_for_is_no_failed_try(hub: Hub) -> None:
    """Not one of the free ones, and not one that makes the next wait."""
    await fail(hub, LONG.free)
    before = await hub.rows("SELECT * FROM login_failures ORDER BY key")
    with Passwords(threads=1, waiting=0, hasher=CHEAP) as busy:
        full = replace(hub, passwords=busy)
        with busy.place():
            for _ in range(LONG.free):
                assert await attempt(full, "alice", PASSWORD, STRANGER) == "TooManyTries"
        assert await hub.rows("SELECT * FROM login_failures ORDER BY key") == before
        assert await attempt(full, "alice", PASSWORD, STRANGER) == "Opened"
