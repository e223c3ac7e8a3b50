"""A proxy that is killed loses a moment, and one without its database goes on serving what runs."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from redis.asyncio import Redis

from codehub.adapters.redis import RedisSignals
from codehub.service.minting import new_secret
from tests.auth.people import PASSWORD
from tests.end_to_end.proxy_alone import alone
from tests.integration.ttl_world import ttl_world
from tests.proxy.own_world import Found
from tests.proxy.whole_world import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime
    from pathlib import Path

    from codehub.embedded.redis import EmbeddedRedis
    from tests.end_to_end.proxy_alone import Alone
    from tests.proxy.whole_world import Whole

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

HTML = "Accept: text/html"


# Killed


async def flushes(redis: Redis) -> int:
    """How often the proxy has told Redis of activity: each time is one script."""
    found = await redis.info("commandstats")
    return int(found.get("cmdstat_eval", {}).get("calls", 0))


async def until_flushed(redis: Redis, times: int) -> None:
    begun = await flushes(redis)
    async with asyncio.timeout(PATIENCE):
        while await flushes(redis) < begun + times:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def last_told(signals: RedisSignals) -> datetime:
    """The last activity that Redis has heard of."""
    return max(each.at for each in (await signals.read_activity()).sightings)


async def test_what_was_done_before_the_last_flush_survives_kill_9(
    database_url: str, own_redis: EmbeddedRedis, tmp_path: Path
) -> None:
    """The flush that is under way may have begun before: so the one after it is waited for."""
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(Redis.from_url(own_redis.url))
        signals = RedisSignals(own_redis.url)
        stack.push_async_callback(signals.close)
        often = {"ACTIVITY_FLUSH_INTERVAL": "0.5"}
        made = await stack.enter_async_context(
            alone(database_url, own_redis.url, tmp_path, **often)
        )
        await made.work()
        await until_flushed(redis, 1)
        for _ in range(3):
            before = (await signals.read_activity()).at
            await made.work()
            await until_flushed(redis, 2)
            assert await last_told(signals) >= before, "each is in the next flush"
        await made.work()
        made.kill()
        assert await last_told(signals) >= before, "what was told stays told"

        hub = await stack.enter_async_context(ttl_world(database_url))
        await hub.lead_anew(signals)
        # Who comes back is told to the database at once: that is not what this is about.
        await hub.conn.execute("UPDATE workspaces SET last_access_at = now() - interval '1 day'")
        await hub.tick()
        row = await hub.row()
        assert row["last_access_at"] >= before, "it reaches the database without the proxy"
        assert (row["last_access_source"], row["desired_state"]) == ("traffic", "RUNNING")


# Without its database


@pytest.fixture
async def known(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Alone]:
    """Alice has just used her workspace."""
    async with alone(database_url, redis_url, tmp_path) as made:
        await made.work()
        yield made


async def log_in_with_password(proxy: Whole) -> bytes:
    """The answer to the login form, as a browser sends it that never was here."""
    page = await proxy.ask(proxy.get("/login", HTML))
    assert page.startswith(b"HTTP/1.1 200"), page
    (form,) = Found(page.decode()).forms
    kept = page.partition(b"Set-Cookie: ")[2].partition(b";")[0].decode()
    body = urlencode({**form["fields"], "name": "alice", "password": PASSWORD})
    head = proxy.get(
        "/login",
        HTML,
        f"Cookie: {kept}",
        "Origin: http://localhost",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
        method="POST",
    )
    return await proxy.ask(head + body.encode())


async def test_without_its_database_what_runs_stays_reachable_and_logins_are_told_why(
    known: Alone,
) -> None:
    proxy = known.proxy
    before = await proxy.socket(proxy.secret)
    assert await before.echoes(b"before")
    await proxy.relay.stop()
    try:
        await known.work()
        page = await proxy.ask(proxy.get("/w/api/", proxy.cookie, HTML))
        assert page.startswith(b"HTTP/1.1 200")
        assert await before.echoes(b"still open")
        assert await (await proxy.socket(proxy.secret)).echoes(b"a new one")
        assert (await proxy.ask(proxy.get("/readyz"))).startswith(b"HTTP/1.1 200")

        refused = await log_in_with_password(proxy)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"cannot reach its database, so nobody can log in at the moment" in refused
        stranger = f"Cookie: codehub={new_secret()}"
        shown = await proxy.ask(proxy.get("/w/api/", stranger, HTML))
        assert shown.startswith(b"HTTP/1.1 503 ")
        assert b"<title>" in shown
        assert b"Traceback" not in shown + refused
    finally:
        await proxy.relay.start()
    async with asyncio.timeout(PATIENCE):
        while not (await log_in_with_password(proxy)).startswith(b"HTTP/1.1 303"):
            pass
    assert known.process.poll() is None
