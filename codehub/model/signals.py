"""What is read from the activity buffer, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class Sighting:
    """Somebody was seen working in a workspace; `source` says how (input, traffic, cpu, …)."""

    workspace_id: UUID
    source: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ActivityRead:
    """The whole buffer at one moment.

    `at` is Redis's clock. `sentinel` is what `write_sentinel` left, None when it is gone. `run_id`
    changes when Redis restarts: a restart may have brought an old state back.
    """

    at: datetime
    sentinel: str | None
    run_id: str
    sightings: tuple[Sighting, ...] = ()
