"""Logging in and out on a real database."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from argon2 import PasswordHasher

from codehub.core.fingerprint import fingerprint, looks_like_secret
from codehub.errors import NotLetIn
from codehub.model.access import AccessKind, Visitor
from codehub.model.people import Role
from codehub.service.passwords import hash_password
from codehub.service.sessions import Lasting, log_out, log_out_everywhere
from codehub.store.access import access_events
from codehub.store.sessions import find_sessions, write_seen
from codehub.store.users import disable_removed, upsert_users
from tests.auth.people import CHEAP, HOME, PASSWORD, Hub
from tests.make import NOW, user

pytestmark = pytest.mark.anyio

IDLE = timedelta(days=3)


async def valid(hub: Hub, secret: str, idle: timedelta = IDLE) -> bool:
    async with hub.pool.connection() as conn:
        return fingerprint(secret) in await find_sessions(conn, [fingerprint(secret)], idle)


async def told(hub: Hub, user: str | None = None) -> list[tuple[str, ...]]:
    async with hub.pool.connection() as conn:
        events = await access_events(conn, user)
    return [(each.kind.value, each.user, each.by, each.address, each.reason) for each in events]


async def test_a_login_opens_a_session_that_says_who_and_how_long(hub: Hub) -> None:
    opened = await hub.log_in("bob", "another password")
    session = opened.session
    assert (session.person.name, session.person.role) == ("bob", Role.ADMIN)
    assert (session.host, session.parent_id) == ("", None)
    assert looks_like_secret(opened.secret.encode())
    assert await valid(hub, opened.secret)
    row = (await hub.rows("SELECT *, expires_at - created_at AS lasts FROM sessions"))[0]
    assert (row["lasts"], row["address"]) == (timedelta(days=14), HOME.address)


async def test_every_login_has_a_new_secret_and_the_hub_keeps_none(hub: Hub) -> None:
    first, second = await hub.log_in(), await hub.log_in()
    assert first.secret != second.secret
    stored = await hub.everything()
    assert first.secret not in stored
    assert fingerprint(first.secret) in stored


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("alice", "wrong password"),
        ("alice", ""),
        ("carol", ""),
        ("carol", PASSWORD),
        ("nobody", PASSWORD),
        ("", ""),
        ("ali\x00ce", PASSWORD),
        ("alice\ud800", PASSWORD),
        ("ALICE", PASSWORD),
    ],
)
async def test_nobody_else_is_let_in_and_all_hear_the_same(
    hub: Hub, name: str, password: str
) -> None:
    with pytest.raises(NotLetIn) as raised:
        await hub.log_in(name, password)
    assert raised.value.message == "name or password is wrong"
    assert await hub.rows("SELECT id FROM sessions") == []


async def test_the_audit_says_who_and_from_where(hub: Hub) -> None:
    opened = await hub.log_in()
    for name in ("alice", "carol", "hunter2hunter2"):
        with pytest.raises(NotLetIn):
            await hub.log_in(name, "wrong password")
    async with hub.pool.connection() as conn:
        await log_out(conn, opened.session.id, Visitor("192.0.2.9"))
    assert await told(hub) == [
        ("login", "alice", "alice", "192.0.2.1", "with a password"),
        ("failed", "alice", "nobody", "192.0.2.1", "wrong password"),
        ("failed", "carol", "nobody", "192.0.2.1", "this user has no password"),
        ("failed", "", "nobody", "192.0.2.1", "no such user"),
        ("logout", "alice", "alice", "192.0.2.9", ""),
    ]
    assert [each[0] for each in await told(hub, "carol")] == ["failed"]


async def test_what_browsers_call_themselves_is_made_harmless(hub: Hub) -> None:
    await hub.log_in(visitor=Visitor("192.0.2.1", "evil\x1b[2J\n\x00" + "x" * 1000))
    async with hub.pool.connection() as conn:
        (event,) = await access_events(conn)
    assert event.agent.startswith("evil?[2J??xxx")
    assert len(event.agent) == 200
    assert event.kind is AccessKind.LOGIN


async def test_logging_out_ends_this_login_only(hub: Hub) -> None:
    here, there = await hub.log_in(), await hub.log_in()
    async with hub.pool.connection() as conn:
        assert await log_out(conn, here.session.id, HOME)
        assert not await log_out(conn, here.session.id, HOME)
    assert not await valid(hub, here.secret)
    assert await valid(hub, there.secret)


async def test_logging_out_everywhere_ends_all_of_ones_own(hub: Hub) -> None:
    mine = [await hub.log_in() for _ in range(2)]
    other = await hub.log_in("bob", "another password")
    async with hub.pool.connection() as conn:
        assert await log_out_everywhere(conn, await hub.person("alice"), HOME, by="bob") == 2
        assert await log_out_everywhere(conn, await hub.person("alice"), HOME) == 0
    assert [await valid(hub, each.secret) for each in mine] == [False, False]
    assert await valid(hub, other.secret)
    assert (await told(hub))[-1] == ("logout", "alice", "bob", "192.0.2.1", "all 2 logins")


async def test_a_login_ends_the_one_the_browser_came_with(hub: Hub) -> None:
    before = await hub.log_in()
    after = await hub.log_in("bob", "another password", replaces=before.session.id)
    assert not await valid(hub, before.secret)
    assert await valid(hub, after.secret)


async def test_a_failed_login_leaves_the_one_before(hub: Hub) -> None:
    before = await hub.log_in()
    with pytest.raises(NotLetIn):
        await hub.log_in("bob", "wrong", replaces=before.session.id)
    assert await valid(hub, before.secret)


async def test_a_login_ends_at_its_time_whatever_happens(hub: Hub) -> None:
    opened = await hub.log_in(lasting=Lasting(session=timedelta(seconds=-1)))
    assert not await valid(hub, opened.secret)


async def test_a_login_that_nobody_uses_ends(hub: Hub) -> None:
    opened = await hub.log_in()
    await hub.rows("UPDATE sessions SET last_seen_at = now() - interval '2 days'")
    assert await valid(hub, opened.secret, timedelta(days=3))
    assert not await valid(hub, opened.secret, timedelta(days=1))
    async with hub.pool.connection() as conn:
        await write_seen(conn, {opened.session.id: 3600.0}, timedelta(minutes=5))
    assert await valid(hub, opened.secret, timedelta(days=1))


async def test_uses_are_written_once_in_a_while(hub: Hub) -> None:
    opened = await hub.log_in()
    read = "SELECT last_seen_at, xmin::text FROM sessions"
    before = await hub.rows(read)
    async with hub.pool.connection() as conn:
        await write_seen(conn, {opened.session.id: 0.0}, timedelta(minutes=5))
        assert await hub.rows(read) == before
        await write_seen(conn, {opened.session.id: -600.0}, timedelta(minutes=5))
    assert await hub.rows(read) != before


async def test_a_use_never_revives_what_has_ended(hub: Hub) -> None:
    opened = await hub.log_in()
    async with hub.pool.connection() as conn:
        await log_out(conn, opened.session.id, HOME)
        await write_seen(conn, {opened.session.id: -600.0}, timedelta(0))
    assert not await valid(hub, opened.secret)


async def test_disabled_users_are_out_at_once_and_stay_out(hub: Hub) -> None:
    opened = await hub.log_in()
    async with hub.pool.connection() as conn:
        await disable_removed(conn, ["bob", "carol"], NOW)
    assert not await valid(hub, opened.secret)
    with pytest.raises(NotLetIn):
        await hub.log_in()
    async with hub.pool.connection() as conn:
        await upsert_users(conn, [user("alice", password_hash=hash_password(PASSWORD, CHEAP))])
    assert not await valid(hub, opened.secret)
    assert await valid(hub, (await hub.log_in()).secret)


async def test_another_password_ends_the_logins_of_the_old_one(hub: Hub) -> None:
    opened = await hub.log_in()
    other = await hub.log_in("bob", "another password")
    async with hub.pool.connection() as conn:
        new = hash_password("a new password", CHEAP)
        await upsert_users(conn, [user("alice", password_hash=new)])
    assert not await valid(hub, opened.secret)
    assert await valid(hub, other.secret)
    assert await valid(hub, (await hub.log_in("alice", "a new password")).secret)


async def test_a_password_that_changes_while_it_is_checked_lets_nobody_in(hub: Hub) -> None:
    inner = hub.passwords.check

    async def check(stored: str | None, password: str) -> bool:
        right = await inner(stored, password)
        await hub.rows("UPDATE users SET password_hash = 'other' WHERE name = 'alice'")
        return right

    hub.passwords.check = check  # type: ignore[method-assign]
    with pytest.raises(NotLetIn):
        await hub.log_in()
    assert await hub.rows("SELECT id FROM sessions") == []


async def test_a_new_name_or_role_ends_no_login(hub: Hub) -> None:
    opened = await hub.log_in()
    await hub.rows("UPDATE users SET role = 'admin', display_name = 'A' WHERE name = 'alice'")
    assert await valid(hub, opened.secret)


async def test_an_old_hash_lets_in_and_asks_for_a_new_one(
    hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    old = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1)
    stored = hash_password("from years ago", old)
    await hub.rows("UPDATE users SET password_hash = %s WHERE name = 'alice'", stored)
    with caplog.at_level(logging.WARNING):
        assert await hub.log_in("alice", "from years ago")
        assert "alice" in caplog.text
        assert "codehub user hash-password" in caplog.text
        caplog.clear()
        await hub.log_in("bob", "another password")
        assert caplog.text == ""
    (row,) = await hub.rows("SELECT password_hash FROM users WHERE name = 'alice'")
    assert row["password_hash"] == stored


async def test_sessions_that_ended_long_ago_are_deleted(hub: Hub) -> None:
    await hub.log_in()
    await hub.rows("UPDATE sessions SET expires_at = now() - interval '31 days'")
    await hub.log_in()
    assert len(await hub.rows("SELECT id FROM sessions")) == 1
