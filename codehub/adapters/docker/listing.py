"""Everything of a hub in two calls, whatever the number of its workspaces.

Volumes are listed before containers. A container is started only after its volume was seen, and
its volume goes only after it: in this order no container appears without its volume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codehub.adapters.docker.labels import of_hub, read_container, read_volume
from codehub.adapters.docker.translate import Declined
from codehub.errors import Unreachable
from codehub.model.runtime import Listing

if TYPE_CHECKING:
    import docker

    from codehub.adapters.docker.engine import Engine
    from codehub.adapters.docker.marker import Marker


async def list_all(engine: Engine, hub_id: str, marker: Marker) -> Listing:
    """Raises Unreachable rather than returning less."""
    filters = of_hub(hub_id)

    def ask(client: docker.APIClient) -> tuple[Any, Any]:
        return client.volumes(filters=filters), client.containers(all=True, filters=filters)

    try:
        answers = await engine.look(ask)
        volumes, containers = answers[0]["Volumes"] or [], answers[1]
        marker.require_in(volumes)
        return Listing(
            tuple(seen for seen in map(read_container, containers) if seen),
            tuple(seen for seen in map(read_volume, volumes) if seen),
        )
    except (Declined, LookupError, TypeError, ValueError, AttributeError) as error:
        raise Unreachable(f"the Docker engine's list cannot be read: {error}") from error
