"""One-time codes: login links, and the way to a workspace's own host."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.core.fingerprint import fingerprint
from codehub.errors import NotFound, NotLetIn
from codehub.model.access import Visitor
from codehub.service.links import arrive, create_login_link, hand_over, redeem
from codehub.service.sessions import log_out
from codehub.store.access import access_events
from codehub.store.sessions import find_sessions, write_seen
from codehub.store.users import disable_removed
from tests.auth.people import HOME, LASTING, Hub
from tests.make import NOW

if TYPE_CHECKING:
    from uuid import UUID

    from codehub.model.access import Opened, Session

pytestmark = pytest.mark.anyio

HOST = "api.hub.example"
STALE = replace(LASTING, link=timedelta(seconds=-1), handover=timedelta(seconds=-1))


async def link(hub: Hub, user: str = "alice") -> str:
    async with hub.pool.connection() as conn:
        return await create_login_link(conn, user, by="root")


async def use(hub: Hub, code: str) -> Opened:
    async with hub.pool.connection() as conn:
        return await redeem(conn, code, HOME, lasting=LASTING)


async def to_host(hub: Hub, session_id: UUID, host: str = HOST, state: str = "") -> str:
    async with hub.pool.connection() as conn:
        return await hand_over(conn, session_id, host, state=state)


async def enter(hub: Hub, code: str, host: str = HOST, state: str = "") -> Opened:
    async with hub.pool.connection() as conn:
        return await arrive(conn, code, host, HOME, state=state)


async def found(hub: Hub, secret: str, idle: timedelta = LASTING.idle) -> Session | None:
    async with hub.pool.connection() as conn:
        return (await find_sessions(conn, [fingerprint(secret)], idle)).get(fingerprint(secret))


# Login links


async def test_a_link_logs_its_user_in_once(hub: Hub) -> None:
    code = await link(hub, "carol")
    opened = await use(hub, code)
    assert opened.session.person.name == "carol"
    assert await found(hub, opened.secret)
    with pytest.raises(NotLetIn, match="used already, or is too old"):
        await use(hub, code)


async def test_of_many_who_use_a_link_at_once_one_gets_in(hub: Hub) -> None:
    code = await link(hub)
    answers = await asyncio.gather(*(use(hub, code) for _ in range(10)), return_exceptions=True)
    assert sum(not isinstance(each, NotLetIn) for each in answers) == 1
    assert len(await hub.rows("SELECT id FROM sessions")) == 1


async def test_an_old_link_lets_nobody_in(hub: Hub) -> None:
    async with hub.pool.connection() as conn:
        code = await create_login_link(conn, "alice", lasting=STALE)
    with pytest.raises(NotLetIn):
        await use(hub, code)
    assert await hub.rows("SELECT id FROM sessions") == []


@pytest.mark.parametrize("code", ["", "x", "\x00", "' OR 1=1", "A" * 43])
async def test_what_is_no_code_lets_nobody_in(hub: Hub, code: str) -> None:
    await link(hub)
    with pytest.raises(NotLetIn):
        await use(hub, code)
    assert len(await hub.rows("SELECT purpose FROM login_codes")) == 1


async def test_only_hashes_of_codes_are_kept(hub: Hub) -> None:
    code = await link(hub)
    stored = await hub.everything()
    assert code not in stored
    assert fingerprint(code) in stored


async def test_there_is_no_link_for_somebody_unknown_or_disabled(hub: Hub) -> None:
    with pytest.raises(NotFound, match="nobody-here"):
        await link(hub, "nobody-here")
    code = await link(hub)
    async with hub.pool.connection() as conn:
        await disable_removed(conn, ["bob"], NOW)
    with pytest.raises(NotFound):
        await link(hub)
    with pytest.raises(NotLetIn):
        await use(hub, code)


async def test_another_password_ends_links_too(hub: Hub) -> None:
    code = await link(hub)
    await hub.rows("UPDATE users SET password_hash = 'other' WHERE name = 'alice'")
    with pytest.raises(NotLetIn):
        await use(hub, code)


async def test_the_audit_tells_of_links(hub: Hub) -> None:
    await use(hub, await link(hub))
    async with hub.pool.connection() as conn:
        events = await access_events(conn)
    told = [(each.kind.value, each.user, each.by, each.reason) for each in events]
    assert told == [
        ("link", "alice", "root", ""),
        ("login", "alice", "alice", "with a login link"),
    ]
    assert events[1].address == HOME.address


# Hand-over


async def test_a_login_is_handed_over_to_a_host_once(hub: Hub) -> None:
    parent = await hub.log_in()
    code = await to_host(hub, parent.session.id)
    child = await enter(hub, code)
    assert child.secret != parent.secret
    assert (child.session.host, child.session.parent_id) == (HOST, parent.session.id)
    assert child.session.expires_at == parent.session.expires_at
    assert child.session.person == parent.session.person
    with pytest.raises(NotLetIn):
        await enter(hub, code)


async def test_a_code_is_for_its_host_and_used_up_elsewhere(hub: Hub) -> None:
    parent = await hub.log_in()
    code = await to_host(hub, parent.session.id)
    with pytest.raises(NotLetIn):
        await enter(hub, code, "evil.hub.example")
    with pytest.raises(NotLetIn):
        await enter(hub, code)


async def test_hosts_are_written_in_small_letters(hub: Hub) -> None:
    parent = await hub.log_in()
    child = await enter(hub, await to_host(hub, parent.session.id, "API.Hub.example"))
    assert child.session.host == HOST


async def test_a_code_is_for_the_browser_that_asked(hub: Hub) -> None:
    """Nobody logs somebody else in as themselves by sending them a code."""
    parent = await hub.log_in()
    code = await to_host(hub, parent.session.id, state="in the victim's cookie")
    with pytest.raises(NotLetIn):
        await enter(hub, code, state="in another browser's")
    with pytest.raises(NotLetIn):
        await enter(hub, code, state="")
    assert await enter(hub, code, state="in the victim's cookie")


async def test_an_old_code_and_a_code_of_another_kind_open_nothing(hub: Hub) -> None:
    parent = await hub.log_in()
    async with hub.pool.connection() as conn:
        old = await hand_over(conn, parent.session.id, HOST, lasting=STALE)
    with pytest.raises(NotLetIn):
        await enter(hub, old)
    with pytest.raises(NotLetIn):
        await enter(hub, await link(hub))
    for written in ("{}", "{} "):
        code = await to_host(hub, parent.session.id)
        with pytest.raises(NotLetIn):
            await use(hub, written.format(code))


async def test_what_has_ended_is_not_handed_over(hub: Hub) -> None:
    parent = await hub.log_in()
    code = await to_host(hub, parent.session.id)
    async with hub.pool.connection() as conn:
        await log_out(conn, parent.session.id, HOME)
    with pytest.raises(NotLetIn):
        await enter(hub, code)
    with pytest.raises(NotLetIn, match="this login has ended"):
        await to_host(hub, parent.session.id)


async def test_a_session_of_a_host_is_not_handed_on(hub: Hub) -> None:
    """Or a workspace that got hold of one could open all others."""
    parent = await hub.log_in()
    child = await enter(hub, await to_host(hub, parent.session.id))
    with pytest.raises(NotLetIn):
        await to_host(hub, child.session.id, "other.hub.example")


async def test_logging_out_anywhere_logs_out_on_all_hosts(hub: Hub) -> None:
    for ends in ("parent", "child"):
        parent = await hub.log_in()
        child = await enter(hub, await to_host(hub, parent.session.id))
        web = "web.hub.example"
        other = await enter(hub, await to_host(hub, parent.session.id, web), web)
        async with hub.pool.connection() as conn:
            ended = parent if ends == "parent" else child
            assert await log_out(conn, ended.session.id, Visitor())
        for each in (parent, child, other):
            assert await found(hub, each.secret) is None


async def test_a_host_s_session_ends_with_a_parent_that_ran_out(hub: Hub) -> None:
    parent = await hub.log_in()
    child = await enter(hub, await to_host(hub, parent.session.id))
    await hub.rows("UPDATE sessions SET expires_at = now() WHERE parent_id IS NULL")
    assert await found(hub, child.secret) is None


async def test_work_on_a_host_keeps_the_login_it_came_from(hub: Hub) -> None:
    parent = await hub.log_in()
    child = await enter(hub, await to_host(hub, parent.session.id))
    await hub.rows("UPDATE sessions SET last_seen_at = now() - interval '2 days'")
    async with hub.pool.connection() as conn:
        await write_seen(conn, {child.session.id: 1.0}, timedelta(minutes=5))
    assert await found(hub, parent.secret, timedelta(days=1))
    assert await found(hub, child.secret, timedelta(days=1))


async def test_codes_that_nobody_used_are_deleted(hub: Hub) -> None:
    async with hub.pool.connection() as conn:
        await create_login_link(conn, "alice", lasting=STALE)
    await use(hub, await link(hub))
    assert await hub.rows("SELECT purpose FROM login_codes") == []
