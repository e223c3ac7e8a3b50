"""Ending a container: ask, wait, kill, remove. Always by id, so never one that came after it."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final

from codehub.adapters.docker.site import is_running
from codehub.adapters.docker.translate import CONFLICT, NOT_FOUND, Declined

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from uuid import UUID

    from codehub.adapters.docker.engine import Engine
    from codehub.adapters.docker.site import Site

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5
_IN_PROGRESS: Final = "in progress"


async def stop(site: Site, workspace_id: UUID, grace: timedelta) -> None:
    """Stop and remove the workspace's container; absent is fine, a foreign namesake is left."""
    found = await site.container(workspace_id)
    if found is None:
        return
    identity = str(found["Id"])
    if is_running(found):
        if found["State"]["Paused"]:
            await _unless_gone(site.engine, lambda client: client.unpause(identity))
        # The engine counts whole seconds.
        seconds = math.ceil(grace.total_seconds())
        await _unless_gone(
            site.engine, lambda client: client.stop(identity, timeout=seconds), extra=seconds
        )
    await remove(site.engine, identity, force=True)


async def remove(engine: Engine, identity: str, *, force: bool = False) -> None:
    """Remove a container with the volumes its image declared; named volumes stay.

    Returns when it is gone, also where somebody else is just removing it.
    """
    try:
        await engine.remove(lambda client: client.remove_container(identity, v=True, force=force))
    except Declined as error:
        if error.status != CONFLICT or _IN_PROGRESS not in error.message:
            raise
        await _until_gone(engine, identity)


async def _until_gone(engine: Engine, identity: str) -> None:
    pause = _FIRST_PAUSE
    while await engine.find(lambda client: client.inspect_container(identity)) is not None:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


async def _unless_gone(engine: Engine, do: Callable[[Any], object], *, extra: float = 0) -> None:
    """What has ended or was removed meanwhile needs no asking."""
    try:
        await engine.act(do, extra=extra)
    except Declined as error:
        if error.status not in (NOT_FOUND, CONFLICT):
            raise
