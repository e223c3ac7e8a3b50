"""What was observed (facts) and what was made of it (conditions).

Unknown is a value of its own everywhere: a provider that cannot be asked says nothing about
what it holds, and no destructive step may rest on it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ConditionName(StrEnum):
    VOLUME_READY = "storage.volume_ready"
    ARCHIVE_READY = "storage.archive_ready"
    CONTAINER_READY = "infra.container_ready"
    HEALTHY = "policy.healthy"


@dataclass(frozen=True, slots=True)
class Condition:
    """One judged fact, Kubernetes style."""

    status: ConditionStatus
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class KnownConditions(Mapping[ConditionName, Condition]):
    """Conditions that can tell, cheaper than by being looked at, whether they still hold."""

    __slots__ = ()

    @abstractmethod
    def hold(self, judged: Mapping[ConditionName, Condition]) -> bool:
        """Whether they are these and no others, date aside, and each has a date."""


class ContainerFact(StrEnum):
    """What the engine says of the container."""

    UNKNOWN = "unknown"
    ABSENT = "absent"
    EXITED = "exited"
    RUNNING = "running"


class Presence(StrEnum):
    """Whether a volume or an archive is there."""

    UNKNOWN = "unknown"
    ABSENT = "absent"
    DAMAGED = "damaged"
    """There, but not as it was recorded: said of archives alone."""
    PRESENT = "present"


@dataclass(frozen=True, slots=True)
class Facts:
    """What one pass observed of one workspace.

    `volume` is the volume named by `home_store_key` (ABSENT when none is named). `volume_complete`
    says that it was provisioned empty or that its restore was committed. `archive` is the object
    and its commit marker under `archive_key`, with the recorded size; `damage` says how it differs
    where it is DAMAGED. `strays` are containers and volumes of this workspace that nothing refers
    to, and volumes that were retired: they are removed, they are no error. `idle` says that no act
    of the operation in flight runs.
    """

    container: ContainerFact = ContainerFact.UNKNOWN
    port_answered: bool = False
    volume: Presence = Presence.UNKNOWN
    volume_complete: bool = True
    archive: Presence = Presence.UNKNOWN
    strays: Presence = Presence.ABSENT
    reasons: tuple[str, ...] = field(default=())
    exit_code: int | None = None
    """How a container ended that is EXITED, where its engine says so."""
    damage: str = ""
    idle: bool = False
