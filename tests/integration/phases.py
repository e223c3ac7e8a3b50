"""Workspaces in a phase, and waiting for what somebody else is at work on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from codehub.model.states import DesiredState, IntentSource, Phase
from codehub.model.workspace import Intent, Status
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.model.workspace import Workspace

PATIENCE = 60


def running(name: str = "api", number: int = 1, **declared: Any) -> Workspace:
    return workspace(name, number=number, status=Status(Phase.RUNNING), **declared)


def asleep(
    name: str = "api", number: int = 1, phase: Phase = Phase.STANDBY, **more: Any
) -> Workspace:
    lowered = Intent(DesiredState(phase.value), IntentSource.TTL)
    return workspace(name, number=number, intent=lowered, status=Status(phase), **more)


async def until(condition: Callable[[], object]) -> None:
    """Returns once it holds; somebody else is at work on it."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (what is waited for tells nobody)
            await asyncio.sleep(0.01)
