"""`/api/v1/tokens`: one's own, made by people alone, told once, ended at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.access import Scope
from codehub.service.tokens import MOST
from tests.web.web_world import API

if TYPE_CHECKING:
    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

TOKENS = f"{API}/tokens"
WISH = {"name": "ci", "scopes": ["read"], "days": 30}


async def listed(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await client.get(TOKENS)).raise_for_status().json()["items"]
    return items


async def test_a_token_is_made_and_works(world: WebWorld, ana: httpx.AsyncClient) -> None:
    made = await ana.post(TOKENS, json=WISH)
    assert made.status_code == 201
    told = made.json()
    assert (told["name"], told["scopes"]) == ("ci", ["read"])
    lasts = datetime.fromisoformat(told["expiresAt"]) - datetime.fromisoformat(told["createdAt"])
    assert lasts == timedelta(days=30)
    program = await world.anonymous(Authorization=f"Bearer {told['secret']}")
    me = (await program.get(f"{API}/me")).json()
    assert (me["name"], me["way"], me["scopes"]) == ("ana", "token", ["read"])


async def test_the_secret_is_told_once_and_kept_nowhere(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    secret = (await ana.post(TOKENS, json=WISH)).json()["secret"]
    (only,) = await listed(ana)
    assert "secret" not in only
    kept = await world.rows("SELECT t::text AS row FROM api_tokens t")
    audit = await world.rows("SELECT t::text AS row FROM access_events t")
    assert secret not in str(kept + audit)


async def test_the_audit_knows_who_from_where(world: WebWorld, ana: httpx.AsyncClient) -> None:
    await ana.post(TOKENS, json=WISH)
    await ana.delete(f"{TOKENS}/ci")
    rows = await world.rows("SELECT kind, by, address, reason FROM access_events ORDER BY id")
    assert [tuple(row.values()) for row in rows] == [
        ("token_created", "ana", "127.0.0.1", "ci (read)"),
        ("token_revoked", "ana", "127.0.0.1", "ci"),
    ]


async def test_a_revoked_token_ends_at_once(world: WebWorld, ana: httpx.AsyncClient) -> None:
    secret = (await ana.post(TOKENS, json=WISH)).json()["secret"]
    ended = await ana.delete(f"{TOKENS}/ci")
    assert (ended.status_code, ended.content) == (204, b"")
    assert await listed(ana) == []
    program = await world.anonymous(Authorization=f"Bearer {secret}")
    assert (await program.get(f"{API}/me")).status_code == 401
    assert (await ana.delete(f"{TOKENS}/ci")).status_code == 404


async def test_others_are_not_there(ana: httpx.AsyncClient, root: httpx.AsyncClient) -> None:
    """Nor are they for an admin, who has `codehub token list`."""
    await ana.post(TOKENS, json=WISH)
    assert await listed(root) == []
    theirs, nobodys = (await root.delete(f"{TOKENS}/ci")), (await root.delete(f"{TOKENS}/cj"))
    assert theirs.status_code == nobodys.status_code == 404
    assert theirs.json()["detail"].replace("ci", "cj") == nobodys.json()["detail"]
    assert [each["name"] for each in await listed(ana)] == ["ci"]


async def test_a_token_makes_no_tokens(world: WebWorld) -> None:
    for scopes in ((Scope.WRITE,), tuple(Scope)):
        program = await world.token("ana", *scopes)
        before = await world.rows("TABLE api_tokens")
        assert (await program.post(TOKENS, json=WISH)).status_code == 403
        assert await world.rows("TABLE api_tokens") == before


async def test_what_scopes_do_here(world: WebWorld, ana: httpx.AsyncClient) -> None:
    await ana.post(TOKENS, json=WISH)
    reader, writer = await world.token("ana", Scope.READ), await world.token("ana", Scope.WRITE)
    waker = await world.token("ana", Scope.WAKE)
    assert (await reader.get(TOKENS)).status_code == 200
    assert (await waker.get(TOKENS)).status_code == 403
    assert (await reader.delete(f"{TOKENS}/ci")).status_code == 403
    assert (await writer.delete(f"{TOKENS}/ci")).status_code == 204


async def test_a_page_from_elsewhere_makes_none(ana: httpx.AsyncClient) -> None:
    del ana.headers["X-CSRF-Token"]
    assert (await ana.post(TOKENS, json=WISH)).status_code == 403
    assert await listed(ana) == []


async def test_a_name_is_taken_once(ana: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    assert (await ana.post(TOKENS, json=WISH)).status_code == 201
    again = await ana.post(TOKENS, json=WISH)
    assert again.status_code == 409
    assert again.json()["detail"] == 'there is a token "ci" already'
    assert (await bob.post(TOKENS, json=WISH)).status_code == 201


async def test_wishes_that_are_refused(world: WebWorld, ana: httpx.AsyncClient) -> None:
    wrongs: tuple[dict[str, Any], ...] = (
        {"name": "Ci"},
        {"name": "c i"},
        {"name": "c\0i"},
        {"name": "x" * 41},
        {"name": ""},
        {"scopes": []},
        {"scopes": ["admin"]},
        {"scopes": "read"},
        {"days": 0},
        {"days": 367},
        {"days": 1e300},
        {"user": "root"},
    )
    for wrong in wrongs:
        told = await ana.post(TOKENS, json=WISH | wrong)
        assert told.status_code == 422, wrong
        assert told.headers["content-type"] == "application/problem+json"
    assert await world.rows("TABLE api_tokens") == []


async def leave_room_for_one(world: WebWorld) -> None:
    """ana has as many tokens as she may, but one."""
    await world.conn.execute(
        "INSERT INTO api_tokens (user_id, name, token_hash, scopes, expires_at)"
        " SELECT id, 't' || n, 'h' || n, '[\"read\"]', now() + interval '1 day'"
        " FROM users, generate_series(1, %s) AS n WHERE name = 'ana'",
        (MOST - 1,),
    )


async def test_there_is_an_end_to_how_many_one_has(world: WebWorld, ana: httpx.AsyncClient) -> None:
    await leave_room_for_one(world)
    assert (await ana.post(TOKENS, json=WISH)).status_code == 201
    told = await ana.post(TOKENS, json=WISH | {"name": "more"})
    assert told.status_code == 409
    assert told.json()["detail"] == f"ana has {MOST} tokens already"
    assert len(await listed(ana)) == MOST
