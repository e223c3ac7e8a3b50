"""Where the workspaces of `codehub up` run: as asked for, or as this machine allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.adapters.docker.presence import trouble
from codehub.cli.up import RuntimeChoice
from codehub.errors import Unreachable
from codehub.model.workspace import Runtime
from codehub.wiring import has_homes

if TYPE_CHECKING:
    from codehub.config import Settings


async def choose_runtimes(
    choice: RuntimeChoice, settings: Settings, database_url: str
) -> frozenset[Runtime]:
    """The runtimes that specs may name. One asked for by name must be there."""
    if choice is RuntimeChoice.PROCESS:
        return frozenset({Runtime.PROCESS})
    if choice is RuntimeChoice.DOCKER:
        await _require_engine(settings)
        return frozenset({Runtime.DOCKER})
    if settings.runtime_enabled is not None:
        return settings.runtime_enabled
    # An engine that is away for now still holds the homes that were made on it.
    docker = await trouble(settings.docker_host) is None or await has_homes(
        database_url, Runtime.DOCKER
    )
    return frozenset({Runtime.PROCESS} | ({Runtime.DOCKER} if docker else set()))


async def _require_engine(settings: Settings) -> None:
    problem = await trouble(settings.docker_host)
    if problem is not None:
        raise Unreachable(
            f"workspaces cannot run on docker: {problem.message}",
            hint=problem.hint or "start the Docker engine, or use --runtime process",
        )
