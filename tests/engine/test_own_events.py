"""Events of the engine as hints: those that we cause ourselves are none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from codehub.coordinator.hints import Hints
from codehub.coordinator.sense import Sense
from tests.coordination.fast_runtime import FastRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

STARTING, CRASHED = UUID(int=1), UUID(int=2)


class TalkingRuntime(FastRuntime):
    """Tells of two workspaces, and then of nothing for ever."""

    async def events(self) -> AsyncIterator[UUID]:
        yield STARTING
        yield CRASHED
        await asyncio.Event().wait()


async def test_events_of_what_an_act_is_at_work_on_cause_no_look(tmp_path: Path) -> None:
    hints = Hints()
    sense = Sense("docker", TalkingRuntime(tmp_path), hints, lambda each: each == STARTING)
    listening = asyncio.create_task(sense.run())
    try:
        await hints.wait(60)
    finally:
        listening.cancel()
        await asyncio.wait({listening})
    assert hints.take().ids == {CRASHED}
