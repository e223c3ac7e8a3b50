"""What one pass saw of the runtimes, in bulk, and what it means for one workspace: pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.states import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from codehub.model.runtime import ContainerSeen, Listing, VolumeSeen
    from codehub.model.workspace import Runtime, Workspace


@dataclass(frozen=True, slots=True)
class Things:
    """The containers and volumes of one workspace; `unknown` says why they could not be listed."""

    container: ContainerSeen | None = None
    volumes: tuple[VolumeSeen, ...] = ()
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """All that the runtimes listed, by workspace. A runtime that did not answer is in `unknown`."""

    things: Mapping[Runtime, Mapping[UUID, Things]] = field(default_factory=dict)
    unknown: Mapping[Runtime, str] = field(default_factory=dict)

    def of(self, workspace: Workspace) -> Things:
        runtime = workspace.declaration.runtime
        if runtime not in self.things:
            why = self.unknown.get(runtime, f"this coordinator has no {runtime} runtime")
            return Things(unknown=why)
        return self.things[runtime].get(workspace.id, NOTHING)

    def things_of(self, workspace_id: UUID) -> Things:
        """What was listed under this id, whichever runtime it belongs to."""
        for things in self.things.values():
            if workspace_id in things:
                return things[workspace_id]
        return Things(unknown="not listed") if self.unknown else NOTHING


NOTHING = Things()


def index(listing: Listing) -> dict[UUID, Things]:
    """A listing by workspace."""
    containers = {each.workspace_id: each for each in listing.containers}
    volumes: dict[UUID, list[VolumeSeen]] = {}
    for each in listing.volumes:
        volumes.setdefault(each.workspace_id, []).append(each)
    return {
        each: Things(containers.get(each), tuple(volumes.get(each, ())))
        for each in containers.keys() | volumes.keys()
    }


def stray_volumes(workspace: Workspace, things: Things) -> tuple[VolumeSeen, ...]:
    """Volumes that were homes once, or never became one."""
    home = workspace.status.home_store_key
    return tuple(each for each in things.volumes if each.name != home and may_go(workspace, each))


def may_go(workspace: Workspace, volume: VolumeSeen) -> bool:
    """Whether nothing can be lost with a volume, once it is no home.

    A generation that this database has not given out may be newer than a database that was restored
    from a backup; one that was given up while nobody found it was taken for gone. Both may hold
    what nothing else holds.
    """
    status = workspace.status
    newer = volume.generation > status.home_generation
    return not newer and volume.name not in status.home_ctx.given_up


def is_stray(workspace: Workspace, container: ContainerSeen | None) -> bool:
    """Whether the container mounts another volume than the home: a late start of a dead leader."""
    if container is None or container.volume is None:
        return False
    return container.volume != workspace.status.home_store_key


def facts_of(
    workspace: Workspace,
    things: Things,
    archive: Presence,
    *,
    port_answered: bool,
    doubt: str = "",
) -> Facts:
    """What was observed of one workspace.

    `doubt` says why nothing is known of its archive, or what is wrong with it.
    """
    damage = doubt if archive is Presence.DAMAGED else ""
    doubts = (doubt,) if doubt and archive is Presence.UNKNOWN else ()
    if things.unknown is not None:
        reasons = (things.unknown, *doubts)
        return Facts(archive=archive, damage=damage, strays=Presence.UNKNOWN, reasons=reasons)
    status = workspace.status
    home = status.home_store_key
    stray = is_stray(workspace, things.container)
    there = home is not None and any(each.name == home for each in things.volumes)
    marker = status.home_ctx.restore_marker
    restoring = status.operation is Operation.RESTORING
    return Facts(
        container=ContainerFact.ABSENT if stray else _container(things.container),
        port_answered=port_answered,
        volume=Presence.PRESENT if there else Presence.ABSENT,
        volume_complete=not restoring or (marker is not None and marker == status.archive_key),
        archive=archive,
        damage=damage,
        strays=Presence.PRESENT if stray or stray_volumes(workspace, things) else Presence.ABSENT,
        reasons=doubts,
        exit_code=None if things.container is None else things.container.exit_code,
    )


def _container(container: ContainerSeen | None) -> ContainerFact:
    if container is None:
        return ContainerFact.ABSENT
    return ContainerFact.RUNNING if container.running else ContainerFact.EXITED
