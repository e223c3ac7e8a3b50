"""The words for where a workspace is, where it should be, and what is being done about it.

The ordered states and their levels are the backbone of the whole machine: a step goes from
one level to the next and never past the target.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """Where a workspace is, derived from observed facts and stored as a cache."""

    PENDING = "PENDING"
    ARCHIVED = "ARCHIVED"
    STANDBY = "STANDBY"
    RUNNING = "RUNNING"
    ERROR = "ERROR"
    DELETING = "DELETING"
    DELETED = "DELETED"


class DesiredState(StrEnum):
    """Where a workspace should be. PENDING is never desired."""

    RUNNING = "RUNNING"
    STANDBY = "STANDBY"
    ARCHIVED = "ARCHIVED"
    DELETED = "DELETED"


class Operation(StrEnum):
    """The one action in flight for a workspace, or NONE."""

    NONE = "NONE"
    PROVISIONING = "PROVISIONING"
    CREATE_EMPTY_ARCHIVE = "CREATE_EMPTY_ARCHIVE"
    RESTORING = "RESTORING"
    STARTING = "STARTING"
    STOPPING = "STOPPING"
    ARCHIVING = "ARCHIVING"
    DELETING = "DELETING"


class ErrorReason(StrEnum):
    """Why a workspace is in ERROR, or why its operation is being tried again."""

    TIMEOUT = "Timeout"
    DATA_LOST = "DataLost"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_WITHOUT_VOLUME = "ContainerWithoutVolume"
    ARCHIVE_CORRUPTED = "ArchiveCorrupted"
    ACTION_FAILED = "ActionFailed"
    RETRY_EXCEEDED = "RetryExceeded"
    UNREACHABLE = "Unreachable"


class IntentSource(StrEnum):
    """Who last moved the desired state."""

    SPEC = "spec"
    TTL = "ttl"
    VISIT = "visit"
    API = "api"
    CLI = "cli"


class RecoverMode(StrEnum):
    """How a person asks for recovery; data that was lost needs one of the latter two."""

    PLAIN = "plain"
    FROM_ARCHIVE = "from-archive"
    ACCEPT_EMPTY = "accept-empty"


LEVELS: Final[dict[str, int]] = {
    "DELETED": -1,
    "PENDING": 0,
    "ARCHIVED": 5,
    "STANDBY": 10,
    "RUNNING": 20,
}
"""The order of states; DELETED stands below all as a target, ERROR and DELETING outside."""

PHASE_OF: Final[dict[DesiredState, Phase]] = {state: Phase(state.value) for state in DesiredState}
"""The phase in which a desired state is reached."""


def level(state: Phase | DesiredState) -> int | None:
    """How high a state stands; None for ERROR and DELETING, which stand outside the order."""
    return LEVELS.get(state.value)


def lower(one: DesiredState, other: DesiredState) -> DesiredState:
    """The lower of two desired states."""
    return one if LEVELS[one] <= LEVELS[other] else other
