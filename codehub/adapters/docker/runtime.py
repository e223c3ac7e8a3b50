"""The Docker runtime: `codehub.ports.Runtime` over one engine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from codehub.adapters.docker import output
from codehub.adapters.docker.copying import close_copy, open_copy
from codehub.adapters.docker.engine import ACT_SECONDS, LOOK_SECONDS, Engine
from codehub.adapters.docker.listing import list_all
from codehub.adapters.docker.numbering import require_own_numbers
from codehub.adapters.docker.probe import HOST
from codehub.adapters.docker.site import Site, is_running, published_port
from codehub.adapters.docker.start import start
from codehub.adapters.docker.stop import stop
from codehub.errors import Unreachable
from codehub.model.runtime import Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from datetime import timedelta
    from pathlib import Path
    from uuid import UUID

    from codehub.model.runtime import EngineCopy, Listing, StartRequest, Stats, VolumeRef


def _unheard(workspace_id: UUID, progress: Mapping[str, object]) -> None:
    del workspace_id, progress


class DockerRuntime:
    """Workspaces as containers of the engine at `base_url`, which `claim` has made this hub's.

    `base_url` None is the socket of this machine's engine. `network` names one that the operator
    has made; without it the hub makes one of its own. `expects_data` is asked whether the database
    records volumes here, None for no workspace at all; with it, the engine is claimed when it is
    first listed for somebody, because it may be away or unneeded when the hub begins.
    `look_seconds` and `act_seconds` are what a
    question and a change may take. `report` hears of the progress of a pull, in the words of
    `op_progress` (`codehub.core.deadline`).
    """

    def __init__(
        self,
        hub_id: str,
        *,
        base_url: str | None = None,
        network: str | None = None,
        expects_data: Callable[[], Awaitable[bool | None]] | None = None,
        look_seconds: float = LOOK_SECONDS,
        act_seconds: float = ACT_SECONDS,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        report: Callable[[UUID, Mapping[str, object]], None] = _unheard,
    ) -> None:
        engine = Engine(base_url, look_seconds=look_seconds, act_seconds=act_seconds)
        self._expects_data = expects_data
        self._site = Site(engine, hub_id, network=network, clock=clock, report=report)

    async def claim(self, *, expects_data: bool) -> None:
        """Know the engine again; when the hub begins to use it, and as often as wanted.

        `expects_data` says that the database records volumes here: then an engine without the
        marker is another one, and Unreachable. Else it is new, and becomes the hub's. One that
        cannot keep homes is Unreachable too, and gets no marker.
        """
        await require_own_numbers(self._site.engine)
        await self._site.marker.claim(expects_data=expects_data)
        await self._site.network.ensure()

    async def list(self) -> Listing:
        if self._expects_data is not None:
            expected = await self._expects_data()
            if expected is None:
                # Not an empty list: a workspace may be declared before its row is read.
                raise Unreachable("no workspace has needed the Docker engine yet")
            await self.claim(expects_data=expected)
            self._expects_data = None
        return await list_all(self._site.engine, self._site.hub_id, self._site.marker)

    async def create_volume(self, ref: VolumeRef) -> None:
        await self._site.volumes.create(ref)

    async def start(self, request: StartRequest, confirm: Callable[[], Awaitable[None]]) -> None:
        await start(self._site, request, confirm)

    async def stop(self, workspace_id: UUID, grace: timedelta) -> None:
        await stop(self._site, workspace_id, grace)

    async def delete_volume(self, ref: VolumeRef) -> None:
        await self._site.volumes.delete(ref)

    async def volume_path(self, ref: VolumeRef) -> Path | None:
        return await self._site.volumes.path(ref)

    async def require_unused(self, ref: VolumeRef) -> None:
        await self._site.marker.require()
        await self._site.volumes.require_unused(ref)

    async def open_copy(self, ref: VolumeRef) -> EngineCopy:
        return await open_copy(self._site, ref)

    async def close_copy(self, copy: EngineCopy) -> None:
        await close_copy(self._site, copy)

    async def upstream(self, workspace_id: UUID) -> Upstream | None:
        found = await self._site.container(workspace_id)
        if found is None or not is_running(found):
            return None
        port = published_port(found)
        return Upstream(HOST, port) if port else None

    def logs(self, workspace_id: UUID, *, lines: int, follow: bool) -> AsyncIterator[bytes]:
        return output.logs(self._site, workspace_id, lines=lines, follow=follow)

    async def stats(self, workspace_id: UUID) -> Stats | None:
        return await output.stats(self._site, workspace_id)

    def events(self) -> AsyncIterator[UUID]:
        return output.events(self._site)

    async def close(self) -> None:
        """Connections are made again when they are needed again."""
        self._site.engine.close()
