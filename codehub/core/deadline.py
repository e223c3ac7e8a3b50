"""When an operation has taken too long.

Data moves may take any time as long as they progress; the others have a limit. What counts is
known from the row alone, so a new leader goes on counting where the old one stopped:

- `op_started_at`, the claim; `retry_at`, the begin of the current try (kept until the next
  failure or the end of the operation): every try gets the whole time.
- `op_progress["at"]`, ISO: the last progress, by Postgres's clock as every time here.
  `op_progress["stage"]` is "pull" while an image comes in, which counts by progress, and "start"
  from when it was there: the last progress of a start.
- `op_progress["blind_seconds"]`: how long facts were unknown since the last progress (who writes
  progress, drops it), and `op_progress["blind_since"]`, ISO, while they are. Unknown time does not
  count, and time in which nobody looked is unknown: a new leader notes what it finds in flight
  as blind since the row was last observed.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from codehub.model.states import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codehub.model.decision import Rules
    from codehub.model.workspace import Status

AT: Final = "at"
STAGE: Final = "stage"
PULL: Final = "pull"
START: Final = "start"
BLIND_SECONDS: Final = "blind_seconds"
BLIND_SINCE: Final = "blind_since"


def deadline(status: Status, now: datetime, rules: Rules) -> datetime | None:
    """When the operation in flight times out; None when there is none."""
    if status.operation is Operation.NONE or status.op_started_at is None:
        return None
    marks = [status.op_started_at, status.retry_at, _time(status.op_progress, _mark(status))]
    return (
        max(mark for mark in marks if mark is not None)
        + time_limit(status, rules)
        + _blind(status.op_progress, now)
    )


def time_limit(status: Status, rules: Rules) -> timedelta:
    """How long the operation in flight may take, or go without progress."""
    match status.operation:
        case Operation.PROVISIONING:
            return rules.provisioning
        case Operation.STOPPING:
            return rules.stop_grace + rules.stopping
        case Operation.STARTING if not _pulling(status):
            return rules.starting
        case _:
            return rules.stall


def is_blind(status: Status) -> bool:
    """Whether facts that the operation in flight needs are unknown, so that no time counts."""
    return _time(status.op_progress, BLIND_SINCE) is not None


def note_blindness(
    progress: Mapping[str, object], blind: bool, at: datetime
) -> Mapping[str, object]:
    """The progress with the begin of a blind time noted, or with one that ended added up."""
    since = _time(progress, BLIND_SINCE)
    if blind:
        return progress if since is not None else {**progress, BLIND_SINCE: at.isoformat()}
    if since is None:
        return progress
    kept = {key: value for key, value in progress.items() if key != BLIND_SINCE}
    return {**kept, BLIND_SECONDS: _blind(progress, at).total_seconds()}


def _pulling(status: Status) -> bool:
    return status.op_progress.get(STAGE) == PULL


def _mark(status: Status) -> str:
    """The entry of the progress from which the operation's time counts."""
    match status.operation:
        case Operation.PROVISIONING | Operation.STOPPING:
            return ""
        case Operation.STARTING if status.op_progress.get(STAGE) not in (PULL, START):
            return ""
        case _:
            return AT


def _blind(progress: Mapping[str, object], now: datetime) -> timedelta:
    counted = progress.get(BLIND_SECONDS, 0)
    seconds = counted if isinstance(counted, int | float) else 0
    since = _time(progress, BLIND_SINCE)
    current = max(now - since, timedelta(0)) if since is not None else timedelta(0)
    return timedelta(seconds=seconds) + current


def _time(progress: Mapping[str, object], key: str) -> datetime | None:
    """The time under `key`; what is no time with a zone counts as not there."""
    text = progress.get(key)
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
