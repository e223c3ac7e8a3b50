"""What a container says and uses, and what happens on the engine: for people, and as hints."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from codehub.adapters.docker.labels import WORKSPACE, of_hub
from codehub.adapters.docker.site import is_running
from codehub.adapters.docker.translate import Declined
from codehub.errors import Unreachable
from codehub.model.runtime import Stats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import datetime

    from codehub.adapters.docker.site import Site

_EVENTS: Final = ("create", "start", "die", "oom", "pause", "unpause", "destroy")
_CACHES: Final = ("total_inactive_file", "inactive_file")
"""How the two versions of control groups call the page cache that can be given back at once."""


async def logs(site: Site, workspace_id: UUID, *, lines: int, follow: bool) -> AsyncIterator[bytes]:
    """The last lines, then what comes until the container ends."""
    found = await site.container(workspace_id)
    if found is None:
        return
    chunks = site.engine.stream(
        lambda client: client.logs(
            found["Id"], stdout=True, stderr=True, stream=True, follow=follow, tail=max(lines, 0)
        )
    )
    try:
        async with aclosing(chunks) as source:  # type: ignore[type-var]
            async for chunk in source:
                yield chunk
    except Declined:
        return  # It was removed in this moment, and its output with it.


async def stats(site: Site, workspace_id: UUID) -> Stats | None:
    found = await site.container(workspace_id)
    if found is None or not is_running(found):
        return None
    sample = await site.engine.find(
        lambda client: client.stats(found["Id"], stream=False, one_shot=True)
    )
    return _read_sample(sample, site.clock()) if sample else None


def _read_sample(sample: Mapping[str, Any], at: datetime) -> Stats | None:
    """One that ended in this moment has no figures."""
    memory = sample.get("memory_stats") or {}
    if "usage" not in memory:
        return None
    details = memory.get("stats") or {}
    cache = next((details[name] for name in _CACHES if name in details), 0)
    return Stats(
        cpu_seconds=sample["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9,
        memory_bytes=max(0, memory["usage"] - cache),
        at=at,
    )


async def events(site: Site) -> AsyncIterator[UUID]:
    """Workspaces whose containers change; ends with Unreachable when the engine goes."""
    filters = {**of_hub(site.hub_id), "type": ["container"], "event": list(_EVENTS)}
    stream = site.engine.stream(lambda client: client.events(filters=filters, decode=True))
    async with aclosing(stream) as source:  # type: ignore[type-var]
        async for event in source:
            workspace_id = _workspace(event)
            if workspace_id is not None:
                yield workspace_id
    raise Unreachable("the Docker engine's events have ended")


def _workspace(event: Mapping[str, Any]) -> UUID | None:
    try:
        return UUID(event["Actor"]["Attributes"][WORKSPACE])
    except (LookupError, TypeError, ValueError):
        return None
