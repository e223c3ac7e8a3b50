"""The parts of one hub on one engine, and the looks at a container that several steps share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codehub.adapters.docker.labels import RUNNING, container_name, is_container_of
from codehub.adapters.docker.marker import Marker
from codehub.adapters.docker.network import Network
from codehub.adapters.docker.probe import HOST
from codehub.adapters.docker.volumes import Volumes
from codehub.errors import NameConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from uuid import UUID

    from codehub.adapters.docker.engine import Engine

_HUB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Site:
    """Engine, marker, network and volumes of one hub; `report` hears of the progress of pulls."""

    def __init__(
        self,
        engine: Engine,
        hub_id: str,
        *,
        network: str | None,
        clock: Callable[[], datetime],
        report: Callable[[UUID, Mapping[str, object]], None],
    ) -> None:
        if not _HUB_ID.fullmatch(hub_id):
            raise ValueError("a hub id is made of letters, digits, '-', '_' and '.'")
        self.hub_id = hub_id
        self.engine = engine
        self.marker = Marker(engine, hub_id)
        self.network = Network(engine, hub_id, self.marker, network)
        self.volumes = Volumes(engine, hub_id, self.marker)
        self.clock = clock
        self.report = report
        self.given: set[str] = set()
        """Homes that were seen to belong to their user; it saves a look, nothing rests on it."""

    async def container(self, workspace_id: UUID) -> Mapping[str, Any] | None:
        """The workspace's container, inspected; None when there is none, or a foreign one."""
        found = await self._inspect(workspace_id)
        if found is None or not self._is_ours(workspace_id, found):
            await self.marker.require()
            return None
        return found

    async def own_container(self, workspace_id: UUID) -> Mapping[str, Any] | None:
        """The same, where a foreign namesake is in the way."""
        found = await self._inspect(workspace_id)
        if found is not None and not self._is_ours(workspace_id, found):
            raise NameConflict(
                f"the container {container_name(workspace_id)} exists and is not this hub's, "
                "so it was not touched",
                hint="remove or rename it",
            )
        return found

    async def _inspect(self, workspace_id: UUID) -> Mapping[str, Any] | None:
        name = container_name(workspace_id)
        found: Mapping[str, Any] | None = await self.engine.find(
            lambda client: client.inspect_container(name)
        )
        return found

    def _is_ours(self, workspace_id: UUID, found: Mapping[str, Any]) -> bool:
        return is_container_of(self.hub_id, workspace_id, found["Config"]["Labels"])


def is_running(container: Mapping[str, Any]) -> bool:
    return container["State"]["Status"] in RUNNING


def published_port(container: Mapping[str, Any]) -> int | None:
    """The port on this machine's loopback; None when there is none now."""
    ports = container["NetworkSettings"]["Ports"] or {}
    bindings = (each for bound in ports.values() for each in bound or ())
    found = next((each["HostPort"] for each in bindings if each["HostIp"] == HOST), "")
    return int(found) if found.isdecimal() else None
