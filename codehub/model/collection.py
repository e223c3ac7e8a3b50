"""What a collection of unused archives looks at, and what it makes of each: values only.

An archive here is what lies under one key: the object, its commit marker, or only one of them. It
has one fate; its objects go together or stay together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from codehub.model.runtime import ObjectInfo


class Fate(StrEnum):
    """What becomes of an archive in this collection."""

    KEPT = "kept"
    WAITING = "waiting"
    """Nothing refers to it; it goes when that is still so later."""
    DUE = "due"
    """Nothing has referred to it for long enough."""


class Why(StrEnum):
    """What protects an archive, or why nothing does."""

    CURRENT = "current"
    IN_ERROR = "in-error"
    OPERATION = "operation"
    NEWER = "newer"
    UNKNOWN_WORKSPACE = "unknown-workspace"
    UNRECORDED = "unrecorded"
    """Committed by an operation that the database has no record of."""
    OLDER = "older"
    PURGED = "purged"
    GIVEN_UP = "given-up"
    """Of a workspace that the database does not know, and an admin said that this is right."""


@dataclass(frozen=True, slots=True)
class StoredArchive:
    """What the store holds under one archive key. `objects` has the commit marker first."""

    key: str
    workspace_id: UUID
    op_id: UUID
    objects: tuple[ObjectInfo, ...]

    @property
    def bytes(self) -> int:
        return sum(each.size for each in self.objects)

    @property
    def begun_at(self) -> datetime:
        return min(each.modified_at for each in self.objects)

    @property
    def ended_at(self) -> datetime:
        return max(each.modified_at for each in self.objects)


@dataclass(frozen=True, slots=True)
class Inventory:
    """A hub's part of the store. `others` are its marks, and what is no archive: left alone."""

    archives: tuple[StoredArchive, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Holder:
    """What the database says of one workspace, as far as it protects archives.

    `noted` are the ids of all operations that its archives may lie under, as far as the database
    has seen them.
    """

    id: UUID
    name: str
    archive_key: str | None = None
    op_id: UUID | None = None
    in_error: bool = False
    wanted: bool = True
    deleted_at: datetime | None = None
    purged: bool = False
    noted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the database knew at `now`.

    `candidates` are archives that nothing referred to when an earlier collection looked, with the
    time it was first seen. `epoch` counts collections; `confirmed_at` is when an admin last vouched
    for this database. Of operations before `noted_since` there is no record.
    """

    now: datetime
    holders: Mapping[UUID, Holder]
    candidates: Mapping[str, datetime]
    epoch: int = 0
    confirmed_at: datetime | None = None
    noted_since: datetime | None = None

    @property
    def recorded(self) -> int:
        """How many archives must be there."""
        return sum(
            each.archive_key is not None and not each.purged for each in self.holders.values()
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fate of one archive and why. `workspace` is empty when the database knows none."""

    archive: StoredArchive
    workspace: str
    fate: Fate
    why: Why
    since: datetime | None = None
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Marker:
    """What the store says of itself: whose it is, and the last collection it saw."""

    hub: UUID
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why nothing may be collected, and what to do about it."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What a collection would do now. `obstacle` says why it would do nothing at all."""

    hub_id: UUID
    now: datetime
    verdicts: tuple[Verdict, ...]
    others: tuple[str, ...] = ()
    purging: tuple[str, ...] = ()
    obstacle: Obstacle | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection did. Counts are of archives; `objects` and `bytes` are of what was deleted.

    `postponed` archives were due beyond the most that one collection deletes.
    """

    kept: int = 0
    waiting: int = 0
    deleted: int = 0
    objects: int = 0
    bytes: int = 0
    postponed: int = 0
    aborted_uploads: int = 0
    purged: tuple[str, ...] = ()
    confirmed: bool = False
