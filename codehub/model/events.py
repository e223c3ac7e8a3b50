"""The append-only audit: who moved what, when and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


class EventKind(StrEnum):
    DECLARED = "declared"
    DESIRED = "desired"
    PHASE = "phase"
    OPERATION = "operation"
    ERROR = "error"
    OVERRIDE = "override"
    RECOVER = "recover"
    EXPIRING = "expiring"
    STRAY = "stray"
    TOUCH = "touch"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the audit: `old` became `new`; `by` and `source` say through whom."""

    id: int
    at: datetime
    workspace_id: UUID
    workspace: str
    kind: EventKind
    old: str
    new: str
    source: str
    by: str
    reason: str = ""
