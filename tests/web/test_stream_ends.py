"""How streams end: with the login behind them, with the process, or for reading too slowly."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from codehub.service.tokens import revoke_token
from codehub.web import stream_client
from tests.web.stream_world import stream_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.web.stream_world import Follower, StreamWorld

pytestmark = pytest.mark.anyio

LONG_TEXT = "x" * 200_000


@pytest.fixture
async def world(
    database_url: str, redis_url: str, anyio_backend: str
) -> AsyncIterator[StreamWorld]:
    async with stream_world(database_url, redis_url) as opened:
        yield opened


async def says_bye(follower: Follower) -> str:
    """Why, and then there is nothing more."""
    found = await follower.until("bye")
    assert (await follower.next()).kind == "end"
    return str(found.data["reason"])


@pytest.mark.parametrize(
    "ending",
    [
        "UPDATE sessions SET revoked_at = now() WHERE user_id = ("
        "SELECT id FROM users WHERE name = 'ana')",
        "DELETE FROM sessions WHERE user_id = (SELECT id FROM users WHERE name = 'ana')",
        "UPDATE users SET disabled_at = now() WHERE name = 'ana'",
        "UPDATE users SET password_hash = 'another' WHERE name = 'ana'",
    ],
    ids=["logout", "swept away", "disabled", "another password"],
)
async def test_a_stream_ends_with_its_login_and_others_stay(
    world: StreamWorld, ending: str
) -> None:
    ana, bob = await world.tab("ana"), await world.tab("bob")
    await ana.all()
    await bob.all()
    await world.run(ending)
    assert await says_bye(ana) == "the login has ended"
    await world.change("bob-running", memo="still here")
    assert (await bob.next()).data["memo"] == "still here"


async def test_a_stream_ends_with_its_token(world: StreamWorld) -> None:
    program, tab = await world.follow(await world.bearer("bob")), await world.tab("bob")
    await program.all()
    await tab.all()
    await revoke_token(world.conn, "bob", "program", by="test")
    assert await says_bye(program) == "the login has ended"
    await world.change("bob-running", memo="still here")
    assert (await tab.next()).data["memo"] == "still here"


async def test_a_stream_ends_when_its_logins_time_is_over(
    database_url: str, redis_url: str
) -> None:
    """Nobody tells of that: it is only later than it was."""
    async with stream_world(database_url, redis_url, auth_refresh_seconds=600) as world:
        ana = await world.tab("ana")
        await ana.all()
        await world.run("UPDATE sessions SET expires_at = now() + interval '2 seconds'")
        assert await says_bye(ana) == "the login has ended"


@pytest.mark.parametrize(
    ("name", "role", "reasons"),
    [
        ("root", "member", {"the login has ended", "the role has changed: connect again"}),
        ("ana", "admin", {"the role has changed: connect again"}),
    ],
)
async def test_another_role_is_another_stream(
    world: StreamWorld, name: str, role: str, reasons: set[str]
) -> None:
    """Whoever comes again sees what the new role lets them see."""
    cookie = await world.cookie(name)
    before = await world.follow(cookie)
    seen = len(await before.all())
    await world.run("UPDATE users SET role = %s WHERE name = %s", role, name)
    assert await says_bye(before) in reasons
    after = await world.follow(cookie)
    now = len(await after.all())
    assert (now > seen) if role == "admin" else (now < seen)


async def test_all_streams_end_at_once_when_the_process_does(
    database_url: str, redis_url: str
) -> None:
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(stream_world(database_url, redis_url))
        tabs = [await world.tab(name) for name in ("ana", "bob", "root")]
        for tab in tabs:
            await tab.all()
        followers, world.followers = world.followers, []
        byes = [asyncio.create_task(says_bye(tab)) for tab in tabs]
    for bye in byes:
        assert await bye == "the hub is restarting: connect again"
    for each in followers:
        each.close()


async def test_streams_end_before_the_process_does_where_one_in_front_of_it_goes_first(
    world: StreamWorld,
) -> None:
    bob = await world.tab("bob")
    await bob.all()
    world.leaving.set()
    assert await says_bye(bob) == "the hub is restarting: connect again"
    late = await world.tab("bob")
    assert (late.status, late.headers["retry-after"]) == (503, "2")


async def test_who_leaves_is_forgotten(database_url: str, redis_url: str) -> None:
    async with stream_world(database_url, redis_url, web_streams_per_user=1) as world:
        cookie = await world.cookie("bob")
        for _ in range(3):
            tab = await world.let_in(cookie)
            await tab.all()
            tab.close()


async def test_who_reads_too_slowly_is_dropped_and_told_so(
    world: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else waits for them."""
    monkeypatch.setattr(stream_client, "MOST_BYTES", 1_000_000)
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    small.connect(("127.0.0.1", world.port))
    slow = await world.follow(await world.cookie("bob"), sock=small, limit=1024)
    quick = await world.tab("bob")
    await quick.all()
    for number in range(40):
        await world.change("bob-running", memo=f"{number} {LONG_TEXT}")
        await quick.update_of("bob-running", memo=f"{number} {LONG_TEXT}")
    found = await slow.until("dropped")
    assert found.data["reason"] == "too much was waiting to be read here: connect again"
    assert (await slow.next()).kind == "end"
    again = await world.tab("bob")
    memos = {each["name"]: each["memo"] for each in await again.all()}
    assert memos["bob-running"] == f"39 {LONG_TEXT}"
