"""The tables as SQLModel classes: the one description that migrations are checked against.

At run time queries are plain SQL, so only tests and makers of migrations import this. The columns
of `workspaces` stand in the order of their one writer (spec loader, intent service, activity
sync, controller), and enum columns take their values from the model, so a new value without a
migration fails a test.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlmodel import Field, SQLModel

from codehub.model.access import AccessKind, Purpose
from codehub.model.events import EventKind
from codehub.model.people import Role
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import ActivityPolicy, PathPrefix, StartOn, UpdatePolicy
from codehub.store.fields import (
    due,
    flag,
    identity,
    index,
    json,
    moment,
    number,
    one_of,
    serial,
    session,
    user,
    words,
)

metadata = SQLModel.metadata
metadata.naming_convention = {
    "pk": "pk_%(table_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}

CEILINGS = (DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.ARCHIVED)


_LIVE = "deleted_at IS NULL"
_AT_REST = "phase = '{0}' AND operation = 'NONE' AND desired_state = '{0}' AND deleted_at IS NULL"
_RUNNING = _AT_REST.format("RUNNING")
_STANDBY = _AT_REST.format("STANDBY")
_OWN_STANDBY_TTL = f"{_RUNNING} AND standby_ttl_seconds IS NOT NULL"
_HUB_STANDBY_TTL = f"{_RUNNING} AND standby_ttl_seconds IS NULL"
_OWN_ARCHIVE_TTL = f"{_STANDBY} AND archive_ttl_seconds IS NOT NULL"
_HUB_ARCHIVE_TTL = f"{_STANDBY} AND archive_ttl_seconds IS NULL"
_MISMATCH = f"(phase <> desired_state OR operation <> 'NONE') AND {_LIVE}"
_COUNTED = f"(phase = 'RUNNING' OR desired_state = 'RUNNING') AND {_LIVE}"
_RETAINED = "deleted_at IS NOT NULL AND purged_at IS NULL"


class HubRow(SQLModel, table=True):
    """The hub's identity and what its spec says; there is one row at most."""

    __tablename__: ClassVar[Any] = "hub"
    __table_args__ = (Index("hub_is_one", text("(true)"), unique=True),)

    id: UUID = identity()
    name: str = words("hub")
    spec: dict[str, Any] = json()
    created_at: datetime = moment(now=True)


class UserRow(SQLModel, table=True):
    """Users are disabled, never removed: workspaces and the audit refer to them."""

    __tablename__: ClassVar[Any] = "users"
    __table_args__ = (
        UniqueConstraint("name", name="uq_users_name"),
        one_of("role", Role),
        CheckConstraint("max_running >= 0", name="max_running"),
    )

    id: UUID = identity()
    name: str = words()
    display_name: str = words("")
    role: str = words(Role.MEMBER.value)
    password_hash: str | None = words(null=True)
    max_running: int | None = number(null=True)
    disabled_at: datetime | None = moment(null=True)
    spec_source: str = words("")
    created_at: datetime = moment(now=True)


class SessionRow(SQLModel, table=True):
    """A browser's login. Only a hash of its token is kept."""

    __tablename__: ClassVar[Any] = "sessions"
    __table_args__ = (
        UniqueConstraint("token_hash", name="uq_sessions_token_hash"),
        CheckConstraint("(host = '') = (parent_id IS NULL)", name="host"),
        index("sessions_user", "user_id"),
        index("sessions_parent", "parent_id", where="parent_id IS NOT NULL"),
        index("sessions_expiry", "expires_at"),
    )

    id: UUID = identity()
    user_id: UUID = user()
    token_hash: str = words()
    address: str = words("")
    user_agent: str = words("")
    created_at: datetime = moment(now=True)
    last_seen_at: datetime | None = moment(null=True)
    expires_at: datetime = moment()
    revoked_at: datetime | None = moment(null=True)
    host: str = words("")
    parent_id: UUID | None = session()


class ApiTokenRow(SQLModel, table=True):
    """A token for programs: scoped and expiring. Only its hash is kept.

    `request_hash` is that of the `Idempotency-Key` it was made with.
    """

    __tablename__: ClassVar[Any] = "api_tokens"
    __table_args__ = (
        UniqueConstraint("token_hash", name="uq_api_tokens_token_hash"),
        index("api_tokens_name", "user_id", "name", unique=True, where="revoked_at IS NULL"),
        index(
            "api_tokens_request",
            "user_id",
            "request_hash",
            unique=True,
            where="request_hash IS NOT NULL",
        ),
    )

    id: UUID = identity()
    user_id: UUID = user()
    name: str = words()
    token_hash: str = words()
    scopes: list[str] = json("[]")
    created_at: datetime = moment(now=True)
    last_used_at: datetime | None = moment(null=True)
    expires_at: datetime | None = moment(null=True)
    revoked_at: datetime | None = moment(null=True)
    request_hash: str | None = words(null=True)


class SpecRevisionRow(SQLModel, table=True):
    """One load of a whole spec directory, applied or failed, with its documents."""

    __tablename__: ClassVar[Any] = "spec_revisions"
    __table_args__ = (index("spec_revisions_digest", "digest"),)

    id: int = serial()
    digest: str = words()
    directory: str = words("")
    git_commit: str | None = words(null=True)
    git_dirty: bool = flag()
    git_ref: str | None = words(null=True)
    source: str = words("")
    author: str = words("")
    created_at: datetime = moment(now=True)
    applied: bool = flag(True)
    problems: list[str] = json("[]")
    summary: dict[str, Any] = json()
    documents: list[dict[str, Any]] = json("[]")


class WorkspaceRow(SQLModel, table=True):
    """One workspace; rows are kept after deletion, until they are purged and beyond."""

    __tablename__: ClassVar[Any] = "workspaces"
    __table_args__ = (
        CheckConstraint("char_length(name) BETWEEN 1 AND 40", name="name"),
        CheckConstraint("port BETWEEN 1 AND 65535", name="port"),
        CheckConstraint(
            "(instance_backend, storage_backend) IN (('local-docker', 'docker-volume'),"
            " ('process', 'directory'), ('k8s', 'pvc'))",
            name="backends",
        ),
        CheckConstraint("standby_ttl_seconds >= 0", name="standby_ttl"),
        CheckConstraint("archive_ttl_seconds >= 0", name="archive_ttl"),
        CheckConstraint("busy_cpu >= 0", name="busy_cpu"),
        CheckConstraint("generation >= 1 AND observed_generation >= 0", name="generation"),
        CheckConstraint("home_generation >= 0 AND error_count >= 0", name="counters"),
        CheckConstraint("archive_bytes >= 0", name="archive_bytes"),
        CheckConstraint("(override_state IS NULL) = (override_until IS NULL)", name="override"),
        CheckConstraint("phase <> 'ERROR' OR operation = 'NONE'", name="error_is_idle"),
        CheckConstraint(
            "operation = 'NONE' OR (op_id IS NOT NULL AND op_started_at IS NOT NULL)",
            name="operation_is_claimed",
        ),
        CheckConstraint("purged_at IS NULL OR deleted_at IS NOT NULL", name="purged_is_deleted"),
        CheckConstraint("(upstream_host IS NULL) = (upstream_port IS NULL)", name="upstream"),
        CheckConstraint("upstream_port BETWEEN 1 AND 65535", name="upstream_port"),
        one_of("path_prefix", PathPrefix),
        one_of("activity_policy", ActivityPolicy),
        one_of("declared_state", CEILINGS),
        one_of("start_on", StartOn),
        one_of("update_policy", UpdatePolicy),
        one_of("wake_from", (DesiredState.STANDBY, DesiredState.ARCHIVED)),
        one_of("desired_state", DesiredState),
        one_of("desired_source", IntentSource),
        one_of("override_state", CEILINGS),
        one_of("phase", Phase),
        one_of("operation", Operation),
        one_of("error_reason", ErrorReason),
        index("workspaces_name", "name", unique=True, where=_LIVE),
        index("workspaces_owner", "owner_user_id", where=_LIVE),
        index("workspaces_standby_due", "standby_due_at", where=_OWN_STANDBY_TTL),
        index("workspaces_standby_due_by_hub", "standby_due_at", where=_HUB_STANDBY_TTL),
        index("workspaces_archive_due", "archive_due_at", where=_OWN_ARCHIVE_TTL),
        index("workspaces_archive_due_by_hub", "archive_due_at", where=_HUB_ARCHIVE_TTL),
        index("workspaces_reconcile", "phase", "desired_state", "operation", where=_MISMATCH),
        index("workspaces_operation", "operation", where=f"operation <> 'NONE' AND {_LIVE}"),
        index("workspaces_running", "owner_user_id", where=_COUNTED),
        index("workspaces_retention", "deleted_at", where=_RETAINED),
    )

    id: UUID = identity()
    created_at: datetime = moment(now=True)

    # spec loader
    name: str = words()
    owner_user_id: UUID = user()
    description: str = words("")
    memo: str = words("")
    labels: dict[str, str] = json()
    image_ref: str | None = words(null=True)
    instance_backend: str = words()
    storage_backend: str = words()
    command: list[str] = json("[]")
    env: dict[str, str] = json()
    secret_env: dict[str, str] = json()
    port: int = number(8080)
    resources: dict[str, Any] = json()
    path_prefix: str = words(PathPrefix.STRIP.value)
    template_digest: str = words("")
    standby_ttl_seconds: int | None = number(null=True)
    archive_ttl_seconds: int | None = number(null=True)
    ttl_policy: str | None = words(null=True)
    activity_policy: str = words(ActivityPolicy.AUTO.value)
    busy_cpu: int = number(25)
    inject: bool = flag(True)
    declared_state: str = words(DesiredState.RUNNING.value)
    declared_at: datetime | None = moment(null=True)
    start_on: str = words(StartOn.APPLY.value)
    update_policy: str = words(UpdatePolicy.NEXT_START.value)
    pinned: bool = flag()
    suspend: bool = flag()
    protect: bool = flag()
    wake_from: str = words(DesiredState.STANDBY.value)
    generation: int = number(1, big=True)
    spec_revision: int | None = Field(
        sa_column=Column(BigInteger, ForeignKey("spec_revisions.id"), nullable=True)
    )
    spec_source: str = words("")
    orphaned: bool = flag()

    # intent service
    desired_state: str = words(DesiredState.RUNNING.value)
    desired_source: str = words(IntentSource.SPEC.value)
    desired_at: datetime | None = moment(null=True)
    desired_by: str = words("")
    override_state: str | None = words(null=True)
    override_until: datetime | None = moment(null=True)
    override_reason: str | None = words(null=True)
    recover_requested: str | None = words(null=True)

    # activity sync
    last_access_at: datetime | None = moment(null=True)
    last_access_source: str | None = words(null=True)

    # controller
    conditions: dict[str, Any] = json()
    observed_at: datetime | None = moment(null=True)
    phase: str = words(Phase.PENDING.value)
    phase_changed_at: datetime | None = moment(null=True)
    operation: str = words(Operation.NONE.value)
    op_started_at: datetime | None = moment(null=True)
    op_id: UUID | None = Field(sa_column=Column(Uuid, nullable=True))
    op_progress: dict[str, Any] = json()
    archive_key: str | None = words(null=True)
    archive_bytes: int | None = number(null=True, big=True)
    archive_sha256: str | None = words(null=True)
    home_store_key: str | None = words(null=True)
    home_generation: int = number(0)
    home_ctx: dict[str, Any] = json()
    container_template: str | None = words(null=True)
    upstream_host: str | None = words(null=True)
    upstream_port: int | None = number(null=True)
    error_reason: str | None = words(null=True)
    error_message: str | None = words(null=True)
    error_count: int = number(0)
    retry_at: datetime | None = moment(null=True)
    observed_generation: int = number(0, big=True)
    deleted_at: datetime | None = moment(null=True)
    purged_at: datetime | None = moment(null=True)

    # computed by Postgres, for the TTL checks
    standby_due_at: datetime | None = due(
        "GREATEST(last_access_at, phase_changed_at)", "standby_ttl_seconds"
    )
    archive_due_at: datetime | None = due("phase_changed_at", "archive_ttl_seconds")


class WorkspaceEventRow(SQLModel, table=True):
    """The audit. Append-only: a trigger refuses everything else. It outlives what it tells of."""

    __tablename__: ClassVar[Any] = "workspace_events"
    __table_args__ = (
        one_of("kind", EventKind),
        index("workspace_events_of", "workspace_id", "id"),
    )

    id: int = serial()
    at: datetime = moment(now=True)
    workspace_id: UUID = Field(sa_column=Column(Uuid, nullable=False))
    workspace_name: str = words("")
    kind: str = words()
    old: str = words("")
    new: str = words("")
    source: str = words("")
    by: str = words("")
    reason: str = words("")


class GcCandidateRow(SQLModel, table=True):
    """An object that nothing refers to, remembered until it may be deleted."""

    __tablename__: ClassVar[Any] = "gc_candidates"
    __table_args__ = (CheckConstraint("cycles >= 1", name="cycles"),)

    object_key: str = Field(sa_column=Column(Text, primary_key=True))
    bytes: int | None = number(null=True, big=True)
    reason: str = words("")
    cycles: int = number(1)
    first_seen_at: datetime = moment(now=True)
    last_seen_at: datetime = moment(now=True)


class ArchiveOperationRow(SQLModel, table=True):
    """An operation under whose id archives of a workspace may lie; a trigger writes it."""

    __tablename__: ClassVar[Any] = "archive_operations"

    workspace_id: UUID = Field(sa_column=Column(Uuid, primary_key=True))
    op_id: str = Field(sa_column=Column(Text, primary_key=True))
    noted_at: datetime = moment(now=True)


class SystemLockRow(SQLModel, table=True):
    """Who leads, and the epoch that fences the writes of those who led before."""

    __tablename__: ClassVar[Any] = "system_locks"

    lock_name: str = Field(sa_column=Column(Text, primary_key=True))
    holder_id: str = words("")
    acquired_at: datetime = moment(now=True)
    epoch: int = number(0, big=True)


class ActivitySyncRow(SQLModel, table=True):
    """How far activity was read from Redis; there is one row at most."""

    __tablename__: ClassVar[Any] = "activity_sync"
    __table_args__ = (CheckConstraint("is_one", name="one"),)

    is_one: bool = Field(sa_column=Column(Boolean, primary_key=True, server_default=text("true")))
    drained_at: datetime | None = moment(null=True)
    blind_until: datetime | None = moment(null=True)
    sentinel: str = words("")


class LeaderRequestRow(SQLModel, table=True):
    """Something that only the leader may do, asked for by somebody who may not lead."""

    __tablename__: ClassVar[Any] = "leader_requests"
    __table_args__ = (index("leader_requests_open", "id", where="done_at IS NULL"),)

    id: int = serial()
    kind: str = words()
    arguments: dict[str, Any] = json()
    asked_by: str = words("")
    asked_at: datetime = moment(now=True)
    done_at: datetime | None = moment(null=True)
    result: dict[str, Any] = json()


class LoginCodeRow(SQLModel, table=True):
    """A code that opens one session, once. Only its hash is kept."""

    __tablename__: ClassVar[Any] = "login_codes"
    __table_args__ = (
        one_of("purpose", Purpose),
        CheckConstraint(
            "(purpose = 'handover') = (session_id IS NOT NULL)"
            " AND (purpose = 'handover') = (host <> '')",
            name="binding",
        ),
        index("login_codes_user", "user_id"),
        index("login_codes_session", "session_id"),
        index("login_codes_expiry", "expires_at"),
    )

    code_hash: str = Field(sa_column=Column(Text, primary_key=True))
    purpose: str = words()
    user_id: UUID = user()
    session_id: UUID | None = session()
    host: str = words("")
    created_at: datetime = moment(now=True)
    expires_at: datetime = moment()


class LoginFailureRow(SQLModel, table=True):
    """How often logins failed lately, for an account, an address, or both together."""

    __tablename__: ClassVar[Any] = "login_failures"
    __table_args__ = (
        CheckConstraint("failures >= 0", name="failures"),
        index("login_failures_age", "last_at"),
    )

    key: str = Field(sa_column=Column(Text, primary_key=True))
    failures: float = Field(sa_column=Column(Double, nullable=False, server_default=text("0")))
    last_at: datetime = moment(now=True)


class AuthKeyRow(SQLModel, table=True):
    """What the hub signs with."""

    __tablename__: ClassVar[Any] = "auth_keys"

    name: str = Field(sa_column=Column(Text, primary_key=True))
    secret: str = words()
    created_at: datetime = moment(now=True)


class AccessEventRow(SQLModel, table=True):
    """The audit of logins and tokens. Append-only, as that of the workspaces is."""

    __tablename__: ClassVar[Any] = "access_events"
    __table_args__ = (
        one_of("kind", AccessKind),
        index("access_events_of", "user_name", "id"),
    )

    id: int = serial()
    at: datetime = moment(now=True)
    kind: str = words()
    user_name: str = words("")
    by: str = words("")
    address: str = words("")
    agent: str = words("")
    reason: str = words("")


class WebhookRow(SQLModel, table=True):
    """A webhook that the specs declare, or declared: `removed_at` once they do no more."""

    __tablename__: ClassVar[Any] = "webhooks"

    id: UUID = identity()
    name: str = words()
    url: str = words()
    events: list[str] = json("[]")
    secret: str | None = words(null=True)
    since: datetime = moment(now=True)
    removed_at: datetime | None = moment(null=True)


class WebhookEventRow(SQLModel, table=True):
    """Something that happened and is not handed out to webhooks yet; a trigger writes it."""

    __tablename__: ClassVar[Any] = "webhook_events"
    __table_args__ = (CheckConstraint("(event_id IS NULL) <> (revision_id IS NULL)", name="what"),)

    id: int = serial()
    event_id: int | None = number(null=True, big=True)
    revision_id: int | None = number(null=True, big=True)


class WebhookDeliveryRow(SQLModel, table=True):
    """One notice on its way to one webhook, or how that ended."""

    __tablename__: ClassVar[Any] = "webhook_deliveries"
    __table_args__ = (
        CheckConstraint("attempts >= 0", name="attempts"),
        CheckConstraint("delivered_at IS NULL OR failed_at IS NULL", name="end"),
        index(
            "webhook_deliveries_pending",
            "webhook_id",
            "attempts",
            "next_at",
            where="delivered_at IS NULL AND failed_at IS NULL",
        ),
        index("webhook_deliveries_of", "webhook_id", "created_at"),
    )

    id: UUID = identity()
    webhook_id: UUID = Field(sa_column=Column(Uuid, ForeignKey("webhooks.id"), nullable=False))
    kind: str = words()
    payload: dict[str, Any] = json()
    created_at: datetime = moment(now=True)
    expires_at: datetime = moment()
    attempts: int = number(0)
    next_at: datetime = moment(now=True)
    delivered_at: datetime | None = moment(null=True)
    failed_at: datetime | None = moment(null=True)
    last_status: int | None = number(null=True)
    last_error: str = words("")
