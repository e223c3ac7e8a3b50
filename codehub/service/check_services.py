"""Checks of Redis and of the archive store: each by using it, and leaving nothing behind."""

from __future__ import annotations

from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from codehub.core.keys import hub_prefix
from codehub.errors import CodeHubError
from codehub.model.checkup import problem, warning, well
from codehub.service.check_database import read_hub_id_at
from codehub.service.threads import in_thread

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from codehub.model.checkup import Verdict
    from codehub.ports import ObjectStore, Signals

PROBE: Final = b"written by codehub doctor, to be removed at once\n"
HOUR: Final = timedelta(hours=1)


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
    server = RedisSignals(where, prefix=f"codehub:doctor:{token_hex(4)}")
    try:
        version = await server.check()
        return await try_buffer(server, version)
    finally:
        await server.close()


async def try_buffer(server: Signals, version: str) -> Verdict:
    """Times only move forward (ZADD GT): a late report of an earlier time changes nothing."""
    probe = (uuid4(), "doctor")
    await server.record_activity({probe: timedelta(0)})
    await server.record_activity({probe: HOUR})
    read = await server.read_activity()
    await server.forget_activity(read.sightings)
    if not read.sightings or read.at - read.sightings[0].at > HOUR / 2:
        return problem(
            f"Redis {version} answers, but does not keep the newer of two times (ZADD GT)",
            "use Redis 6.2 or newer",
        )
    return well(f"Redis {version}, and its activity buffer works")


async def look_at_archive_store(
    url: str | None, store_url: str | None, *, are_new: bool
) -> Verdict:
    """Write, read back and remove one small object under the hub's own prefix."""
    if are_new:
        return well("not made yet: 'codehub up' makes it at its first start")
    hub_id = await _hub_id(url)
    if hub_id is None or store_url is None:
        return warning("not looked at: the hub's id, under which everything lies, is not known")
    return await in_thread(lambda: _probe(store_url, hub_id))


def try_store(store: ObjectStore, key: str) -> Verdict:
    """The whole life of one object; the store is of use only if all of it works."""
    try:
        writer = store.open_writer(key)
        writer.write(PROBE)
        writer.commit()
        reader = store.open_reader(key)
        if reader is None:
            return problem("what was written is not there", "see whether the store is writable")
        with reader:
            back = reader.read(len(PROBE) + 1)
        if back != PROBE:
            return problem("what was read is not what was written", "check the store's disk")
    finally:
        store.delete(key)
    if store.head(key) is not None:
        return warning(f"the probe {key} could not be removed", "allow the hub to delete objects")
    return well("an object was written, read back and removed")


def _probe(store_url: str, hub_id: UUID) -> Verdict:
    from codehub.adapters.stores import open_store

    return try_store(open_store(store_url), f"{hub_prefix(hub_id)}doctor/{token_hex(8)}")


async def _hub_id(url: str | None) -> UUID | None:
    if url is None:
        return None
    try:
        return await read_hub_id_at(url)
    except CodeHubError:
        return None


def _embedded_redis(data: Path) -> str | None:
    """The address of the embedded Redis, if it runs."""
    from codehub.embedded.redis import EmbeddedRedis

    running = EmbeddedRedis(data / "redis").running()
    return running.url if running else None
