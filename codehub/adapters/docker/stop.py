"""Ending a container: ask, wait, kill, remove. Always by id, so never one that came after it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from codehub.adapters.docker.cover import holds_part_of_home
from codehub.adapters.docker.removal import remove
from codehub.adapters.docker.site import is_running
from codehub.adapters.docker.translate import CONFLICT, NOT_FOUND, Declined

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from uuid import UUID

    from codehub.adapters.docker.engine import Engine
    from codehub.adapters.docker.site import Site


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
    await remove(site.engine, identity, force=True, volumes=not holds_part_of_home(found))


async def _unless_gone(engine: Engine, do: Callable[[Any], object], *, extra: float = 0) -> None:
    """What has ended or was removed meanwhile needs no asking."""
    try:
        await engine.act(do, extra=extra)
    except Declined as error:
        if error.status not in (NOT_FOUND, CONFLICT):
            raise
