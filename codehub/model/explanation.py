"""An explanation: everything that can be said of one workspace, and what it was made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from codehub.model.decision import Rules
from codehub.model.plan import PlanOptions
from codehub.model.voice import Voice

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.model.conditions import Condition, ConditionName
    from codehub.model.events import Event
    from codehub.model.plan import Forecast
    from codehub.model.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads, as the database knows it.

    `held` says that a living session holds the leader's lock. Without it, holder, epoch and since
    are those of the last one who led; all empty where nobody ever did.
    """

    held: bool = False
    holder: str = ""
    epoch: int = 0
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Queued:
    """A place in the queue of those that would run if a limit allowed it, in order of asking.

    `owner` is whose limit it is, None for the hub's. `running` are the owner's that take the
    places, `stoppable` those among them that can be stopped now; none are named for the hub's
    limit: they are not theirs to see.
    """

    position: int
    limit: int
    owner: str | None = None
    running: tuple[str, ...] = ()
    stoppable: tuple[str, ...] = ()


class BlockKind(StrEnum):
    """What can be in the way of a workspace."""

    COORDINATOR = "coordinator"
    ERROR = "error"
    RECOVERY = "recovery"
    UNKNOWN = "unknown"
    OPERATION = "operation"
    RETRY = "retry"
    LIMIT = "limit"
    HOLD = "hold"
    PEOPLE = "people"


@dataclass(frozen=True, slots=True)
class Block:
    """One thing that keeps a workspace from where it should be; `advice` is what to do about it."""

    kind: BlockKind
    message: str
    advice: str = ""
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence of the explanation and what it is about."""

    topic: str
    text: str


@dataclass(frozen=True, slots=True)
class Customs:
    """The hub's settings that an explanation depends on.

    `remind` is how long before a TTL people are told, of a short one at its half; activity that was
    not read for `stale` makes every TTL wait. `voice` is how what to do is said.
    """

    options: PlanOptions = field(default_factory=PlanOptions)
    rules: Rules = field(default_factory=Rules)
    remind: timedelta = timedelta(minutes=5)
    stale: timedelta = timedelta(minutes=5)
    voice: Voice = Voice.COMMANDS


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What surrounds one workspace at one moment, read with it.

    `moved` is the last audit row of its desired state. `declared` says that the specs in force
    name it. `queued` is its place among those that wait for a limit. Idleness counts from
    `blind_until` at the earliest, and activity was last read from Redis at `drained_at`.
    """

    now: datetime
    commit: str | None = None
    moved: Event | None = None
    declared: bool = True
    leader: Leadership = Leadership()
    queued: Queued | None = None
    blind_until: datetime | None = None
    drained_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """All of it: sentences for people, and the values behind them for scripts.

    `way` are the phases and operations to come, beginning with where it is. `next` is the
    next transition that idleness will cause, with `remind_at`. `kept_until` is when the archive of
    a deleted workspace goes.
    """

    workspace: Workspace
    now: datetime
    commit: str | None
    headline: str
    lines: tuple[Line, ...]
    blocks: tuple[Block, ...]
    conditions: tuple[tuple[ConditionName, Condition], ...]
    way: tuple[str, ...]
    leader: Leadership
    moved: Event | None = None
    next: Forecast | None = None
    remind_at: datetime | None = None
    queued: Queued | None = None
    kept_until: datetime | None = None
