"""The check of Redis: by using it, and leaving nothing behind."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from codehub.model.checkup import problem, warning, well

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.model.checkup import Verdict
    from codehub.ports import Signals

PREFIX: Final = "codehub:doctor"
"""Beside the hub's own keys; the same for every run, so that each finds what one left behind."""
HOUR: Final = timedelta(hours=1)
LEFT_BEHIND: Final = 2 * HOUR
"""Older than any probe of a run that still goes on."""


async def look_at_redis(url: str | None, data: Path, *, embedded: bool) -> Verdict:
    """Whether the activity buffer works; without it idle workspaces are not stopped."""
    where = url or (_embedded_redis(data) if embedded else None)
    if where is None and embedded:
        return well("embedded: 'codehub up' starts it, and it does not run now")
    if where is None:
        return warning(
            "not configured here; a coordinator needs it, to know who is idle",
            "set REDIS_URL, as in redis://127.0.0.1:6379/0",
        )
    try:
        from codehub.adapters.redis import RedisSignals
    except ImportError as error:
        return problem(f"the Redis client cannot be imported: {error}", "pip install 'redis>=5'")
    server = RedisSignals(where, prefix=PREFIX)
    try:
        version = await server.check()
        return await try_buffer(server, version)
    finally:
        await server.close()


async def try_buffer(server: Signals, version: str) -> Verdict:
    """Times only move forward (ZADD GT): a late report of an earlier time changes nothing."""
    probe = (uuid4(), "doctor")
    try:
        await server.record_activity({probe: timedelta(0)})
        await server.record_activity({probe: HOUR})
    finally:
        read = await server.read_activity()
        mine = [each for each in read.sightings if each.workspace_id == probe[0]]
        old = [each for each in read.sightings if read.at - each.at > LEFT_BEHIND]
        await server.forget_activity([*mine, *old])
    if not mine or read.at - mine[0].at > HOUR / 2:
        return problem(
            f"Redis {version} answers, but does not keep the newer of two times (ZADD GT)",
            "use Redis 6.2 or newer",
        )
    return well(f"Redis {version}, and its activity buffer works")


def _embedded_redis(data: Path) -> str | None:
    """The address of the embedded Redis, if it runs."""
    from codehub.embedded.redis import EmbeddedRedis

    running = EmbeddedRedis(data / "redis").running()
    return running.url if running else None
