"""What runtimes and object stores are asked for and what they answer, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codehub.model.workspace import Resources

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

NOT_MOUNTED: Final = ".codehub-not-mounted"


@dataclass(frozen=True, slots=True)
class VolumeRef:
    """A home volume: `ws-{id}-home-g{generation}`, one name for one generation, never reused.

    `workspace_name` is for people who find the volume without its hub, where it is known.
    """

    workspace_id: UUID
    generation: int
    workspace_name: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        return f"ws-{self.workspace_id}-home-g{self.generation}"


@dataclass(frozen=True, slots=True)
class StartRequest:
    """Everything a runtime needs to start a workspace. `env` holds secrets: never log it whole."""

    workspace_id: UUID
    name: str
    volume: VolumeRef
    op_id: UUID
    template_digest: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    port: int
    image: str | None = None
    resources: Resources = Resources()
    base_path: str = "/"


@dataclass(frozen=True, slots=True)
class ContainerSeen:
    """A container (or process) of this hub, as listed. A stray when nothing refers to its op_id."""

    workspace_id: UUID
    running: bool
    op_id: UUID | None = None
    template_digest: str | None = None
    volume: str | None = None
    exit_code: int | None = None
    started_at: datetime | None = None
    upstream: Upstream | None = None
    """Where its port is reached, while it runs."""


@dataclass(frozen=True, slots=True)
class VolumeSeen:
    """A home volume of this hub, as listed; with its workspace's name when it was made, if told."""

    workspace_id: UUID
    name: str
    generation: int
    workspace_name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Listing:
    """All of this hub's containers and volumes at one moment; complete, or it was not returned."""

    containers: tuple[ContainerSeen, ...] = ()
    volumes: tuple[VolumeSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineCopy:
    """A home that only its engine can read: a directory in a container that is never started.

    Whoever was given one gives it back; until then the volume is in use. Where the volume should
    be but is not, the directory holds a file `NOT_MOUNTED`: what is read or written there is then
    no home.
    """

    base_url: str
    container: str
    directory: str


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the proxy reaches a workspace."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Stats:
    """CPU seconds used so far and memory in use; two samples give a rate."""

    cpu_seconds: float
    memory_bytes: int
    at: datetime


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One stored object."""

    key: str
    size: int
    modified_at: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)
