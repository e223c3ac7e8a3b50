"""How a hub knows its engine again: by a volume of its own that holds nothing.

An engine that was reset, or another one behind the same address, has none of the hub's volumes.
Without the marker that would look like a hub whose homes are all gone; with it, it is Unreachable.
The marker is a volume because it must share the fate of the homes: it lies where they lie, and it
is in the same listing. The engine's own id does not do: it may be kept apart from the volumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codehub.adapters.docker.labels import ENGINE, HUB
from codehub.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codehub.adapters.docker.engine import Engine


class Marker:
    """The marker of one hub on one engine."""

    def __init__(self, engine: Engine, hub_id: str) -> None:
        self._engine = engine
        self._hub_id = hub_id
        self.name = f"codehub-{hub_id}-marker"

    async def claim(self, *, expects_data: bool) -> None:
        """Know the engine again, or mark it; never when the hub should have volumes on it."""
        marker = await self._engine.find(lambda client: client.inspect_volume(self.name))
        if marker is None and not expects_data:
            marker = await self._create()
        self.require_in([marker] if marker else [])

    async def require(self) -> None:
        """Raise Unreachable unless this is the hub's engine."""
        marker = await self._engine.find(lambda client: client.inspect_volume(self.name))
        self.require_in([marker] if marker else [])

    def require_in(self, volumes: Iterable[Mapping[str, Any]]) -> None:
        """The same, of volumes that were listed."""
        for each in volumes:
            if each["Name"] == self.name and (each.get("Labels") or {}).get(HUB) == self._hub_id:
                return
        raise Unreachable(
            f"this is not the Docker engine of this hub: it has no volume {self.name}",
            hint="correct the engine's address; if its volumes were removed by hand, say so with "
            f"'docker volume create --label {HUB}={self._hub_id} {self.name}'",
        )

    async def _create(self) -> dict[str, Any]:
        """Somebody who made it first is fine: the engine answers with what there is."""
        info = await self._engine.look(lambda client: client.info())
        labels = {HUB: self._hub_id, ENGINE: str(info.get("ID", ""))}
        made: dict[str, Any] = await self._engine.act(
            lambda client: client.create_volume(self.name, driver="local", labels=labels)
        )
        return made
