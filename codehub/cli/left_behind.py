"""What the runtimes still hold of a hub whose database was lost, for `codehub import`.

Only looked at. A runtime that cannot be asked stops no import; that nobody knows what it holds is
part of the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.errors import CodeHubError
from codehub.model.salvage import LeftBehind
from codehub.model.workspace import Runtime
from codehub.wiring import WORKSPACES, enabled_runtimes, runtime_to_look

if TYPE_CHECKING:
    from uuid import UUID

    from codehub.config import Settings
    from codehub.model.runtime import VolumeSeen
    from codehub.wiring import HubChoice


async def look_behind(choice: HubChoice, settings: Settings, hub_id: UUID) -> LeftBehind:
    """What the runtimes that this hub enables hold of the hub with this id."""
    volumes: dict[Runtime, tuple[VolumeSeen, ...]] = {}
    marked: set[Runtime] = set()
    unseen: dict[Runtime, str] = {}
    looks = {Runtime.DOCKER: _on_the_engine, Runtime.PROCESS: _below_the_root}
    for runtime in sorted(enabled_runtimes(choice, settings) & looks.keys()):
        try:
            found = await looks[runtime](choice, settings, str(hub_id))
        except CodeHubError as error:
            unseen[runtime] = error.message
            continue
        if found is not None:
            volumes[runtime], is_marked = found
            marked |= {runtime} if is_marked else set()
    root = (choice.data / WORKSPACES / "volumes").absolute()
    return LeftBehind(volumes, frozenset(marked), unseen, str(root))


async def _on_the_engine(
    choice: HubChoice, settings: Settings, hub_id: str
) -> tuple[tuple[VolumeSeen, ...], bool] | None:
    from codehub.adapters.docker.survey import NoEngine, survey_engine

    try:
        found = await survey_engine(settings.docker_host, hub_id)
    except NoEngine as error:
        # A hub of one person's own uses an engine where there is one.
        if error.absent and choice.embedded:
            return None
        raise
    return found.volumes, found.is_marked


async def _below_the_root(
    choice: HubChoice, settings: Settings, hub_id: str
) -> tuple[tuple[VolumeSeen, ...], bool] | None:
    runtime = runtime_to_look(choice, settings, Runtime.PROCESS, hub_id)
    if runtime is None or not (choice.data / WORKSPACES).exists():
        return None
    listed = await runtime.list()
    return listed.volumes, True
