"""What an archive store tells of a hub whose database was lost, and what can be made of it.

Values only. An archive's commit marker names its workspace, owner and generation; it says nothing
of how the workspace was run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from codehub.model.archive import ArchiveMeta
    from codehub.model.runtime import VolumeSeen
    from codehub.model.workspace import Runtime


@dataclass(frozen=True, slots=True)
class Committed:
    """An archive that can be used; `at` is when the store got its commit marker."""

    meta: ArchiveMeta
    at: datetime


@dataclass(frozen=True, slots=True)
class Flawed:
    """An archive that was committed and cannot be used, and why."""

    key: str
    workspace_id: UUID
    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class Salvage:
    """All that the store holds of one hub. `unfinished` archives were never committed."""

    hub_id: UUID
    committed: tuple[Committed, ...] = ()
    flawed: tuple[Flawed, ...] = ()
    unfinished: int = 0


@dataclass(frozen=True, slots=True)
class Undeclared:
    """A workspace that an import made and that no revision has declared since."""

    name: str
    runtime: Runtime


@dataclass(frozen=True, slots=True)
class Known:
    """What the database holds before an import.

    `names` are those in use, `loaded` says whether specs were ever applied to it, and
    `collections` is its count of collections of archives.
    """

    hub_id: UUID | None = None
    ids: frozenset[UUID] = frozenset()
    names: Mapping[str, UUID] = field(default_factory=dict)
    undeclared: Mapping[UUID, Undeclared] = field(default_factory=dict)
    loaded: bool = False
    collections: int = 0


@dataclass(frozen=True, slots=True)
class Home:
    """A workspace as its newest good archive tells of it.

    `generation` is the highest that any of its archives has, `outdated` says that a newer archive
    cannot be used, and `older` counts the good ones beside this.
    """

    id: UUID
    name: str
    owner: str
    runtime: Runtime
    archive: ArchiveMeta
    generation: int
    created_at: datetime
    older: int = 0
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A workspace that the import does not bring back: why, and what to do about it."""

    id: UUID
    name: str
    why: str
    advice: str


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What the runtimes still hold of a hub, as far as they could be asked.

    `marked` are those that bear the hub's mark, `unseen` says of the others why nobody knows, and
    `folder` is where the process runtime keeps its homes.
    """

    volumes: Mapping[Runtime, tuple[VolumeSeen, ...]] = field(default_factory=dict)
    marked: frozenset[Runtime] = frozenset()
    unseen: Mapping[Runtime, str] = field(default_factory=dict)
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Forsaken:
    """A home of a workspace that the hub does not know any more, and will not come to know."""

    runtime: Runtime
    volume: VolumeSeen
    workspace: str = ""
    """Its name, where anything tells it."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """What an import does: `homes` get rows, and both they and `undeclared` get specs.

    `present` counts the workspaces that the database knows already; they are left as they are.
    `ids` are those of all that it knows then.
    """

    hub_id: UUID
    homes: tuple[Home, ...] = ()
    undeclared: tuple[Home, ...] = ()
    present: int = 0
    left_out: tuple[LeftOut, ...] = ()
    flawed: tuple[Flawed, ...] = ()
    unfinished: int = 0
    ids: frozenset[UUID] = frozenset()

    @property
    def complete(self) -> bool:
        """Whether every home in the store is back, as it was last archived."""
        return not self.left_out and not any(each.outdated for each in self.homes)
