"""Passwords: good ones let in, bad hashes do not, and unknown names cost the same work."""

from __future__ import annotations

import asyncio
import threading
from typing import Literal

import pytest
from argon2 import PasswordHasher, extract_parameters

from codehub.errors import TooManyTries, UsageError
from codehub.model.scalars import PasswordHash
from codehub.service import passwords as passwords_module
from codehub.service.passwords import Passwords, hash_password, todays_hasher
from tests.auth.people import CHEAP, PASSWORD

pytestmark = pytest.mark.anyio


class Counting(PasswordHasher):
    """The real thing, which also says how often it worked."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.verified: list[str] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:
        self.verified.append(str(hash))
        return super().verify(hash, password)


class Gated(PasswordHasher):
    """Checks nothing before it may."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.may = threading.Event()

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:
        assert self.may.wait(60)
        return super().verify(hash, password)


async def check(stored: str | None, password: str) -> bool:
    with Passwords(hasher=CHEAP) as passwords:
        return await passwords.verify(stored, password)


async def test_only_the_password_fits_its_hash() -> None:
    stored = hash_password(PASSWORD, CHEAP)
    assert await check(stored, PASSWORD)
    assert not await check(stored, PASSWORD + " ")
    assert not await check(stored, "")
    assert not await check(None, PASSWORD)


def test_a_new_hash_is_argon2id_as_specs_want_it_and_strong() -> None:
    made = hash_password(PASSWORD)
    asked = extract_parameters(made)
    assert made.startswith("$argon2id$")
    assert PASSWORD not in made
    assert asked.memory_cost >= 64 * 1024
    assert asked.time_cost >= 3
    assert made != hash_password(PASSWORD)


async def test_a_name_nobody_has_costs_one_check_of_the_same_kind() -> None:
    hasher = Counting()
    stored = hasher.hash(PASSWORD)
    with Passwords(hasher=hasher) as passwords:
        await passwords.verify(stored, "wrong")
        await passwords.verify(None, "wrong")
    known, unknown = hasher.verified
    assert known == stored
    assert unknown != stored
    assert extract_parameters(unknown) == extract_parameters(known)


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "nonsense",
        "$argon2id$v=19$m=8,t=1,p=1$bad",
        "$argon2i$v=19$m=8,t=1,p=1$c29tZXNhbHQ$9sTbSlTio3Biev89thdrlKKiCaYsjjYVJxGAL3swxpQ",
        "$argon2id$v=19$m=1073741824,t=1,p=1$c29tZXNhbHQ$9sTbSlTio3Biev89thdrlKKiCaYsjjYVJxGAL3s",
        "$argon2id$v=19$m=8,t=100000,p=1$c29tZXNhbHQ$9sTbSlTio3Biev89thdrlKKiCaYsjjYVJxGAL3swxpQ",
    ],
)
async def test_a_hash_that_is_broken_or_asks_too_much_lets_nobody_in(stored: str) -> None:
    assert not await check(stored, PASSWORD)


@pytest.mark.parametrize("limit", ["MOST_MEMORY_KIB", "MOST_TIME_COST"])
async def test_a_hash_may_not_cost_more_than_the_hub_bears(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = hash_password(PASSWORD, CHEAP)
    assert await check(stored, PASSWORD)
    monkeypatch.setattr(passwords_module, limit, 0)
    assert not await check(stored, PASSWORD)


async def test_whatever_is_typed_is_a_wrong_password_and_no_fault() -> None:
    stored = hash_password(PASSWORD, CHEAP)
    for typed in ("\x00", "\ud800", "x" * 5000, "🐎" * 300):
        assert not await check(stored, typed)


async def test_two_ways_to_type_an_accent_are_one_password() -> None:
    assert await check(hash_password("caf\u00e9 au lait", CHEAP), "cafe\u0301 au lait")


async def test_the_line_is_bounded_and_whoever_comes_then_is_told() -> None:
    hasher = Gated()
    stored = hasher.hash(PASSWORD)
    with Passwords(threads=1, waiting=2, hasher=hasher) as passwords:
        checks = [asyncio.create_task(passwords.verify(stored, PASSWORD)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyTries) as raised:
            await passwords.verify(stored, PASSWORD)
        assert raised.value.seconds > 0
        hasher.may.set()
        assert await asyncio.gather(*checks) == [True, True, True]
        assert await passwords.verify(stored, PASSWORD)


async def test_the_event_loop_goes_on_while_passwords_are_checked() -> None:
    hasher = Gated()
    with Passwords(hasher=hasher) as passwords:
        check = asyncio.create_task(passwords.verify(None, PASSWORD))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not check.done()
        hasher.may.set()
        assert await check is False


def test_a_hash_with_other_parameters_is_outdated() -> None:
    with Passwords() as passwords:
        assert passwords.outdated(hash_password(PASSWORD, CHEAP))
        assert not passwords.outdated(todays_hasher().hash(PASSWORD))


@pytest.mark.parametrize("password", ["", "1234567", "x" * 1025])
def test_too_short_and_too_long_ones_are_not_hashed(password: str) -> None:
    with pytest.raises(UsageError, match="characters"):
        hash_password(password, CHEAP)


def test_the_field_of_a_user_spec_takes_a_new_hash() -> None:
    from pydantic import TypeAdapter

    made = hash_password(PASSWORD)
    assert TypeAdapter(PasswordHash).validate_python(made) == made
