"""The words of the dashboard, where they differ from those of the command line.

The script keeps times on the page true, with the same words: `lasting` and `since_words` are in
`dashboard.js` too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.model.states import DesiredState, Operation, Phase

if TYPE_CHECKING:
    from datetime import timedelta

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
_SOON: Final = 10
"""Seconds in which something has happened just now."""

_PHASES: Final = {
    Phase.PENDING: "Pending",
    Phase.ARCHIVED: "Archived",
    Phase.STANDBY: "Standby",
    Phase.RUNNING: "Running",
    Phase.ERROR: "Error",
    Phase.DELETING: "Deleting",
    Phase.DELETED: "Deleted",
}
_STANDING: Final = {
    Phase.PENDING: "is pending",
    Phase.ARCHIVED: "is archived",
    Phase.STANDBY: "is in standby",
    Phase.RUNNING: "is running",
    Phase.ERROR: "is in error",
    Phase.DELETING: "is being deleted",
    Phase.DELETED: "is deleted",
}
DOING: Final = {
    Operation.NONE: "",
    Operation.PROVISIONING: "Preparing",
    Operation.CREATE_EMPTY_ARCHIVE: "Preparing",
    Operation.RESTORING: "Restoring",
    Operation.STARTING: "Starting",
    Operation.STOPPING: "Stopping",
    Operation.ARCHIVING: "Archiving",
    Operation.DELETING: "Deleting",
}
_MOVES: Final = {
    DesiredState.STANDBY.value: "Sleeps",
    DesiredState.ARCHIVED.value: "Is archived",
}
_ACTIVITY: Final = {
    "input": "typing or clicking",
    "traffic": "its pages in use",
    "connections": "an open connection",
    "cpu": "computing",
    "touch": "somebody said so",
}


def phase_words(phase: Phase) -> str:
    return _PHASES[phase]


def standing_words(phase: Phase) -> str:
    """The same after a workspace's name."""
    return _STANDING[phase]


def move_words(to: str) -> str:
    """What a TTL does, before `in 7 min`."""
    return _MOVES.get(to, f"Becomes {to}")


def activity_words(source: str | None) -> str:
    """What the last activity was."""
    return _ACTIVITY.get(source or "", source or "")


def lasting(span: timedelta) -> str:
    """`45 s`, `7 min`, `2 h 5 min`, `3 d 4 h`."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < MINUTE:
        return f"{seconds} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min"
    if seconds < DAY:
        return _pair(seconds, HOUR, "h", MINUTE, "min")
    return _pair(seconds, DAY, "d", HOUR, "h")


def since_words(span: timedelta) -> str:
    """`3 min ago`, or `just now`."""
    return "just now" if span.total_seconds() < _SOON else f"{lasting(span)} ago"


def _pair(seconds: int, unit: int, word: str, part: int, smaller: str) -> str:
    rest = seconds % unit // part
    return f"{seconds // unit} {word}" + (f" {rest} {smaller}" if rest else "")
