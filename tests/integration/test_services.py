"""Database and Redis of a serving process: what is missing is named, what dies comes back."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from codehub.cli.services import keep_running, open_services
from codehub.config import Settings
from codehub.errors import DatabaseProblem, UsageError
from codehub.wiring import HubChoice

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from codehub.embedded.redis import EmbeddedRedis

PATIENCE = 60


@asynccontextmanager
async def kept(*servers: EmbeddedRedis) -> AsyncIterator[None]:
    task = asyncio.create_task(keep_running(servers))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)
        assert task.cancelled()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 (nobody tells of it)
            await asyncio.sleep(0.02)


def pid_of(server: EmbeddedRedis) -> int | None:
    running = server.running()
    return running.pid if running else None


@pytest.mark.anyio
async def test_what_dies_is_started_again_at_its_address(own_redis: EmbeddedRedis) -> None:
    url, before = own_redis.url, pid_of(own_redis)
    assert before is not None
    async with kept(own_redis):
        os.kill(before, signal.SIGKILL)
        await until(lambda: pid_of(own_redis) not in (None, before))
        assert await asyncio.to_thread(own_redis.start) == url


@pytest.mark.anyio
async def test_a_start_that_fails_is_said_and_tried_again(
    own_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    before = pid_of(own_redis)
    assert before is not None
    own_redis.options = ("--no-such-option", "1")
    async with kept(own_redis):
        os.kill(before, signal.SIGKILL)
        await until(lambda: "did not start" in caplog.text)
        own_redis.options = ()
        await until(lambda: pid_of(own_redis) not in (None, before))


@pytest.mark.anyio
async def test_where_nothing_is_embedded_it_goes_on_all_the_same() -> None:
    """Its end would end the coordinator beside it."""
    async with kept():
        for _ in range(10):
            await asyncio.sleep(0)


def test_a_hub_elsewhere_needs_a_redis(tmp_path: Path) -> None:
    choice = HubChoice(tmp_path, "postgresql://codehub@db.test/codehub")
    settings = Settings(redis_url=None)
    with pytest.raises(UsageError, match="needs a Redis"), open_services(choice, settings):
        pass


def test_a_hub_elsewhere_gets_no_schema_by_itself(
    tmp_path: Path, empty_database_url: str, redis_url: str
) -> None:
    choice, settings = HubChoice(tmp_path, empty_database_url), Settings(redis_url=redis_url)
    with pytest.raises(DatabaseProblem) as refused, open_services(choice, settings):
        pass
    assert refused.value.hint == "run 'codehub db upgrade'"


def test_a_hub_elsewhere_with_its_schema_starts_nothing_here(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    choice, settings = HubChoice(tmp_path, database_url), Settings(redis_url=redis_url)
    with open_services(choice, settings) as services:
        assert (services.database_url, services.redis_url) == (database_url, redis_url)
        assert services.embedded == ()
    assert list(tmp_path.iterdir()) == []
