"""The bridge that the workspaces of a hub share, and on which they do not see each other.

On the engine's default bridge every container reaches every other one, those of other hubs and of
people too. Here a workspace reaches the outside, and is reached through its published port alone.

A network that is not the default one costs a start about a tenth of a second, for the name service
that the engine sets up in it. Where the engine itself keeps containers apart (`dockerd
--icc=false`), its operator may name the default one, `bridge`, and save that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.adapters.docker.labels import HUB
from codehub.adapters.docker.translate import CONFLICT, Declined
from codehub.errors import NameConflict

if TYPE_CHECKING:
    from codehub.adapters.docker.engine import Engine
    from codehub.adapters.docker.marker import Marker

_OPTIONS: Final = {"com.docker.network.bridge.enable_icc": "false"}
_NO_BRIDGES: Final = frozenset({"", "host", "none", "default"})


class Network:
    """The hub's own bridge, or one that the operator has made and answers for."""

    def __init__(self, engine: Engine, hub_id: str, marker: Marker, given: str | None) -> None:
        if given is not None and (given in _NO_BRIDGES or given.startswith("container:")):
            raise ValueError(f"workspaces cannot share the network {given!r}")
        self._engine = engine
        self._hub_id = hub_id
        self._marker = marker
        self._given = given
        self.name = given or f"codehub-{hub_id}"

    async def ensure(self) -> None:
        """Make the hub's own where it is missing: people prune networks that nobody uses.

        Never on an engine that is not the hub's.
        """
        if self._given is not None:
            return
        found = await self._engine.find(lambda client: client.inspect_network(self.name))
        if found is None:
            await self._marker.require()
            await self._create()
        elif (found.get("Labels") or {}).get(HUB) != self._hub_id:
            raise NameConflict(
                f"a network {self.name} exists and is not this hub's, so it was not touched",
                hint="remove or rename it",
            )

    async def _create(self) -> None:
        labels = {HUB: self._hub_id}
        try:
            await self._engine.act(
                lambda client: client.create_network(
                    self.name,
                    driver="bridge",
                    options=_OPTIONS,
                    check_duplicate=True,
                    labels=labels,
                )
            )
        except Declined as error:
            # Another process of this hub was first.
            if error.status != CONFLICT:
                raise
