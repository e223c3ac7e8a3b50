"""The fleet at one moment, for operators: one value that page, Markdown and JSON all show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codehub.model.states import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

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
    declares it any more.
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
