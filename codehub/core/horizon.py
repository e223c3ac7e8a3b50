"""What silence is worth: how far activity is surely known, and when nothing is known at all.

Activity reaches Postgres late: a proxy gathers it, Redis buffers it, a drain brings it over. So
"nobody was there" may be said only up to the horizon, and only if nothing can have been lost on the
way. Whatever may have lost something (Redis flushed, restarted, replaced or out of reach, a long
time without a drain, a clock that jumped) makes the time before it blind: from its end on
idleness counts anew, as if everybody had been there at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.core.express import short

if TYPE_CHECKING:
    from collections.abc import Container
    from datetime import datetime
    from uuid import UUID

    from codehub.model.signals import ActivityRead, Sighting

MISSED_TICKS: Final = 3
"""So many drains may fail to happen before their absence counts as blindness."""

STRANGERS_STAY: Final = timedelta(days=1)
"""How long sightings of unknown workspaces are left alone: they may be another hub's."""


@dataclass(frozen=True, slots=True)
class Watch:
    """How far activity was read, as Postgres remembers it for whoever leads.

    `drained_at` is the time before the last good read, `blind_until` the end of the last time in
    which activity may have been lost, `sentinel` what Redis showed; empty after it gave no answer.
    """

    drained_at: datetime | None = None
    blind_until: datetime | None = None
    sentinel: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """The last sign of life in a workspace: how long before the read, and how we know."""

    age: timedelta
    source: str


def fingerprint(read: ActivityRead) -> str:
    """What tells this Redis from an emptied, restarted or other one; empty without a sentinel.

    A restart may bring an old state back, sentinel and all, so the server's run counts too.
    """
    return f"{read.sentinel}@{read.run_id}" if read.sentinel else ""


def longest_gap(interval: timedelta, flush: timedelta) -> timedelta:
    """The longest time between two drains that is still a pause and not blindness."""
    return MISSED_TICKS * interval + flush


def blindness(watch: Watch, shown: str, now: datetime, longest: timedelta) -> str | None:
    """Why nothing can be said of the time before this read; None when nothing was missed.

    `shown` is the fingerprint of what was read, `now` the time at which reading began. The first
    read of a hub is blind: who worked before it, nobody wrote down. A gap is blind even though
    Redis kept everything, because a clock that jumps ahead looks just like one.
    """
    if watch.drained_at is None or watch.blind_until is None:
        return "activity was never read before"
    if not shown or shown != watch.sentinel:
        return "Redis was out of reach, emptied, restarted or replaced"
    if now < watch.drained_at:
        return "the database's clock went back"
    if now - watch.drained_at > longest:
        return f"activity was not read for {short(now - watch.drained_at)}"
    return None


def horizon(drained_at: datetime, flush: timedelta, slack: timedelta) -> datetime:
    """Until when activity is surely in the database.

    What happened before the drain reached Redis at most a flush interval later; the slack is for
    a proxy that was slow, and for all that one waits for (`patience` in `proxy/activity.py`).
    """
    return drained_at - flush - slack


def newest(read: ActivityRead) -> dict[UUID, Seen]:
    """The last sighting of each workspace, as its age when it was read.

    Ages, because only one clock may be asked about the time: Redis's says how long ago, Postgres's
    turns that into a moment.
    """
    latest: dict[UUID, Sighting] = {}
    for each in read.sightings:
        known = latest.get(each.workspace_id)
        if known is None or (each.at, each.source) > (known.at, known.source):
            latest[each.workspace_id] = each
    return {key: Seen(read.at - each.at, each.source) for key, each in latest.items()}


def forgettable(read: ActivityRead, known: Container[UUID]) -> tuple[Sighting, ...]:
    """What may leave the buffer once recorded: all of ours, and old ones of nobody we know."""
    return tuple(
        each
        for each in read.sightings
        if each.workspace_id in known or read.at - each.at > STRANGERS_STAY
    )
