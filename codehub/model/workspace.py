"""A workspace as the database knows it, in four parts with one writer each.

`Declaration` is the spec loader's, `Intent` the intent service's, `Activity` the activity sync's,
`Status` the controller's. The parts keep the contract "single writer per column" visible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from codehub.model.conditions import Condition, ConditionName
    from codehub.model.runtime import Upstream

NEVER: Final = 0
"""A TTL of NEVER is off; a TTL of None is the hub's setting."""


class Runtime(StrEnum):
    DOCKER = "docker"
    PROCESS = "process"
    KUBERNETES = "kubernetes"


class ActivityPolicy(StrEnum):
    AUTO = "auto"
    TRAFFIC = "traffic"
    CONNECTIONS = "connections"


class StartOn(StrEnum):
    APPLY = "apply"
    VISIT = "visit"


class UpdatePolicy(StrEnum):
    NEXT_START = "nextStart"
    IMMEDIATE = "immediate"


class PathPrefix(StrEnum):
    STRIP = "strip"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Resources:
    cpus: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None


@dataclass(frozen=True, slots=True)
class Ttl:
    """When idleness lowers a workspace; seconds, None for the hub's setting, NEVER for off.

    `policy` is the name of the TTLPolicy it came from, None when it was written inline.
    `busy_cpu` is the percentage of one core that counts as work, 0 for off.
    """

    standby: int | None = None
    archive: int | None = None
    activity: ActivityPolicy = ActivityPolicy.AUTO
    busy_cpu: int = 25
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where in the specs something is declared."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a spec asks for, with every default and reference resolved."""

    name: str
    owner: str
    runtime: Runtime
    description: str = ""
    memo: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict)
    port: int = 8080
    path_prefix: PathPrefix = PathPrefix.STRIP
    inject: bool = True
    resources: Resources = Resources()
    declared_state: DesiredState = DesiredState.RUNNING
    start_on: StartOn = StartOn.APPLY
    wake_from: DesiredState = DesiredState.STANDBY
    ttl: Ttl = Ttl()
    update: UpdatePolicy = UpdatePolicy.NEXT_START
    pinned: bool = False
    suspend: bool = False
    protect: bool = False
    renamed_from: str | None = None
    source: Source = Source("", 0)


@dataclass(frozen=True, slots=True)
class Override:
    """Another ceiling than the declared one, for a while."""

    state: DesiredState
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Intent:
    """What was last asked for, by whom, and since when."""

    desired: DesiredState
    source: IntentSource = IntentSource.SPEC
    at: datetime | None = None
    by: str = ""
    override: Override | None = None
    recover_requested: str | None = None


@dataclass(frozen=True, slots=True)
class Activity:
    """When somebody last worked in it, and how we know."""

    last_access_at: datetime | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class HomeContext:
    """What the controller remembers of homes.

    `restore_marker` is the restore it committed; `retired` are volumes that may go. `given_up` are
    homes that a person gave up while nobody found them: they may come back and hold what nothing
    else holds, so they are never removed, never used, and never forgotten. `found` are those of
    them that are there again.
    """

    restore_marker: str | None = None
    retired: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """What the controller observed and what it is doing."""

    phase: Phase = Phase.PENDING
    phase_changed_at: datetime | None = None
    operation: Operation = Operation.NONE
    op_started_at: datetime | None = None
    op_id: UUID | None = None
    op_progress: Mapping[str, object] = field(default_factory=dict)
    conditions: Mapping[ConditionName, Condition] = field(default_factory=dict)
    observed_at: datetime | None = None
    archive_key: str | None = None
    archive_bytes: int | None = None
    archive_sha256: str | None = None
    home_store_key: str | None = None
    home_generation: int = 0
    home_ctx: HomeContext = HomeContext()
    container_template: str | None = None
    error_reason: ErrorReason | None = None
    error_message: str | None = None
    error_count: int = 0
    retry_at: datetime | None = None
    observed_generation: int = 0
    deleted_at: datetime | None = None
    purged_at: datetime | None = None
    upstream: Upstream | None = None
    """Where the proxy reaches it, while it is RUNNING."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """One row, whole.

    `declaration` stays after its spec is removed (protection and the owner are kept in the
    database); `orphaned` then says that no spec declares it any more. `generation` moves with
    every change of the declaration. `template_digest` covers image, command, env, port, resources.
    `declared_at` is the time at which the declared state or the template last changed: a lowering
    that comes from git waits for people at most so long after it.
    """

    id: UUID
    declaration: Declaration
    intent: Intent
    status: Status = Status()
    activity: Activity = Activity()
    generation: int = 1
    template_digest: str = ""
    spec_revision: int | None = None
    orphaned: bool = False
    created_at: datetime | None = None
    declared_at: datetime | None = None

    @property
    def name(self) -> str:
        return self.declaration.name
