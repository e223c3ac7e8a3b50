"""Several processes serve one address: whom one of them let in, the others know as well."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.model.access import Identity, Scope
from codehub.proxy import identity as module
from codehub.proxy.identity import UNKNOWN
from codehub.service.tokens import revoke_token
from codehub.store.users import disable_removed
from tests.auth.people import Hub, request
from tests.auth.test_identity import cut_off, identities, make_token, revoke, running
from tests.integration.elections import until
from tests.make import NOW

if TYPE_CHECKING:
    from codehub.proxy.seam import RequestHead

pytestmark = pytest.mark.anyio


async def shown_elsewhere(hub: Hub) -> tuple[RequestHead, RequestHead]:
    """A login and a token, of which another process has told the database that they are used."""
    heads = (
        request(cookie=(await hub.log_in()).secret),
        request(bearer=await make_token(hub, Scope.WAKE)),
    )
    other = identities(hub)
    for each in heads:
        assert await other.look_up(each)
    await other.refresh()
    return heads


async def test_who_is_known_to_one_is_let_in_by_all_while_the_database_is_away(hub: Hub) -> None:
    heads = await shown_elsewhere(hub)
    async with cut_off(hub) as (people, relay):
        assert [people.who(each) for each in heads] == [UNKNOWN, UNKNOWN]
        await people.refresh()
        await relay.stop()
        for each in heads:
            found = people.who(each)
            assert isinstance(found, Identity)
            assert found.person.name == "alice"
            assert await people.look_up(each) is found


async def test_what_ends_elsewhere_ends_here(hub: Hub) -> None:
    opened = await hub.log_in()
    login, token = request(cookie=opened.secret), request(bearer=await make_token(hub, Scope.READ))
    await identities(hub).look_up(token)
    await hub.rows("UPDATE api_tokens SET last_used_at = now()")
    async with running(identities(hub)) as people:
        assert isinstance(people._known.about(opened.session.id), list)
        assert people._known.about(opened.session.id)
        await revoke(hub, opened)
        await until(lambda: not people._known.about(opened.session.id))
        assert await people.look_up(login) is None
        assert isinstance(people.who(token), Identity)
        async with hub.pool.connection() as conn:
            await revoke_token(conn, "alice", "ci", by="root")
        await until(lambda: not isinstance(people.who(token), Identity))
        assert await people.look_up(token) is None


async def test_a_user_who_is_disabled_is_let_in_nowhere(hub: Hub) -> None:
    login = request(cookie=(await hub.log_in()).secret)
    async with running(identities(hub)) as people:
        async with hub.pool.connection() as conn:
            await disable_removed(conn, ["bob"], NOW)
        await until(lambda: not people._known.claims())
        assert await people.look_up(login) is None


async def test_to_be_known_is_no_use(hub: Hub) -> None:
    """Else no login would ever be idle: each process would say that it is used."""
    await hub.log_in()
    await hub.rows("UPDATE sessions SET last_seen_at = now() - interval '2 days'")
    people = identities(hub)
    for _ in range(2):
        await people.refresh()
    people.hear(f'{{"user": "{(await hub.person("alice")).id}"}}')
    for _ in range(2):
        await people.refresh()
    (session,) = await hub.rows("SELECT now() - last_seen_at AS ago FROM sessions")
    assert session["ago"] > timedelta(days=1)
    assert len(people._known.claims()) == 1, "it was known all the time"


async def test_only_so_many_are_known(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest; one that somebody has shown here stays known beside them."""
    monkeypatch.setattr(module, "MOST_RECENT", 2)
    first = await hub.log_in()
    people = identities(hub)
    await people.refresh()
    assert len(people._known.claims()) == 1
    for _ in range(3):
        await hub.log_in()
    await people.refresh()
    assert len(people._known.claims()) == 2
    assert people.who(request(cookie=first.secret)) is UNKNOWN
    mine = await people.look_up(request(cookie=first.secret))
    await people.refresh()
    assert people.who(request(cookie=first.secret)) == mine
    assert len(people._known.claims()) == 3
