"""What happened to the fleet within a window of time: as it was read, and as it was counted.

`Past` is what the audit says; `History` is what reports show of it, counted by `core/recount.py`.
Hours are hours of one workspace: two that run for an hour make two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from codehub.model.events import EventKind
    from codehub.model.states import Phase

DAYS: Final = 7
"""The window, unless another is asked for."""

MOST_DAYS: Final = 366


class Move(NamedTuple):
    """One line of the audit that moved a workspace: its phase, or what was desired of it.

    A tuple, since there may be very many of them.
    """

    workspace_id: UUID
    at: datetime
    kind: EventKind
    old: str
    new: str
    source: str


@dataclass(frozen=True, slots=True)
class Opening:
    """How a workspace stood before its first move in the window.

    `told` says that the last word on it was a TTL's, to rest; `asleep` that it rests since a TTL's
    word took it out of RUNNING, and that nobody else has asked for anything since.
    """

    told: bool
    asleep: bool


@dataclass(frozen=True, slots=True)
class Past:
    """What was read of the audit, moves in their order.

    `openings` has those workspaces only for which it matters. `cut` says that more happened than
    was to be read: then `since` is later than it was asked for.
    """

    since: datetime
    until: datetime
    moves: tuple[Move, ...] = ()
    openings: Mapping[UUID, Opening] = field(default_factory=dict)
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A workspace in one phase, for a while."""

    phase: Phase
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Timeline:
    """One workspace's spans, without gaps, from the window's start or its own to the end."""

    name: str
    owner: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the window, and the hours that all workspaces together spent in each phase."""

    since: datetime
    until: datetime
    hours: Mapping[Phase, float]
    saved: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Hours run, hours saved by TTL, and how often the phase changed."""

    run: float = 0.0
    saved: float = 0.0
    changes: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """The window, counted.

    `mix` are fine slices, `steps` coarser ones, both whole: together each covers the window.
    `timelines` are those of the workspaces that changed most, by name; `more` others are there.
    `usage` is by workspace. `lowered` is how often a TTL asked one to rest. `cut` is as in `Past`.
    """

    since: datetime
    until: datetime
    mix: tuple[Slice, ...] = ()
    steps: tuple[Slice, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    more: int = 0
    usage: Mapping[UUID, Usage] = field(default_factory=dict)
    run: float = 0.0
    saved: float = 0.0
    lowered: int = 0
    cut: bool = False
