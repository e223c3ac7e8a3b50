"""`POST /api/v1/tokens` sent again: with an `Idempotency-Key`, a lost answer is no lost token."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from codehub.proxy.seam import RequestHead
from tests.web.test_tokens import TOKENS, WISH, leave_room_for_one, listed
from tests.web.web_world import API, PATIENCE

if TYPE_CHECKING:
    import httpx

    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio


async def post(client: httpx.AsyncClient, key: str, **more: Any) -> httpx.Response:
    return await client.post(TOKENS, json=WISH | more, headers={"Idempotency-Key": key})


async def status_of(world: WebWorld, secret: str) -> int:
    """What a program with this secret gets."""
    program = await world.anonymous(Authorization=f"Bearer {secret}")
    return (await program.get(f"{API}/me")).status_code


async def hashes(world: WebWorld) -> list[Any]:
    rows = await world.rows("SELECT token_hash FROM api_tokens ORDER BY created_at")
    return [row["token_hash"] for row in rows]


async def test_the_same_request_gets_the_same_token_with_another_secret(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    key = str(uuid4())
    first, second = await post(ana, key), await post(ana, key)
    assert (first.status_code, second.status_code) == (201, 201)
    lost, told = first.json(), second.json()
    assert lost.pop("secret") != told.pop("secret")
    assert lost == told
    assert [each["name"] for each in await listed(ana)] == ["ci"]
    assert len(await hashes(world)) == 1
    assert await status_of(world, first.json()["secret"]) == 401
    assert await status_of(world, second.json()["secret"]) == 200


async def test_a_secret_that_is_known_already_ends_as_well(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    """Processes remember whom they let in; a secret that was replaced is told of like an end."""
    key = str(uuid4())
    secret = (await post(ana, key)).json()["secret"]
    assert await status_of(world, secret) == 200
    shown, ended = [(b"authorization", f"Bearer {secret}".encode())], asyncio.Event()
    identity = await world.hub.identities.look_up(RequestHead(b"GET", b"/", shown, "127.0.0.1"))
    assert identity is not None
    world.hub.identities.hold(identity, ended.set)
    assert (await post(ana, key)).status_code == 201
    async with asyncio.timeout(PATIENCE):
        await ended.wait()
    assert await status_of(world, secret) == 401


async def test_nothing_readable_is_kept(world: WebWorld, ana: httpx.AsyncClient) -> None:
    key = f"canary-{uuid4()}"
    secrets = [(await post(ana, key)).json()["secret"] for _ in range(2)]
    for table in ("api_tokens", "access_events"):
        rows = str(await world.rows(f"SELECT t::text AS row FROM {table} t"))
        assert "ci" in rows
        assert not [each for each in (key, *secrets) if each in rows], table


async def test_the_audit_has_both(world: WebWorld, ana: httpx.AsyncClient) -> None:
    for _ in range(2):
        await post(ana, "k")
    rows = await world.rows("SELECT kind, by, address, reason FROM access_events ORDER BY id")
    assert [tuple(row.values()) for row in rows] == [
        ("token_created", "ana", "127.0.0.1", "ci (read)"),
        (
            "token_created",
            "ana",
            "127.0.0.1",
            "ci (read), asked for again: its first secret ended",
        ),
    ]


@pytest.mark.parametrize("other", [{"name": "cj"}, {"scopes": ["read", "plan"]}, {"days": 31}])
async def test_the_key_of_another_request_is_refused(
    world: WebWorld, ana: httpx.AsyncClient, other: dict[str, Any]
) -> None:
    assert (await post(ana, "k")).status_code == 201
    before = await hashes(world)
    told = await post(ana, "k", **other)
    assert (told.status_code, told.headers["content-type"]) == (422, "application/problem+json")
    assert told.json()["detail"] == "this key was sent with another request"
    assert await hashes(world) == before


async def test_the_order_of_scopes_makes_no_other_request(ana: httpx.AsyncClient) -> None:
    assert (await post(ana, "k", scopes=["plan", "read"])).status_code == 201
    assert (await post(ana, "k", scopes=["read", "plan"])).status_code == 201


async def test_another_key_or_none_is_another_request(ana: httpx.AsyncClient) -> None:
    assert (await post(ana, "k")).status_code == 201
    for told in (await post(ana, "l"), await ana.post(TOKENS, json=WISH)):
        assert (told.status_code, told.json()["detail"]) == (409, 'there is a token "ci" already')


async def test_a_key_is_its_users_own(
    world: WebWorld, ana: httpx.AsyncClient, bob: httpx.AsyncClient
) -> None:
    theirs = (await post(ana, "k")).json()["secret"]
    assert (await post(bob, "k")).status_code == 201
    assert await status_of(world, theirs) == 200
    assert len(await hashes(world)) == 2


async def test_a_key_is_good_for_a_day(world: WebWorld, ana: httpx.AsyncClient) -> None:
    age = "UPDATE api_tokens SET (created_at, expires_at) ="
    age += " (created_at - %s::interval, expires_at - %s::interval)"
    await post(ana, "k")
    await world.rows(age, "23 hours 59 minutes", "23 hours 59 minutes")
    assert (await post(ana, "k")).status_code == 201
    await world.rows(age, "1 minute", "1 minute")
    before = await hashes(world)
    assert (await post(ana, "k")).status_code == 409
    assert await hashes(world) == before
    assert (await post(ana, "k", name="cj")).status_code == 201
    assert len(await hashes(world)) == 2


async def test_what_was_revoked_stays_so(world: WebWorld, ana: httpx.AsyncClient) -> None:
    await post(ana, "k")
    await ana.delete(f"{TOKENS}/ci")
    before = await hashes(world)
    told = await post(ana, "k")
    assert told.status_code == 409
    assert told.json()["detail"] == 'the token "ci" that this request made was revoked'
    assert await listed(ana) == []
    assert await hashes(world) == before


async def test_a_secret_that_arrived_is_not_taken_away(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    """It was used, so its answer was not lost: this is a straggler."""
    secret = (await post(ana, "k")).json()["secret"]
    assert await status_of(world, secret) == 200
    await world.hub.identities.refresh()
    told = await post(ana, "k")
    assert told.status_code == 409
    assert told.json()["detail"] == 'the token "ci" that this request made is in use'
    assert await status_of(world, secret) == 200


async def test_the_last_token_one_may_have_can_be_asked_for_again(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    await leave_room_for_one(world)
    assert [(await post(ana, "k")).status_code for _ in range(2)] == [201, 201]


async def test_many_at_once_are_no_more_than_one_may_have(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    await leave_room_for_one(world)
    asked = (ana.post(TOKENS, json=WISH | {"name": f"more-{n}"}) for n in range(6))
    answers = await asyncio.gather(*asked)
    assert sorted(each.status_code for each in answers) == [201, *[409] * 5]


async def test_many_at_once_make_one_token_and_one_valid_secret(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    answers = await asyncio.gather(*(post(ana, "k") for _ in range(6)))
    assert [each.status_code for each in answers] == [201] * 6
    secrets = {each.json()["secret"] for each in answers}
    assert len(secrets) == 6
    assert len(await hashes(world)) == 1
    assert sorted([await status_of(world, each) for each in secrets]) == [200, *[401] * 5]


@pytest.mark.parametrize("key", ["", " ", "a b", "a\tb", "schön", "x" * 256])
async def test_keys_that_are_none(world: WebWorld, ana: httpx.AsyncClient, key: str) -> None:
    raw = [(b"Idempotency-Key", key.encode())]
    told = await ana.post(TOKENS, json=WISH, headers=raw)
    assert told.status_code == 422
    assert told.headers["content-type"] == "application/problem+json"
    assert told.json()["errors"][0]["where"] == "header.Idempotency-Key"
    assert await hashes(world) == []


async def test_the_longest_key_counts_and_two_do_not(
    world: WebWorld, ana: httpx.AsyncClient
) -> None:
    two = await ana.post(
        TOKENS, json=WISH, headers=[(b"Idempotency-Key", b"a"), (b"Idempotency-Key", b"b")]
    )
    assert two.status_code == 422
    assert await hashes(world) == []
    assert (await post(ana, "~" * 255)).status_code == 201


async def test_a_key_lets_nobody_in(world: WebWorld, ana: httpx.AsyncClient) -> None:
    await post(ana, "k")
    before = await hashes(world)
    program = await world.token("ana")
    assert (await post(program, "k")).status_code == 403
    assert (await post(await world.anonymous(), "k")).status_code == 401
    assert (await hashes(world))[:1] == before
