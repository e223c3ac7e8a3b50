"""The first schema: all tables, their checks and indexes, and the triggers that tell of changes.

Written as SQL, because it is read more often than it is written; a test compares the result with
`codehub.store.tables`. There is no way back down: a backup is the way back.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

PEOPLE = """
CREATE TABLE hub (
    id uuid CONSTRAINT pk_hub PRIMARY KEY DEFAULT gen_random_uuid(),
    name text NOT NULL DEFAULT 'hub',
    spec jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX hub_is_one ON hub ((true));

CREATE TABLE users (
    id uuid CONSTRAINT pk_users PRIMARY KEY DEFAULT gen_random_uuid(),
    name text NOT NULL CONSTRAINT uq_users_name UNIQUE,
    display_name text NOT NULL DEFAULT '',
    role text NOT NULL DEFAULT 'member'
        CONSTRAINT ck_users_role CHECK (role IN ('member', 'admin')),
    password_hash text,
    max_running integer CONSTRAINT ck_users_max_running CHECK (max_running >= 0),
    disabled_at timestamptz,
    spec_source text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE sessions (
    id uuid CONSTRAINT pk_sessions PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id uuid NOT NULL CONSTRAINT fk_sessions_user_id REFERENCES users,
    token_hash text NOT NULL CONSTRAINT uq_sessions_token_hash UNIQUE,
    address text NOT NULL DEFAULT '',
    user_agent text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE INDEX sessions_user ON sessions (user_id);

CREATE TABLE api_tokens (
    id uuid CONSTRAINT pk_api_tokens PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id uuid NOT NULL CONSTRAINT fk_api_tokens_user_id REFERENCES users,
    name text NOT NULL,
    token_hash text NOT NULL CONSTRAINT uq_api_tokens_token_hash UNIQUE,
    scopes jsonb NOT NULL DEFAULT '[]',
    created_at timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz
);
CREATE UNIQUE INDEX api_tokens_name ON api_tokens (user_id, name) WHERE revoked_at IS NULL;
"""

REVISIONS = """
CREATE TABLE spec_revisions (
    id bigserial CONSTRAINT pk_spec_revisions PRIMARY KEY,
    digest text NOT NULL,
    directory text NOT NULL DEFAULT '',
    git_commit text,
    git_dirty boolean NOT NULL DEFAULT false,
    git_ref text,
    source text NOT NULL DEFAULT '',
    author text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    applied boolean NOT NULL DEFAULT true,
    problems jsonb NOT NULL DEFAULT '[]',
    summary jsonb NOT NULL DEFAULT '{}',
    documents jsonb NOT NULL DEFAULT '[]'
);
CREATE INDEX spec_revisions_digest ON spec_revisions (digest);
"""

WORKSPACES = """
CREATE TABLE workspaces (
    id uuid CONSTRAINT pk_workspaces PRIMARY KEY DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT now(),

    -- spec loader
    name text NOT NULL,
    owner_user_id uuid NOT NULL CONSTRAINT fk_workspaces_owner_user_id REFERENCES users,
    description text NOT NULL DEFAULT '',
    memo text NOT NULL DEFAULT '',
    labels jsonb NOT NULL DEFAULT '{}',
    image_ref text,
    instance_backend text NOT NULL,
    storage_backend text NOT NULL,
    command jsonb NOT NULL DEFAULT '[]',
    env jsonb NOT NULL DEFAULT '{}',
    secret_env jsonb NOT NULL DEFAULT '{}',
    port integer NOT NULL DEFAULT 8080,
    resources jsonb NOT NULL DEFAULT '{}',
    path_prefix text NOT NULL DEFAULT 'strip',
    template_digest text NOT NULL DEFAULT '',
    standby_ttl_seconds integer,
    archive_ttl_seconds integer,
    ttl_policy text,
    activity_policy text NOT NULL DEFAULT 'auto',
    busy_cpu integer NOT NULL DEFAULT 25,
    inject boolean NOT NULL DEFAULT true,
    declared_state text NOT NULL DEFAULT 'RUNNING',
    declared_at timestamptz,
    start_on text NOT NULL DEFAULT 'apply',
    update_policy text NOT NULL DEFAULT 'nextStart',
    pinned boolean NOT NULL DEFAULT false,
    suspend boolean NOT NULL DEFAULT false,
    protect boolean NOT NULL DEFAULT false,
    wake_from text NOT NULL DEFAULT 'STANDBY',
    generation bigint NOT NULL DEFAULT 1,
    spec_revision bigint CONSTRAINT fk_workspaces_spec_revision REFERENCES spec_revisions,
    spec_source text NOT NULL DEFAULT '',
    orphaned boolean NOT NULL DEFAULT false,

    -- intent service
    desired_state text NOT NULL DEFAULT 'RUNNING',
    desired_source text NOT NULL DEFAULT 'spec',
    desired_at timestamptz,
    desired_by text NOT NULL DEFAULT '',
    override_state text,
    override_until timestamptz,
    override_reason text,
    recover_requested text,

    -- activity sync
    last_access_at timestamptz,
    last_access_source text,

    -- controller
    conditions jsonb NOT NULL DEFAULT '{}',
    observed_at timestamptz,
    phase text NOT NULL DEFAULT 'PENDING',
    phase_changed_at timestamptz,
    operation text NOT NULL DEFAULT 'NONE',
    op_started_at timestamptz,
    op_id uuid,
    op_progress jsonb NOT NULL DEFAULT '{}',
    archive_key text,
    archive_bytes bigint,
    archive_sha256 text,
    home_store_key text,
    home_generation integer NOT NULL DEFAULT 0,
    home_ctx jsonb NOT NULL DEFAULT '{}',
    container_template text,
    error_reason text,
    error_message text,
    error_count integer NOT NULL DEFAULT 0,
    retry_at timestamptz,
    observed_generation bigint NOT NULL DEFAULT 0,
    deleted_at timestamptz,
    purged_at timestamptz,

    -- Immutable only in UTC: timestamptz + interval depends on the session's time zone.
    standby_due_at timestamptz GENERATED ALWAYS AS (
        CASE WHEN standby_ttl_seconds = 0 THEN NULL ELSE
            ((GREATEST(last_access_at, phase_changed_at) AT TIME ZONE 'UTC')
             + COALESCE(standby_ttl_seconds, 0) * interval '1 second') AT TIME ZONE 'UTC' END
    ) STORED,
    archive_due_at timestamptz GENERATED ALWAYS AS (
        CASE WHEN archive_ttl_seconds = 0 THEN NULL ELSE
            ((phase_changed_at AT TIME ZONE 'UTC')
             + COALESCE(archive_ttl_seconds, 0) * interval '1 second') AT TIME ZONE 'UTC' END
    ) STORED,

    CONSTRAINT ck_workspaces_name CHECK (char_length(name) BETWEEN 1 AND 40),
    CONSTRAINT ck_workspaces_port CHECK (port BETWEEN 1 AND 65535),
    CONSTRAINT ck_workspaces_backends CHECK ((instance_backend, storage_backend) IN (
        ('local-docker', 'docker-volume'), ('process', 'directory'), ('k8s', 'pvc'))),
    CONSTRAINT ck_workspaces_standby_ttl CHECK (standby_ttl_seconds >= 0),
    CONSTRAINT ck_workspaces_archive_ttl CHECK (archive_ttl_seconds >= 0),
    CONSTRAINT ck_workspaces_busy_cpu CHECK (busy_cpu >= 0),
    CONSTRAINT ck_workspaces_generation CHECK (generation >= 1 AND observed_generation >= 0),
    CONSTRAINT ck_workspaces_counters CHECK (home_generation >= 0 AND error_count >= 0),
    CONSTRAINT ck_workspaces_archive_bytes CHECK (archive_bytes >= 0),
    CONSTRAINT ck_workspaces_override CHECK (
        (override_state IS NULL) = (override_until IS NULL)),
    CONSTRAINT ck_workspaces_error_is_idle CHECK (phase <> 'ERROR' OR operation = 'NONE'),
    CONSTRAINT ck_workspaces_operation_is_claimed CHECK (
        operation = 'NONE' OR (op_id IS NOT NULL AND op_started_at IS NOT NULL)),
    CONSTRAINT ck_workspaces_purged_is_deleted CHECK (
        purged_at IS NULL OR deleted_at IS NOT NULL),
    CONSTRAINT ck_workspaces_path_prefix CHECK (path_prefix IN ('strip', 'keep')),
    CONSTRAINT ck_workspaces_activity_policy CHECK (
        activity_policy IN ('auto', 'traffic', 'connections')),
    CONSTRAINT ck_workspaces_declared_state CHECK (
        declared_state IN ('RUNNING', 'STANDBY', 'ARCHIVED')),
    CONSTRAINT ck_workspaces_start_on CHECK (start_on IN ('apply', 'visit')),
    CONSTRAINT ck_workspaces_update_policy CHECK (update_policy IN ('nextStart', 'immediate')),
    CONSTRAINT ck_workspaces_wake_from CHECK (wake_from IN ('STANDBY', 'ARCHIVED')),
    CONSTRAINT ck_workspaces_desired_state CHECK (
        desired_state IN ('RUNNING', 'STANDBY', 'ARCHIVED', 'DELETED')),
    CONSTRAINT ck_workspaces_desired_source CHECK (
        desired_source IN ('spec', 'ttl', 'visit', 'api', 'cli')),
    CONSTRAINT ck_workspaces_override_state CHECK (
        override_state IN ('RUNNING', 'STANDBY', 'ARCHIVED')),
    CONSTRAINT ck_workspaces_phase CHECK (phase IN (
        'PENDING', 'ARCHIVED', 'STANDBY', 'RUNNING', 'ERROR', 'DELETING', 'DELETED')),
    CONSTRAINT ck_workspaces_operation CHECK (operation IN (
        'NONE', 'PROVISIONING', 'CREATE_EMPTY_ARCHIVE', 'RESTORING', 'STARTING', 'STOPPING',
        'ARCHIVING', 'DELETING')),
    CONSTRAINT ck_workspaces_error_reason CHECK (error_reason IN (
        'Timeout', 'DataLost', 'ImagePullFailed', 'ContainerWithoutVolume', 'ArchiveCorrupted',
        'ActionFailed', 'RetryExceeded', 'Unreachable'))
);
"""

INDEXES = """
CREATE UNIQUE INDEX workspaces_name ON workspaces (name) WHERE deleted_at IS NULL;
CREATE INDEX workspaces_owner ON workspaces (owner_user_id) WHERE deleted_at IS NULL;

-- A TTL check is an OR of two ranges: rows with a TTL of their own, due at standby_due_at, and
-- rows under the hub's TTL, whose standby_due_at is the base that the setting is added to.
CREATE INDEX workspaces_standby_due ON workspaces (standby_due_at)
    WHERE phase = 'RUNNING' AND operation = 'NONE' AND desired_state = 'RUNNING'
    AND deleted_at IS NULL AND standby_ttl_seconds IS NOT NULL;
CREATE INDEX workspaces_standby_due_by_hub ON workspaces (standby_due_at)
    WHERE phase = 'RUNNING' AND operation = 'NONE' AND desired_state = 'RUNNING'
    AND deleted_at IS NULL AND standby_ttl_seconds IS NULL;
CREATE INDEX workspaces_archive_due ON workspaces (archive_due_at)
    WHERE phase = 'STANDBY' AND operation = 'NONE' AND desired_state = 'STANDBY'
    AND deleted_at IS NULL AND archive_ttl_seconds IS NOT NULL;
CREATE INDEX workspaces_archive_due_by_hub ON workspaces (archive_due_at)
    WHERE phase = 'STANDBY' AND operation = 'NONE' AND desired_state = 'STANDBY'
    AND deleted_at IS NULL AND archive_ttl_seconds IS NULL;

CREATE INDEX workspaces_reconcile ON workspaces (phase, desired_state, operation)
    WHERE (phase <> desired_state OR operation <> 'NONE') AND deleted_at IS NULL;
CREATE INDEX workspaces_operation ON workspaces (operation)
    WHERE operation <> 'NONE' AND deleted_at IS NULL;
CREATE INDEX workspaces_running ON workspaces (owner_user_id)
    WHERE (phase = 'RUNNING' OR desired_state = 'RUNNING') AND deleted_at IS NULL;
CREATE INDEX workspaces_retention ON workspaces (deleted_at)
    WHERE deleted_at IS NOT NULL AND purged_at IS NULL;
"""

RECORDS = """
CREATE TABLE workspace_events (
    id bigserial CONSTRAINT pk_workspace_events PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    workspace_id uuid NOT NULL,
    workspace_name text NOT NULL DEFAULT '',
    kind text NOT NULL CONSTRAINT ck_workspace_events_kind CHECK (kind IN (
        'declared', 'desired', 'phase', 'operation', 'error', 'override', 'recover', 'expiring')),
    old text NOT NULL DEFAULT '',
    new text NOT NULL DEFAULT '',
    source text NOT NULL DEFAULT '',
    by text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT ''
);
CREATE INDEX workspace_events_of ON workspace_events (workspace_id, id);

CREATE TABLE gc_candidates (
    object_key text CONSTRAINT pk_gc_candidates PRIMARY KEY,
    bytes bigint,
    reason text NOT NULL DEFAULT '',
    cycles integer NOT NULL DEFAULT 1 CONSTRAINT ck_gc_candidates_cycles CHECK (cycles >= 1),
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE system_locks (
    lock_name text CONSTRAINT pk_system_locks PRIMARY KEY,
    holder_id text NOT NULL DEFAULT '',
    acquired_at timestamptz NOT NULL DEFAULT now(),
    epoch bigint NOT NULL DEFAULT 0
);
"""

APPEND_ONLY = """
CREATE FUNCTION workspace_events_are_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'workspace_events is append-only' USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER workspace_events_final
    BEFORE UPDATE OR DELETE OR TRUNCATE ON workspace_events
    FOR EACH STATEMENT EXECUTE FUNCTION workspace_events_are_final();
"""

# The channel is the trigger's argument; ids only, since NOTIFY holds 8000 bytes.
NOTIFY = """
CREATE FUNCTION tell_of_workspace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_ARGV[0], json_build_object(
        'id', NEW.id, 'user_id', NEW.owner_user_id)::text);
    RETURN NULL;
END $$;

CREATE TRIGGER ws_sse_new AFTER INSERT ON workspaces
    FOR EACH ROW EXECUTE FUNCTION tell_of_workspace('ws_sse');
CREATE TRIGGER ws_sse AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.phase, OLD.operation, OLD.op_progress, OLD.error_reason, OLD.name, OLD.description,
           OLD.memo)
          IS DISTINCT FROM
          (NEW.phase, NEW.operation, NEW.op_progress, NEW.error_reason, NEW.name, NEW.description,
           NEW.memo))
    EXECUTE FUNCTION tell_of_workspace('ws_sse');

CREATE TRIGGER ws_wake_new AFTER INSERT ON workspaces
    FOR EACH ROW EXECUTE FUNCTION tell_of_workspace('ws_wake');
CREATE TRIGGER ws_wake AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.desired_state, OLD.declared_state, OLD.override_state, OLD.override_until,
           OLD.recover_requested)
          IS DISTINCT FROM
          (NEW.desired_state, NEW.declared_state, NEW.override_state, NEW.override_until,
           NEW.recover_requested))
    EXECUTE FUNCTION tell_of_workspace('ws_wake');

CREATE TRIGGER ws_deleted AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL)
    EXECUTE FUNCTION tell_of_workspace('ws_deleted');
"""


def upgrade() -> None:
    for part in (PEOPLE, REVISIONS, WORKSPACES, INDEXES, RECORDS, APPEND_ONLY, NOTIFY):
        op.execute(part)
