"""A plan: what applying a spec set would change, as a value that every rendering reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.workspace import Source


class Action(StrEnum):
    """What would happen to one object. HELD, ORPHAN and NONE change nothing."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    UNDELETE = "undelete"
    HELD = "held"
    ORPHAN = "orphan"
    NONE = "none"


class Kind(StrEnum):
    WORKSPACE = "Workspace"
    TTL_POLICY = "TTLPolicy"
    USER = "User"
    HUB = "Hub"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field: texts ready to show, secrets already withheld; `effect` says when it counts."""

    field: str
    old: str | None
    new: str | None
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What a plan says of one object.

    `path` starts with the phase it is in and alternates operations and phases. `deferred` says why
    a change waits (in use, next start). `held` says what holds it below its declared state.
    `stops_now` names whom applying would interrupt. `seen` binds a saved plan to what was observed:
    generation, phase and operation of a stored workspace, None for what does not exist.
    """

    kind: Kind
    name: str
    action: Action
    source: Source | None = None
    fields: tuple[FieldChange, ...] = ()
    path: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    deferred: str | None = None
    held: str | None = None
    stops_now: str | None = None
    seen: str | None = None


@dataclass(frozen=True, slots=True)
class Drift:
    """Reality differs from what was last applied, out of band."""

    name: str
    field: str
    expected: str
    actual: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Forecast:
    """One TTL transition to come, for `--as-of`."""

    at: datetime
    name: str
    old: str
    new: str
    reason: str


@dataclass(frozen=True, slots=True)
class Summary:
    create: int = 0
    update: int = 0
    delete: int = 0
    deferred: int = 0
    held: int = 0
    drifted: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole of it. `base` is the stored revision's id and digest, None for an empty hub."""

    digest: str
    made_at: datetime
    directory: str
    commit: str | None = None
    base_revision: int | None = None
    base_digest: str | None = None
    against_empty: bool = False
    target: str | None = None
    as_of: datetime | None = None
    changes: tuple[Change, ...] = ()
    drift: tuple[Drift, ...] = ()
    forecast: tuple[Forecast, ...] = ()
    unsafe: tuple[str, ...] = ()
    summary: Summary = field(default_factory=Summary)

    @property
    def has_changes(self) -> bool:
        passive = (Action.HELD, Action.ORPHAN, Action.NONE)
        return any(change.action not in passive for change in self.changes)
