"""Removing a container, whoever else may be about it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from codehub.adapters.docker.translate import CONFLICT, Declined

if TYPE_CHECKING:
    from codehub.adapters.docker.engine import Engine

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5
_IN_PROGRESS: Final = "in progress"


async def remove(
    engine: Engine, identity: str, *, force: bool = False, volumes: bool = True
) -> None:
    """Remove a container with the `volumes` its image declared; named volumes stay.

    Returns when it is gone, also where somebody else is just removing it.
    """
    try:
        await engine.remove(
            lambda client: client.remove_container(identity, v=volumes, force=force)
        )
    except Declined as error:
        if error.status != CONFLICT or _IN_PROGRESS not in error.message:
            raise
        await _until_gone(engine, identity)


async def _until_gone(engine: Engine, identity: str) -> None:
    pause = _FIRST_PAUSE
    while await engine.find(lambda client: client.inspect_container(identity)) is not None:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
