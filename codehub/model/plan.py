"""A plan: what applying a spec set would change, as a value that every rendering reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from codehub.model.workspace import Runtime

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
    """One field: texts ready to show, secrets already withheld; `effect` says when it counts.

    `withheld` says that the values may not be shown: then `old` is None and `new` is one of the
    words "added", "removed" and "changed".
    """

    field: str
    old: str | None
    new: str | None
    effect: str = ""
    withheld: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What a plan says of one object.

    `path` starts with the phase it is in and alternates operations and phases. `deferred` says why
    a change waits (in use, next start). `held` says what holds it below its declared state.
    `stops_now` names whom applying would interrupt at once, `stops_later` whom once they pause.
    `seen` binds a saved plan to what was observed: generation, phase and operation of a stored
    workspace, None for what does not exist.
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
    stops_later: str | None = None
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
class PlanOptions:
    """What a person asked of the plan, and the settings of this hub that it depends on.

    `now` is `apply --now`: lowering does not wait while a workspace is in use. The two TTLs are
    the settings (seconds) for workspaces that leave theirs to the hub, `retention` is how long a
    deleted workspace's archive is kept. Lowering waits for `drain_idle`, at most `drain_limit`.
    """

    as_of: datetime | None = None
    target: str | None = None
    show_env: bool = False
    now: bool = False
    enabled: frozenset[Runtime] = frozenset(Runtime)
    standby_ttl: int = 600
    archive_ttl: int = 1800
    retention: timedelta = timedelta(days=7)
    drain_idle: timedelta = timedelta(minutes=5)
    drain_limit: timedelta = timedelta(hours=1)


PASSIVE: Final = frozenset({Action.HELD, Action.ORPHAN, Action.NONE})
"""The actions that change nothing: what is listed for the reader only."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole of it. `base` is the stored revision's id and digest, None for an empty hub."""

    digest: str
    made_at: datetime
    directory: str
    commit: str | None = None
    dirty: bool = False
    hub_id: str | None = None
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
        return any(change.action not in PASSIVE for change in self.changes)
