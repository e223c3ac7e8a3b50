"""A job's progress on its way into the row must never hold up the job's end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from codehub.coordinator import steps
from codehub.errors import Unreachable
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.coordinator.steps import Job, Tools

pytestmark = pytest.mark.anyio


class DyingPool:
    """Its connection dies while somebody is being cancelled: the driver tells of that alone."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Unreachable("the connection was lost") from None
        yield None


class Holder:
    def __init__(self, **parts: object) -> None:
        self.__dict__.update(parts)


async def test_a_job_ends_though_its_last_report_met_a_dying_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "PROGRESS_SECONDS", 0.0)
    pool = DyingPool()
    tools = cast("Tools", Holder(lead=Holder(pool=pool, fence=None)))
    job = cast("Job", Holder(workspace=workspace()))

    async def move() -> str:
        async with steps._Reports(tools, job) as report:
            report({"stage": "pack"})
            await pool.asked.wait()
        return "done"

    assert await asyncio.wait_for(move(), 10) == "done"
