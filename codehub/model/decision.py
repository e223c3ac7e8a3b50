"""What judging and deciding give: values that the controller stores and acts upon.

The pure core makes them, `core/record.py` says what each of them leaves in the database, and the
controller carries them out. Nothing here knows how.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from codehub.model.conditions import Condition, ConditionName
    from codehub.model.states import ErrorReason, Operation, Phase, RecoverMode

DISCARD_DATA: Final = "discard-data"
"""`recover_requested` of an admin's `delete --discard-data`: deletion skips the last archive."""


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant that reality breaks; it is shown as ERROR and never healed silently."""

    reason: ErrorReason
    message: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the facts of one pass mean. `broken` is the first broken invariant, if any."""

    phase: Phase
    phase_changed_at: datetime | None
    conditions: Mapping[ConditionName, Condition]
    broken: Broken | None = None


@dataclass(frozen=True, slots=True)
class Drain:
    """How long a lowering that comes from git waits for the people in a workspace.

    Until it was idle for `idle`, at most `limit`; `skip` is `apply --now`.
    """

    idle: timedelta = timedelta(minutes=5)
    limit: timedelta = timedelta(hours=1)
    skip: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """Every limit that deciding knows.

    `retries` counts tries after the first. `stall` is how long a data move may go without progress,
    `stop_grace` what a container gets to end by itself, `stopping` what is allowed beyond that.
    After `settled` in RUNNING the failures before it are forgotten.
    """

    retries: int = 3
    stall: timedelta = timedelta(minutes=5)
    provisioning: timedelta = timedelta(seconds=60)
    starting: timedelta = timedelta(seconds=120)
    stop_grace: timedelta = timedelta(seconds=10)
    stopping: timedelta = timedelta(seconds=60)
    settled: timedelta = timedelta(minutes=5)
    backoff_first: timedelta = timedelta(seconds=2)
    backoff_limit: timedelta = timedelta(seconds=60)
    drain: Drain = field(default_factory=Drain)


@dataclass(frozen=True, slots=True)
class Nothing:
    """It is where it should be, or somebody else must move first."""

    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Not yet: look again at `until`, or when facts change if that is None.

    `blind` says that an unknown fact is in the way; the time that passes so does not count
    towards time limits.
    """

    until: datetime | None
    why: str
    blind: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """Begin an operation. `phase` is what to store with it.

    The caller may refuse it (no slot, a limit on STARTING, a TTL that expired no more): then
    nothing is stored and the next pass decides again. `leaves_error` says that this step of a
    deletion ends the error it starts from.
    """

    operation: Operation
    phase: Phase
    why: str
    leaves_error: bool = False


@dataclass(frozen=True, slots=True)
class Continue:
    """The operation in flight is not done: see that its act runs. It times out at `until`."""

    operation: Operation
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Complete:
    """What the operation was for is observed: it ends, in `phase`, with `error_count` kept."""

    operation: Operation
    phase: Phase
    error_count: int = 0


@dataclass(frozen=True, slots=True)
class Release:
    """The operation in flight ends without effect: something else is wanted, and it only waited."""

    operation: Operation
    why: str


@dataclass(frozen=True, slots=True)
class Retry:
    """A failure that may pass: try again at `retry_at`.

    `unreachable_count` counts answers that did not come, for the backoff alone: never an ERROR.
    """

    reason: ErrorReason
    message: str
    error_count: int
    retry_at: datetime
    unreachable_count: int = 0


@dataclass(frozen=True, slots=True)
class Fail:
    """Into ERROR, until a person recovers or deletes it.

    `operation` is the one that failed (NONE when a broken invariant was found at rest).
    """

    reason: ErrorReason
    message: str
    operation: Operation
    error_count: int


@dataclass(frozen=True, slots=True)
class Recover:
    """Leave ERROR as a person asked; the next pass judges anew.

    The caller clears `recover_requested` in the same transaction. `mode` may ask for less than the
    person did: a home that came back is never given up.
    """

    mode: RecoverMode
    why: str


@dataclass(frozen=True, slots=True)
class Undelete:
    """It was deleted and is wanted again within the retention: it comes back with its archive."""

    why: str


@dataclass(frozen=True, slots=True)
class Settle:
    """It has run well for long enough: earlier failures are forgotten."""

    why: str


@dataclass(frozen=True, slots=True)
class RemoveStrays:
    """Nothing to do but to remove containers and volumes that nothing refers to."""

    why: str


Decision: TypeAlias = (
    Nothing
    | Wait
    | Claim
    | Continue
    | Complete
    | Release
    | Retry
    | Fail
    | Recover
    | Undelete
    | Settle
    | RemoveStrays
)
