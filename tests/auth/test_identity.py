"""Who is asking, from memory, while a real database changes, falls silent and comes back."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.fingerprint import CSRF_PREFIX, fingerprint, same
from codehub.errors import Unreachable
from codehub.model.access import Identity, Scope, Way
from codehub.model.people import Role
from codehub.proxy import gather as gather_module
from codehub.proxy.credentials import Trust
from codehub.proxy.identity import UNKNOWN, Identities
from codehub.service.links import arrive, hand_over
from codehub.service.minting import new_secret, new_token
from codehub.service.sessions import log_out
from codehub.service.tokens import create_token, revoke_token
from codehub.store import pool as pool_module
from codehub.store.pool import Pool
from codehub.store.users import disable_removed, upsert_users
from tests.auth.people import HOME, Hub, request
from tests.integration.elections import PATIENCE, until
from tests.integration.relay import Relay
from tests.make import NOW, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

HOST = "api.hub.example"
SSO = Trust("X-Forwarded-User", ["10.0.0.0/8"])
MOST_REFRESH = 600.0
"""Nothing is read again by the clock: what is heard of, is heard of by being told."""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is not a database that gives no answer."""
    monkeypatch.setattr(gather_module, "PATIENCE", PATIENCE)
    monkeypatch.setattr("codehub.proxy.identity.ANSWER_SECONDS", PATIENCE)


def identities(hub: Hub, **more: Any) -> Identities:
    return Identities(hub.pool, hub.url, **{"refresh": MOST_REFRESH, **more})


@asynccontextmanager
async def running(people: Identities) -> AsyncIterator[Identities]:
    """It listens, and has read what it missed before."""
    ready = asyncio.Event()
    refresh = people.refresh

    async def refreshed() -> None:
        await refresh()
        ready.set()

    people.refresh = refreshed  # type: ignore[method-assign]
    task = asyncio.create_task(people.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await ready.wait()
        yield people
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def make_token(hub: Hub, *scopes: Scope) -> str:
    async with hub.pool.connection() as conn:
        made = await create_token(conn, "alice", "ci", scopes, timedelta(days=1), by="root")
    return made.secret


async def revoke(hub: Hub, opened: Any) -> None:
    async with hub.pool.connection() as conn:
        assert await log_out(conn, opened.session.id, HOME)


# Looking up


async def test_an_unknown_cookie_is_looked_up_once_and_then_known(hub: Hub) -> None:
    people, opened = identities(hub), await hub.log_in()
    head = request(cookie=opened.secret)
    assert people.who(head) is UNKNOWN
    found = await people.look_up(head)
    assert isinstance(found, Identity)
    assert (found.person.name, found.way, found.id) == ("alice", Way.SESSION, opened.session.id)
    assert people.who(head) is found
    assert all(found.may(scope) for scope in Scope)


async def test_nobody_is_nobody_without_asking(hub: Hub) -> None:
    people = identities(hub)
    assert people.who(request()) is None
    assert people.who(request(cookie="garbage")) is None
    assert people.who(request(bearer="chub_garbage")) is None


async def test_a_session_that_never_was_is_nobody_s(hub: Hub) -> None:
    people, head = identities(hub), request(cookie=new_secret())
    assert people.who(head) is UNKNOWN
    assert await people.look_up(head) is None
    assert people.who(head) is None


async def test_many_lookups_at_once_are_few_questions(hub: Hub) -> None:
    people, opened = identities(hub), await hub.log_in()
    questions: list[int] = []
    read = people._read

    async def counted(asked: Any) -> None:
        questions.append(len(asked))
        await read(asked)

    people._questions = gather_module.Gathered(counted)
    strangers = [request(cookie=new_secret()) for _ in range(300)]
    mine = [request(cookie=opened.secret) for _ in range(300)]
    found = await asyncio.gather(*(people.look_up(head) for head in [*strangers, *mine]))
    assert found[:300] == [None] * 300
    assert {each.person.name for each in found[300:] if each} == {"alice"}
    assert len(questions) <= 3
    assert sum(questions) == 301


async def test_a_token_has_its_scopes_and_no_more(hub: Hub) -> None:
    people, secret = identities(hub), await make_token(hub, Scope.WRITE)
    found = await people.look_up(request(bearer=secret))
    assert found is not None
    assert found.way is Way.TOKEN
    assert found.scopes == {Scope.WRITE, Scope.READ, Scope.WAKE}
    assert not found.may(Scope.PLAN)
    assert await people.look_up(request(bearer=new_token())) is None


async def test_a_session_s_secret_is_no_token_and_a_token_no_session(hub: Hub) -> None:
    people, opened, token = identities(hub), await hub.log_in(), await make_token(hub, Scope.READ)
    assert await people.look_up(request(bearer=opened.secret)) is None
    assert await people.look_up(request(cookie=token)) is None


async def test_the_sso_proxy_names_users_and_nobody_else_does(hub: Hub) -> None:
    people = identities(hub, trust=SSO)
    named = ("X-Forwarded-User", "bob")
    found = await people.look_up(request(named, peer="10.0.0.1"))
    assert found is not None
    assert (found.person.name, found.person.role, found.way) == ("bob", Role.ADMIN, Way.HEADER)
    assert await people.look_up(request(named, peer="192.0.2.1")) is None
    unknown = request(("X-Forwarded-User", "stranger"), peer="10.0.0.1")
    assert await people.look_up(unknown) is None


async def test_a_session_is_good_on_its_own_host_only(hub: Hub) -> None:
    people, parent = identities(hub), await hub.log_in()
    async with hub.pool.connection() as conn:
        code = await hand_over(conn, parent.session.id, HOST)
        child = await arrive(conn, code, HOST, HOME)
    hubs, hosts = request(cookie=parent.secret), request(cookie=child.secret)
    assert await people.look_up(hubs)
    assert await people.look_up(hubs, HOST) is None
    assert await people.look_up(hosts, HOST)
    assert await people.look_up(hosts) is None
    assert await people.look_up(hosts, "web.hub.example") is None
    token = request(bearer=await make_token(hub, Scope.WAKE))
    assert await people.look_up(token, HOST)


async def test_a_cookie_that_another_host_slipped_in_makes_nobody_somebody_else(hub: Hub) -> None:
    people = identities(hub)
    mine, hers = await hub.log_in(), await hub.log_in("bob", "another password")
    both = request(("Cookie", f"codehub={hers.secret}; codehub={mine.secret}"))
    assert await people.look_up(both) is None
    stale = request(("Cookie", f"codehub={new_secret()}; codehub={mine.secret}"))
    found = await people.look_up(stale)
    assert found is not None
    assert found.person.name == "alice"


# CSRF


async def test_csrf_tokens_belong_to_one_session_and_all_proxies_agree(hub: Hub) -> None:
    first, second = await hub.log_in(), await hub.log_in()
    here, there = identities(hub), identities(hub)
    mine = await here.look_up(request(cookie=first.secret))
    again = await there.look_up(request(cookie=first.secret))
    other = await there.look_up(request(cookie=second.secret))
    assert mine
    assert again
    assert other
    assert same(mine.csrf, again.csrf)
    assert not same(other.csrf, mine.csrf)
    assert len(mine.csrf) == len(CSRF_PREFIX) + 64
    assert first.secret not in mine.csrf
    for wrong in ("", "x", mine.csrf[:-1], mine.csrf + "0", "ä", "\ud800"):
        assert not same(wrong, mine.csrf)
    assert not same("", "")


# Changes are told


async def test_a_logout_anywhere_is_known_here_at_once_and_hangs_up(hub: Hub) -> None:
    opened, other = await hub.log_in(), await hub.log_in()
    head, kept = request(cookie=opened.secret), request(cookie=other.secret)
    closed: list[str] = []
    async with running(identities(hub)) as people:
        mine, hers = await people.look_up(head), await people.look_up(kept)
        assert mine
        assert hers
        people.hold(mine, lambda: closed.append("first"))
        people.hold(mine, lambda: closed.append("second"))
        release = people.hold(mine, lambda: closed.append("released"))
        people.hold(hers, lambda: closed.append("other"))
        release()
        await revoke(hub, opened)
        await until(lambda: len(closed) == 2)
        assert people.who(head) is None
        assert people.who(kept) == hers
    assert sorted(closed) == ["first", "second"]


async def test_a_logout_on_the_hub_hangs_up_on_workspaces_own_hosts(hub: Hub) -> None:
    parent = await hub.log_in()
    async with hub.pool.connection() as conn:
        code = await hand_over(conn, parent.session.id, HOST)
        child = await arrive(conn, code, HOST, HOME)
    closed: list[str] = []
    async with running(identities(hub)) as people:
        there = await people.look_up(request(cookie=child.secret), HOST)
        assert there
        people.hold(there, lambda: closed.append("hung up"))
        await revoke(hub, parent)
        await until(lambda: closed == ["hung up"])
        assert people.who(request(cookie=child.secret), HOST) is None


async def test_whoever_opens_a_socket_after_the_end_is_hung_up_too(hub: Hub) -> None:
    opened = await hub.log_in()
    head = request(cookie=opened.secret)
    closed = asyncio.Event()
    async with running(identities(hub)) as people:
        mine = await people.look_up(head)
        assert mine
        await revoke(hub, opened)
        await until(lambda: people.who(head) is None)
        people.hold(mine, closed.set)
        async with asyncio.timeout(PATIENCE):
            await closed.wait()


async def test_a_hang_up_that_fails_keeps_nobody_else_connected(
    hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    opened = await hub.log_in()
    closed: list[str] = []

    def broken() -> None:
        raise RuntimeError("a dead connection")

    async with running(identities(hub)) as people:
        mine = await people.look_up(request(cookie=opened.secret))
        assert mine
        for hang_up in (broken, lambda: closed.append("other"), broken):
            people.hold(mine, hang_up)
        await revoke(hub, opened)
        await until(lambda: closed == ["other"])
    assert "could not be closed" in caplog.text


async def test_a_disabled_user_is_out_at_once_by_session_token_and_name(hub: Hub) -> None:
    opened, token = await hub.log_in(), await make_token(hub, Scope.READ)
    heads = [
        request(cookie=opened.secret),
        request(bearer=token),
        request(("X-Forwarded-User", "alice"), peer="10.0.0.1"),
    ]
    closed: list[int] = []
    async with running(identities(hub, trust=SSO)) as people:
        for number, head in enumerate(heads):
            found = await people.look_up(head)
            assert found
            people.hold(found, lambda number=number: closed.append(number))  # type: ignore[misc]
        async with hub.pool.connection() as conn:
            await disable_removed(conn, ["bob"], NOW)
        await until(lambda: len(closed) == 3)
        assert [people.who(head) for head in heads] == [None, None, None]


async def test_a_revoked_token_is_good_for_nothing_at_once(hub: Hub) -> None:
    head = request(bearer=await make_token(hub, Scope.READ))
    async with running(identities(hub)) as people:
        assert await people.look_up(head)
        async with hub.pool.connection() as conn:
            await revoke_token(conn, "alice", "ci", by="root")
        await until(lambda: people.who(head) is None)


async def test_another_role_is_known_at_once_and_hangs_up_nobody(hub: Hub) -> None:
    opened = await hub.log_in()
    head = request(cookie=opened.secret)
    closed: list[str] = []

    def is_admin(people: Identities) -> bool:
        found = people.who(head)
        return isinstance(found, Identity) and found.person.is_admin

    async with running(identities(hub)) as people:
        mine = await people.look_up(head)
        assert mine
        assert not is_admin(people)
        people.hold(mine, lambda: closed.append("hung up"))
        await hub.rows("UPDATE users SET role = 'admin' WHERE name = 'alice'")
        await until(lambda: is_admin(people))
        assert closed == []
        await revoke(hub, opened)
        await until(lambda: closed == ["hung up"])


async def test_a_user_who_was_unknown_is_known_when_the_specs_declare_them(hub: Hub) -> None:
    head = request(("X-Forwarded-User", "dave"), peer="10.0.0.1")
    async with running(identities(hub, trust=SSO)) as people:
        assert await people.look_up(head) is None
        assert people.who(head) is None
        async with hub.pool.connection() as conn:
            await upsert_users(conn, [user("dave")])
        await until(lambda: people.who(head) is UNKNOWN)
        found = await people.look_up(head)
        assert found is not None
        assert found.person.name == "dave"


async def test_what_was_read_before_a_change_is_not_believed_after_it(hub: Hub) -> None:
    """The answer was on its way when the logout was told."""
    opened = await hub.log_in()
    head = request(cookie=opened.secret)
    people = identities(hub)
    read = people._pool.connection

    @asynccontextmanager
    async def late() -> AsyncIterator[Any]:
        async with read() as conn:
            yield conn
            people._pool.connection = read  # type: ignore[method-assign]
            await revoke(hub, opened)
            people.hear(f'{{"session": "{opened.session.id}"}}')

    people._pool.connection = late  # type: ignore[method-assign]
    assert await people.look_up(head) is None
    assert people.who(head) is None


@pytest.mark.parametrize(
    "payload", ["", "x", "[]", "null", "{}", '{"session": 1}', '{"session": "x"}', '{"a":1,"b":2}']
)
async def test_what_others_tell_on_our_channel_does_no_harm(
    hub: Hub, payload: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        identities(hub).hear(payload)
    assert "not ours" in caplog.text


# Time


async def test_a_login_that_runs_out_is_hung_up_at_the_next_round(hub: Hub) -> None:
    opened = await hub.log_in()
    closed: list[str] = []
    people = identities(hub)
    mine = await people.look_up(request(cookie=opened.secret))
    assert mine
    people.hold(mine, lambda: closed.append("hung up"))
    await hub.rows("ALTER TABLE sessions DISABLE TRIGGER access_session")
    await hub.rows("UPDATE sessions SET expires_at = now()")
    await people.refresh()
    assert closed == ["hung up"]
    assert people.who(request(cookie=opened.secret)) is None


async def test_an_expired_login_is_nobody_s_before_anybody_says_so(hub: Hub) -> None:
    now = [0.0]
    opened = await hub.log_in()
    people = identities(hub, clock=lambda: now[0], outage=1e9)
    head = request(cookie=opened.secret)
    assert await people.look_up(head)
    now[0] = 13.9 * 86400
    assert people.who(head)
    now[0] = 14 * 86400 + 1
    assert people.who(head) is None


async def test_whether_a_login_still_holds_can_be_asked_without_using_it(hub: Hub) -> None:
    now = [0.0]
    secret = (await hub.log_in()).secret
    people = identities(hub, clock=lambda: now[0])
    mine = await people.look_up(request(cookie=secret))
    assert mine is not None
    used = [each.seen for each, _ in people._known.used(-1)]
    now[0] += 3600
    assert people.still(mine) == mine
    assert [each.seen for each, _ in people._known.used(-1)] == used
    people.hear(json.dumps({"user": str(mine.person.id)}))
    assert people.still(mine) == mine, "what is being asked about is as before"
    now[0] += 365 * 86400
    await people._read(list(people._changed))
    now[0] += 365 * 86400
    assert people.still(mine) is None


async def test_whoever_has_another_role_by_now_is_seen_to_have_it(hub: Hub) -> None:
    secret = (await hub.log_in()).secret
    async with running(identities(hub)) as people:
        mine = await people.look_up(request(cookie=secret))
        assert mine is not None
        await hub.rows("UPDATE users SET role = 'admin' WHERE name = 'alice'")
        await until(lambda: (found := people.still(mine)) is not None and found.person.is_admin)


async def test_rounds_write_who_was_here(hub: Hub) -> None:
    opened, token = await hub.log_in(), await make_token(hub, Scope.READ)
    people = identities(hub)
    await hub.rows("UPDATE sessions SET last_seen_at = now() - interval '2 days'")
    await people.look_up(request(cookie=opened.secret))
    await people.look_up(request(bearer=token))
    await people.refresh()
    (session,) = await hub.rows("SELECT now() - last_seen_at AS ago FROM sessions")
    (used,) = await hub.rows("SELECT now() - last_used_at AS ago FROM api_tokens")
    assert session["ago"] < timedelta(hours=1)
    assert used["ago"] < timedelta(hours=1)


# The database is away


@asynccontextmanager
async def cut_off(hub: Hub, **more: Any) -> AsyncIterator[tuple[Identities, Relay]]:
    """Identities whose way to the database can be cut."""
    async with Relay(hub.url) as relay, Pool(relay.url, size=2, checked=True) as pool:
        people = Identities(pool, relay.url, **{"refresh": MOST_REFRESH, **more})
        yield people, relay


async def test_known_ones_stay_known_and_of_others_nothing_can_be_said(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather_module, "PATIENCE", 0.2)
    opened = await hub.log_in()
    head = request(cookie=opened.secret)
    closed: list[str] = []
    async with cut_off(hub) as (people, relay), running(people):
        mine = await people.look_up(head)
        assert mine
        people.hold(mine, lambda: closed.append("hung up"))
        await relay.stop()
        other = request(cookie=(await hub.log_in()).secret)
        assert people.who(head) == mine
        assert people.who(other) is UNKNOWN
        with pytest.raises(Unreachable):
            await people.look_up(other)
        assert people.who(head) == mine
        assert closed == []
        await relay.start()
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    assert await people.look_up(other)
                    break
                except Unreachable:
                    await asyncio.sleep(0.01)


async def test_a_logout_while_cut_off_is_known_as_soon_as_the_way_is_back(hub: Hub) -> None:
    opened = await hub.log_in()
    head = request(cookie=opened.secret)
    closed: list[str] = []
    async with cut_off(hub) as (people, relay), running(people):
        mine = await people.look_up(head)
        assert mine
        people.hold(mine, lambda: closed.append("hung up"))
        await relay.stop()
        await revoke(hub, opened)
        assert people.who(head) == mine
        await relay.start()
        await until(lambda: closed == ["hung up"])
        assert people.who(head) is None


async def test_a_change_that_cannot_be_looked_at_hangs_up(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logout was told, and then the way to the database was cut."""
    monkeypatch.setattr(pool_module, "PATIENCE", 0.5)
    opened = await hub.log_in()
    closed: list[str] = []
    async with cut_off(hub) as (people, relay), running(people):
        mine = await people.look_up(request(cookie=opened.secret))
        assert mine
        people.hold(mine, lambda: closed.append("hung up"))
        await relay.stop()
        people.hear(f'{{"session": "{opened.session.id}"}}')
        assert people.who(request(cookie=opened.secret)) is UNKNOWN
        await until(lambda: closed == ["hung up"])


async def test_what_becomes_due_during_a_round_is_due_after_it(hub: Hub) -> None:
    """Listening began anew while everybody was asked about."""
    people = identities(hub, refresh=0.01)
    rounds: list[bool] = []

    async def interrupted() -> None:
        rounds.append(people._all_due)
        people._all_due = len(rounds) == 1

    people.refresh = interrupted  # type: ignore[method-assign]
    await people._freshen()
    people._news.set()
    await people._freshen()
    assert rounds == [False, False]
    assert not people._all_due


async def test_after_too_long_nobody_is_known_and_sockets_are_hung_up(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather_module, "PATIENCE", 0.2)
    monkeypatch.setattr(pool_module, "PATIENCE", 0.5)
    now = [0.0]
    opened = await hub.log_in()
    head = request(cookie=opened.secret)
    closed: list[str] = []
    often = {"clock": lambda: now[0], "outage": 3600, "refresh": 0.05}
    async with cut_off(hub, **often) as (people, relay), running(people):
        mine = await people.look_up(head)
        assert mine
        people.hold(mine, lambda: closed.append("hung up"))
        await relay.stop()
        now[0] = 3500
        assert people.who(head) == mine
        now[0] = 8000
        assert people.who(head) is UNKNOWN
        await until(lambda: closed == ["hung up"])
        with pytest.raises(Unreachable):
            await people.look_up(head)


async def test_only_hashes_are_in_memory(hub: Hub) -> None:
    opened = await hub.log_in()
    people = identities(hub)
    found = await people.look_up(request(cookie=opened.secret))
    remembered = people._known.claims()
    assert [claim.key for claim in remembered] == [fingerprint(opened.secret)]
    assert found is not None
    assert found.csrf not in repr(found)
