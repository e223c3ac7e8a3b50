"""Tokens for programs: shown once, scoped, expiring, found by scanners."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.core.fingerprint import fingerprint, looks_like_secret, looks_like_token
from codehub.errors import NotFound, Refused, UsageError
from codehub.model.access import Issued, Scope, Token, widened
from codehub.service.minting import new_secret, new_token
from codehub.service.tokens import create_token, revoke_token
from codehub.store.access import access_events
from codehub.store.tokens import find_tokens, read_tokens, write_used
from codehub.store.users import disable_removed
from tests.make import NOW

if TYPE_CHECKING:
    from tests.auth.people import Hub

pytestmark = pytest.mark.anyio

MONTH = timedelta(days=30)


async def make(hub: Hub, name: str = "ci", *scopes: Scope, lasts: timedelta = MONTH) -> Issued:
    async with hub.pool.connection() as conn:
        wanted = scopes or (Scope.READ,)
        return await create_token(conn, "alice", name, wanted, lasts, by="root")


async def find(hub: Hub, secret: str) -> Token | None:
    async with hub.pool.connection() as conn:
        return (await find_tokens(conn, [fingerprint(secret)])).get(fingerprint(secret))


async def test_a_token_is_found_by_its_secret_and_says_what_it_is_for(hub: Hub) -> None:
    made = await make(hub, "ci", Scope.PLAN, Scope.READ)
    token = await find(hub, made.secret)
    assert token == made.token
    assert token is not None
    assert (token.person.name, token.scopes) == ("alice", frozenset({Scope.PLAN, Scope.READ}))
    assert token.expires_at is not None
    assert token.expires_at - token.created_at == MONTH


async def test_only_its_hash_is_kept(hub: Hub) -> None:
    made = await make(hub)
    stored = await hub.everything()
    assert made.secret not in stored
    assert made.secret[5:] not in stored
    assert fingerprint(made.secret) in stored


async def test_expired_and_revoked_ones_and_those_of_the_disabled_are_not_found(hub: Hub) -> None:
    old, revoked, good = await make(hub, "old", lasts=-MONTH), await make(hub, "b"), await make(hub)
    async with hub.pool.connection() as conn:
        await revoke_token(conn, "alice", "b", by="root")
        assert await find(hub, old.secret) is None
        assert await find(hub, revoked.secret) is None
        assert await find(hub, good.secret)
        await disable_removed(conn, ["bob"], NOW)
    assert await find(hub, good.secret) is None


async def test_a_name_is_taken_until_its_token_is_revoked_or_expired(hub: Hub) -> None:
    await make(hub)
    with pytest.raises(Refused, match='there is a token "ci" already'):
        await make(hub)
    async with hub.pool.connection() as conn:
        await revoke_token(conn, "alice", "ci", by="root")
    await make(hub, lasts=-MONTH)
    assert await make(hub)


async def test_bad_names_scopes_and_users_make_nothing(hub: Hub) -> None:
    async with hub.pool.connection() as conn:
        for name in ("", "CI", "a b", "x" * 41, "-", "ci\n"):
            with pytest.raises(UsageError, match="a token's name"):
                await create_token(conn, "alice", name, [Scope.READ], MONTH, by="root")
        with pytest.raises(UsageError, match="needs a scope"):
            await create_token(conn, "alice", "ci", [], MONTH, by="root")
        with pytest.raises(NotFound, match='no user "dave"'):
            await create_token(conn, "dave", "ci", [Scope.READ], MONTH, by="root")
        assert await read_tokens(conn) == ()


async def test_revoking_what_is_not_there_says_so(hub: Hub) -> None:
    await make(hub, "ci-plan")
    async with hub.pool.connection() as conn:
        with pytest.raises(NotFound, match='alice has no token "ci-plam", did you mean "ci-plan"'):
            await revoke_token(conn, "alice", "ci-plam", by="root")
        with pytest.raises(NotFound):
            await revoke_token(conn, "bob", "ci-plan", by="root")
        assert [token.name for token in await read_tokens(conn, "alice")] == ["ci-plan"]
        assert await read_tokens(conn, "bob") == ()


async def test_the_audit_tells_of_tokens_by_name(hub: Hub) -> None:
    await make(hub, "ci", Scope.PLAN, Scope.READ)
    async with hub.pool.connection() as conn:
        await revoke_token(conn, "alice", "ci", by="bob")
        events = await access_events(conn)
    told = [(each.kind.value, each.user, each.by, each.reason) for each in events]
    assert told == [
        ("token_created", "alice", "root", "ci (plan, read)"),
        ("token_revoked", "alice", "bob", "ci"),
    ]


async def test_uses_are_written_once_in_a_while(hub: Hub) -> None:
    made = await make(hub)
    slack = timedelta(minutes=5)
    read = "SELECT last_used_at FROM api_tokens"
    async with hub.pool.connection() as conn:
        await write_used(conn, {made.token.id: 10.0}, slack)
        first = await hub.rows(read)
        assert first[0]["last_used_at"] is not None
        await write_used(conn, {made.token.id: 0.0}, slack)
        assert await hub.rows(read) == first
        await write_used(conn, {made.token.id: -600.0}, slack)
    assert await hub.rows(read) != first


def test_whoever_may_write_may_read_and_wake_but_not_plan() -> None:
    assert widened([Scope.WRITE]) == {Scope.WRITE, Scope.READ, Scope.WAKE}
    assert widened([Scope.READ]) == {Scope.READ}
    assert widened([Scope.PLAN]) == {Scope.PLAN}
    assert widened([]) == set()


def test_tokens_are_long_unlike_and_found_by_a_simple_pattern() -> None:
    made = [new_token() for _ in range(50)]
    assert len(set(made)) == 50
    for token in made:
        assert re.fullmatch(r"chub_[A-Za-z0-9]{49}", token)
        assert looks_like_token(token.encode())


def test_a_slip_in_a_token_shows_without_asking_anybody() -> None:
    token = new_token()
    for place in range(len(token)):
        other = "x" if token[place] != "x" else "y"
        assert not looks_like_token((token[:place] + other + token[place + 1 :]).encode())
    assert not looks_like_token(token.encode()[:-1])
    assert not looks_like_token(token.encode() + b"\n")


@given(st.binary(max_size=80))
def test_what_anybody_sends_is_no_token_and_no_fault(value: bytes) -> None:
    assert not looks_like_token(value)
    assert looks_like_secret(value) == bool(re.fullmatch(rb"[A-Za-z0-9_-]{43}", value))


def test_a_session_s_secret_is_no_token_and_the_other_way_round() -> None:
    assert looks_like_secret(new_secret().encode())
    assert not looks_like_token(new_secret().encode())
    assert not looks_like_secret(new_token().encode())
