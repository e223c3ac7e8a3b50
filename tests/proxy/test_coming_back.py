"""Somebody comes back just when their idle time is over: nobody waits for a flush to tell of it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.model.workspace import Ttl
from codehub.proxy.activity import ActivityBuffer
from tests.integration.test_ttl_return import still_idle
from tests.integration.ttl_world import awake, ttl_world
from tests.proxy.gate_world import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.integration.ttl_world import TtlWorld

pytestmark = pytest.mark.anyio

API = UUID(int=1)
TTL = 60
AWAY = timedelta(seconds=120)
"""Longer than the idle time, and far less than the time for which activity is sent again."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


class Site:
    """A hub, and a proxy's buffer in the same time."""

    def __init__(self, hub: TtlWorld) -> None:
        self.hub = hub
        self.now = 1000.0
        self.buffer = ActivityBuffer(hub.signals, hub.pool, hub.settings, clock=lambda: self.now)

    async def pass_time(self, by: timedelta) -> None:
        self.now += by.total_seconds()
        await self.hub.pass_time(by)

    @property
    def comes_back(self) -> bool:
        """Whether the buffer has somebody to tell of at once."""
        return bool(self.buffer._back)

    async def tells_at_once(self) -> None:
        """What is to be told is told, without a flush."""
        await self.buffer._tell_who_is_back()


@asynccontextmanager
async def site(database_url: str) -> AsyncIterator[Site]:
    """Somebody worked in `api` until now, and all know it."""
    row = awake(ttl=Ttl(standby=TTL, busy_cpu=0))
    async with ttl_world(database_url, row) as hub:
        made = Site(hub)
        made.buffer.record(API, "input")
        await made.tells_at_once()
        await made.buffer.flush()
        await hub.tick()
        yield made


async def test_who_returns_after_the_idle_time_is_not_stopped(database_url: str) -> None:
    """From the return, while all is still sent again, to the claim of the stop, and back."""
    async with site(database_url) as made:
        await made.pass_time(AWAY)
        await made.hub.tick()
        assert await made.hub.desired() == "STANDBY"
        assert await still_idle(made.hub), "it would be stopped now"
        made.buffer.record(API, "input")
        running = asyncio.create_task(made.buffer.run())
        try:
            async with asyncio.timeout(PATIENCE):
                while await still_idle(made.hub):
                    pass
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await made.hub.tick()
        assert await made.hub.desired() == "RUNNING"


async def test_whoever_goes_on_is_told_of_by_the_flushes(database_url: str) -> None:
    async with site(database_url) as made:
        for _ in range(5):
            made.now += made.hub.settings.activity_flush_interval
            made.buffer.record(API, "input")
            assert not made.comes_back
        made.now += made.hub.settings.activity_flush_interval + 0.1
        made.buffer.record(API, "input")
        assert made.comes_back


async def test_what_lasts_does_not_come_back_with_every_flush(database_url: str) -> None:
    async with site(database_url) as made:
        made.buffer.record(API, "connections")
        await made.tells_at_once()
        made.buffer.before_flush(lambda: made.buffer.record(API, "connections", lasts=True))
        for _ in range(3):
            made.now += made.hub.settings.activity_flush_interval + 1
            await made.buffer.flush()
            assert not made.comes_back
