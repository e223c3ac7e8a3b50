"""Homes: named volumes whose labels say that they are ours.

The engine makes a missing volume whenever one is asked for, and answers a second creation with
the first one, whoever made it. So it is asked before and after, and the labels decide.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codehub.adapters.docker.labels import (
    ACCIDENT,
    container_name,
    is_copy_of,
    is_volume_of,
    volume_labels,
)
from codehub.adapters.docker.removal import remove
from codehub.adapters.docker.translate import CONFLICT, Declined
from codehub.errors import ActionFailed, NameConflict, VolumeInUse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.adapters.docker.engine import Engine
    from codehub.adapters.docker.marker import Marker
    from codehub.model.runtime import VolumeRef


class Volumes:
    """The homes of one hub on one engine."""

    def __init__(self, engine: Engine, hub_id: str, marker: Marker) -> None:
        self._engine = engine
        self._hub_id = hub_id
        self._marker = marker

    async def create(self, ref: VolumeRef) -> None:
        await self._marker.require()
        if await self._find(ref):
            return
        labels = volume_labels(self._hub_id, ref)
        made = await self._engine.act(
            lambda client: client.create_volume(ref.name, driver="local", labels=labels)
        )
        self._require_ours(ref, made)

    async def delete(self, ref: VolumeRef) -> None:
        """Never by force; the engine knows who uses it, stopped containers included."""
        if not await self._find(ref):
            await self._marker.require()
        elif not await self._try_to_delete(ref):
            await self.require_unused(ref)
            if not await self._try_to_delete(ref):
                raise VolumeInUse(f"the volume {ref.name} is in use", hint="try again")

    async def path(self, ref: VolumeRef) -> Path | None:
        """Its directory, where the engine is of this machine and all in it is ours to move.

        None also for one that the engine mounts only where a container uses it: in between, its
        directory is an empty one.
        """
        found = await self._find(ref)
        if found is None:
            await self._marker.require()
            return None
        path = Path(found.get("Mountpoint") or "")
        near = self._engine.is_local and _is_plain(found) and path.is_absolute()
        return path if near and _is_open_to_us(path) else None

    async def require(self, ref: VolumeRef) -> None:
        """The home to start in; never made here, because an empty one would hide the loss."""
        if await self._find(ref) is None:
            await self._marker.require()
            raise _absent(ref)

    async def require_unused(self, ref: VolumeRef) -> None:
        """No container has it, whatever that one is called; what a dead job left is removed."""
        users = await self._remove_leftovers(ref)
        if users:
            name = (users[0].get("Names") or [users[0]["Id"]])[0].removeprefix("/")
            raise _in_use(ref, name)

    def accident_labels(self) -> dict[str, str]:
        """What a volume gets that the engine makes because the real one has just gone."""
        return {ACCIDENT: self._hub_id}

    async def remove_accident(self, ref: VolumeRef) -> None:
        """Remove what the engine made, empty, when we asked for a volume that was gone."""
        found = await self._engine.find(lambda client: client.inspect_volume(ref.name))
        if found is not None and self._is_accident(found.get("Labels")):
            await self._engine.remove(lambda client: client.remove_volume(ref.name))

    async def _try_to_delete(self, ref: VolumeRef) -> bool:
        """Whether it is gone; not where a container has it."""
        try:
            await self._engine.remove(lambda client: client.remove_volume(ref.name))
        except Declined as error:
            if error.status != CONFLICT:
                raise
            return False
        return True

    async def _remove_leftovers(self, ref: VolumeRef) -> list[Mapping[str, Any]]:
        """Remove containers that hold it for a job that is no more; who has it beside those.

        Only one job at a time has a home, and whoever asks for it now is not that one.
        """
        users = await self._engine.look(
            lambda client: client.containers(all=True, filters={"volume": [ref.name]})
        )
        left = [each for each in users if is_copy_of(self._hub_id, ref, each)]
        for each in left:
            await remove(self._engine, str(each["Id"]))
        return [each for each in users if each not in left]

    async def _find(self, ref: VolumeRef) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = await self._engine.find(
            lambda client: client.inspect_volume(ref.name)
        )
        if found is not None:
            self._require_ours(ref, found)
        return found

    def _require_ours(self, ref: VolumeRef, found: Mapping[str, Any]) -> None:
        labels = found.get("Labels")
        if self._is_accident(labels):
            raise _absent(ref)
        if not is_volume_of(self._hub_id, ref, labels):
            raise NameConflict(
                f"the volume {ref.name} exists and is not this hub's, so it was not touched",
                hint="remove or rename it",
            )

    def _is_accident(self, labels: Mapping[str, str] | None) -> bool:
        return (labels or {}).get(ACCIDENT) == self._hub_id


def _absent(ref: VolumeRef) -> ActionFailed:
    return ActionFailed(f"the volume {ref.name} is not there")


def _in_use(ref: VolumeRef, user: str) -> VolumeInUse:
    text = f"the volume {ref.name} is in use by the container {user}"
    if user == container_name(ref.workspace_id):
        return VolumeInUse(text, hint="stop the workspace first")
    # A workspace keeps the message alone, and nobody but a person may remove that container.
    command = f"docker rm --force {user}"
    return VolumeInUse(f"{text}: stop and remove that one ('{command}')")


def _is_plain(volume: Mapping[str, Any]) -> bool:
    """Whether its directory always holds its files: no plugin's, and nothing mounted on it.

    The hub makes no others; somebody who brought a home back may have.
    """
    mounted = {"type", "device"} & (volume.get("Options") or {}).keys()
    return volume.get("Driver") == "local" and not mounted


def _is_open_to_us(path: Path) -> bool:
    """Homes hold files of many owners: only the superuser reads them all and gives them back."""
    mine = os.geteuid() == 0 and os.access(path, os.R_OK | os.W_OK | os.X_OK)
    return mine and path.is_dir()
