"""The fleet at one moment, for operators: one value that page, Markdown and JSON all show."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from codehub.model.history import Usage
from codehub.model.states import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from codehub.model.history import History
    from codehub.model.plan import Drift, Forecast
    from codehub.model.revision import Revision
    from codehub.model.states import ErrorReason, Phase
    from codehub.model.workspace import Source


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operation is: in words, and as a part of the whole where that is known."""

    words: str
    part: float | None = None


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One workspace. `why` is one sentence on why it is where it is.

    `next_move` is what idleness will do to it if nobody comes. `declared` is None once no spec
    declares it any more. `usage` is that of the report's window.
    """

    name: str
    owner: str
    phase: Phase
    why: str
    since: datetime | None = None
    operation: Operation = Operation.NONE
    progress: Progress | None = None
    next_move: Forecast | None = None
    last_access_at: datetime | None = None
    last_access_source: str | None = None
    declared: Source | None = None
    usage: Usage = Usage()


class HoldCause(StrEnum):
    """What keeps a workspace from where its spec has it, idleness aside."""

    SUSPENDED = "suspended"
    OVERRIDE = "override"
    PERSON = "person"
    WAITING = "waiting"
    NOT_VISITED = "not-visited"
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Held:
    """A workspace that is not where its spec has it, for a reason that is no failure."""

    name: str
    owner: str
    phase: Phase
    cause: HoldCause
    why: str


@dataclass(frozen=True, slots=True)
class OwnerUse:
    """What one person has and uses; hours are those of the report's window."""

    owner: str
    workspaces: int = 0
    running: int = 0
    run: float = 0.0
    saved: float = 0.0
    archive_bytes: int = 0
    last_access_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The archive of one workspace."""

    name: str
    owner: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Storage:
    """What the hub keeps: homes by their number, archives by their size.

    `kept` are archives of deleted workspaces, there until the retention ends. `largest` are a few.
    """

    homes: int = 0
    archives: int = 0
    archive_bytes: int = 0
    kept: int = 0
    kept_bytes: int = 0
    largest: tuple[StoredFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportError:
    """A workspace that waits for a person: what went wrong, and what that person can do."""

    name: str
    owner: str
    reason: ErrorReason | None
    message: str
    advice: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The whole of it.

    `revision` is the one in force; `failed` is a later load that could not be applied. `counts`
    has every phase but DELETED, also those that nobody is in. `busy` counts operations in flight.
    `coming` is the next thing that idleness does to each, the first one first. `owners` are in the
    order of the hours they ran. `idle` counts those that idleness holds, which is routine; `held`
    are the others. `history` is None where nobody has looked.
    """

    generated_at: datetime
    hub: str
    hub_id: str | None = None
    revision: Revision | None = None
    failed: Revision | None = None
    counts: Mapping[Phase, int] = field(default_factory=dict)
    busy: int = 0
    lines: tuple[ReportLine, ...] = ()
    errors: tuple[ReportError, ...] = ()
    drift: tuple[Drift, ...] = ()
    coming: tuple[Forecast, ...] = ()
    held: tuple[Held, ...] = ()
    idle: int = 0
    owners: tuple[OwnerUse, ...] = ()
    storage: Storage = Storage()
    history: History | None = None
