"""What streams do while Redis, the coordinator or the database is away, and after it."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from codehub.web import stream_telling
from codehub.web.stream_text import Spoken
from tests.integration.relay import Relay
from tests.web.stream_world import HOURLY, stream_world

if TYPE_CHECKING:
    from codehub.config import Settings
    from codehub.embedded.redis import EmbeddedRedis
    from codehub.store.streams import Sight

pytestmark = pytest.mark.anyio

SOON = 0.2
GIVE_TO_ANA = """
UPDATE workspaces SET owner_user_id = (SELECT id FROM users WHERE name = 'ana')
WHERE name = 'bob-running'
"""


async def test_redis_goes_and_comes_back(database_url: str, own_redis: EmbeddedRedis) -> None:
    """Meanwhile changes are found by looking; afterwards nothing can have been missed."""
    async with stream_world(database_url, own_redis.url) as world:
        bob = await world.tab("bob")
        await bob.all()
        own_redis.stop()
        assert (await bob.next()).kind == "resync"
        await world.change("bob-running", memo="without Redis")
        assert (await bob.next()).data["memo"] == "without Redis"
        late = await world.tab("bob")
        assert len(await late.all()) == 3
        own_redis.start()
        for tab in (bob, late):
            memos = {each["name"]: each["memo"] for each in await tab.all()}
            assert memos["bob-running"] == "without Redis"
        await world.change("bob-running", memo="with Redis")
        for tab in (bob, late):
            assert (await tab.next()).data["memo"] == "with Redis"


async def test_redis_is_away_from_the_beginning(
    database_url: str, own_redis: EmbeddedRedis
) -> None:
    url = own_redis.url
    own_redis.stop()
    async with stream_world(database_url, url, told=False) as world:
        bob = await world.tab("bob")
        assert len(await bob.all()) == 3
        await world.change("bob-running", memo="found by looking")
        assert (await bob.update_of("bob-running"))["memo"] == "found by looking"


async def test_what_nobody_tells_of_is_found(database_url: str, redis_url: str) -> None:
    """No coordinator is there to tell; and of some changes it never does."""
    async with stream_world(database_url, redis_url, told=False, web_look_seconds=SOON) as world:
        bob, root = await world.tab("bob"), await world.tab("root")
        await bob.all()
        await root.all()
        await world.run("UPDATE workspaces SET last_access_at = now() WHERE name = 'bob-running'")
        for tab in (bob, root):
            found = await tab.next()
            assert (found.kind, found.data["name"]) == ("workspace_updated", "bob-running")
        await world.run("UPDATE workspaces SET deleted_at = now() WHERE name = 'bob-running'")
        assert (await bob.next()).kind == "workspace_deleted"


async def test_a_change_of_hands_takes_it_from_one_and_gives_it_to_another(
    database_url: str, redis_url: str
) -> None:
    async with stream_world(database_url, redis_url, told=False, web_look_seconds=SOON) as world:
        ana, bob, root = [await world.tab(name) for name in ("ana", "bob", "root")]
        for tab in (ana, bob, root):
            await tab.all()
        number = str(await world.id_of("bob-running"))
        await world.run(GIVE_TO_ANA)
        lost = await bob.next()
        assert (lost.kind, lost.data) == (
            "workspace_deleted",
            {"id": number, "name": "bob-running"},
        )
        for tab in (ana, root):
            found = await tab.next()
            assert (found.kind, found.data["owner"]) == ("workspace_updated", "ana")


async def test_a_change_of_hands_that_a_newcomers_snapshot_shows_first(
    database_url: str, redis_url: str
) -> None:
    """Nobody told of it: it is read for the first time when ana's second tab opens."""
    async with stream_world(database_url, redis_url, told=False, web_look_seconds=HOURLY) as world:
        bob = await world.tab("bob")
        await bob.all()
        await world.run(GIVE_TO_ANA)
        ana = await world.tab("ana")
        assert "bob-running" in {each["name"] for each in await ana.all()}
        assert (await bob.next()).data["name"] == "bob-running"


async def test_the_database_goes_and_comes_back(database_url: str, redis_url: str) -> None:
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(Relay(database_url))
        world = await stack.enter_async_context(
            stream_world(database_url, redis_url, between=relay.url)
        )
        bob = await world.tab("bob")
        await bob.all()
        await relay.stop()
        await world.change("bob-running", memo="nobody can read this")
        assert (await bob.next()).data == {"reason": "the database gives no answer"}
        await relay.start()
        memos = {each["name"]: each["memo"] for each in await bob.all()}
        assert memos["bob-running"] == "nobody can read this"
        await world.change("bob-running", memo="and this they can")
        assert (await bob.update_of("bob-running"))["memo"] == "and this they can"


async def test_one_that_cannot_be_shown_keeps_no_other_from_being_shown(
    database_url: str,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Poisoned(Spoken):
        def __init__(self, sight: Sight, settings: Settings) -> None:
            if sight.workspace.name == "bob-standby":
                raise ValueError("this row is beyond understanding")
            super().__init__(sight, settings)

    monkeypatch.setattr(stream_telling, "Spoken", Poisoned)
    async with stream_world(database_url, redis_url) as world:
        bob = await world.tab("bob")
        assert (await bob.next()).names == ["bob-archived", "bob-running"]
        await world.change("bob-standby", memo="not shown")
        await world.change("bob-running", memo="shown")
        assert (await bob.next()).data["memo"] == "shown"
    assert "the workspace bob-standby cannot be shown" in caplog.text


async def test_what_is_said_on_the_channel_and_is_not_ours_is_ignored(
    database_url: str, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "codehub.web")
    async with stream_world(database_url, redis_url) as world:
        bob = await world.tab("bob")
        await bob.all()
        channel = f"{world.settings.redis_channel_sse_prefix}:somebody"
        deep = "[" * 200_000
        for message in ("", "{", "[]", "7", '{"id": 7}', '{"id": "x", "event": "y"}', deep):
            await world.signals.publish(channel, message)
        await world.change("bob-running", memo="this is ours")
        assert (await bob.next()).data["memo"] == "this is ours"
    assert caplog.text.count("that is not ours") == 7
