"""What the proxy needs: where workspaces answer, and who is let in.

Written as SQL, like the first one, and compared with `codehub.store.tables` by a test.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

# The controller's record; nothing else ever names an upstream.
UPSTREAM = """
ALTER TABLE workspaces
    ADD COLUMN upstream_host text,
    ADD COLUMN upstream_port integer,
    ADD CONSTRAINT ck_workspaces_upstream CHECK (
        (upstream_host IS NULL) = (upstream_port IS NULL)),
    ADD CONSTRAINT ck_workspaces_upstream_port CHECK (upstream_port BETWEEN 1 AND 65535);
"""

# Who follows phases follows the way there too: a workspace may come back on another port.
ROUTES = """
DROP TRIGGER ws_sse ON workspaces;
CREATE TRIGGER ws_sse AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.phase, OLD.operation, OLD.op_progress, OLD.error_reason, OLD.name, OLD.description,
           OLD.memo, OLD.upstream_host, OLD.upstream_port, OLD.owner_user_id, OLD.path_prefix,
           OLD.inject, OLD.activity_policy, OLD.standby_ttl_seconds)
          IS DISTINCT FROM
          (NEW.phase, NEW.operation, NEW.op_progress, NEW.error_reason, NEW.name, NEW.description,
           NEW.memo, NEW.upstream_host, NEW.upstream_port, NEW.owner_user_id, NEW.path_prefix,
           NEW.inject, NEW.activity_policy, NEW.standby_ttl_seconds))
    EXECUTE FUNCTION tell_of_workspace('ws_sse');
"""

# A session with a host is good on that host alone, and ends with the one it was handed over from.
SESSIONS = """
ALTER TABLE sessions
    ADD COLUMN host text NOT NULL DEFAULT '',
    ADD COLUMN parent_id uuid
        CONSTRAINT fk_sessions_parent_id REFERENCES sessions ON DELETE CASCADE,
    ADD CONSTRAINT ck_sessions_host CHECK ((host = '') = (parent_id IS NULL));
CREATE INDEX sessions_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sessions_expiry ON sessions (expires_at);
"""

# A code is deleted by the one who redeems it: whoever deletes the row has it, nobody else can.
CODES = """
CREATE TABLE login_codes (
    code_hash text CONSTRAINT pk_login_codes PRIMARY KEY,
    purpose text NOT NULL
        CONSTRAINT ck_login_codes_purpose CHECK (purpose IN ('link', 'handover')),
    user_id uuid NOT NULL CONSTRAINT fk_login_codes_user_id REFERENCES users,
    session_id uuid CONSTRAINT fk_login_codes_session_id REFERENCES sessions ON DELETE CASCADE,
    host text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CONSTRAINT ck_login_codes_binding CHECK (
        (purpose = 'handover') = (session_id IS NOT NULL)
        AND (purpose = 'handover') = (host <> ''))
);
CREATE INDEX login_codes_user ON login_codes (user_id);
CREATE INDEX login_codes_session ON login_codes (session_id);
CREATE INDEX login_codes_expiry ON login_codes (expires_at);
"""

# One row for each account, address, and pair of both that somebody failed with lately.
FAILURES = """
CREATE TABLE login_failures (
    key text CONSTRAINT pk_login_failures PRIMARY KEY,
    failures double precision NOT NULL DEFAULT 0
        CONSTRAINT ck_login_failures_failures CHECK (failures >= 0),
    last_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX login_failures_age ON login_failures (last_at);
"""

# What the hub signs with, made by whichever process needs it first.
KEYS = """
CREATE TABLE auth_keys (
    name text CONSTRAINT pk_auth_keys PRIMARY KEY,
    secret text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
"""

AUDIT = """
CREATE TABLE access_events (
    id bigserial CONSTRAINT pk_access_events PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    kind text NOT NULL CONSTRAINT ck_access_events_kind CHECK (kind IN (
        'login', 'failed', 'logout', 'link', 'token_created', 'token_revoked')),
    user_name text NOT NULL DEFAULT '',
    by text NOT NULL DEFAULT '',
    address text NOT NULL DEFAULT '',
    agent text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT ''
);
CREATE INDEX access_events_of ON access_events (user_name, id);

CREATE FUNCTION access_events_are_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'access_events is append-only' USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER access_events_final
    BEFORE UPDATE OR DELETE OR TRUNCATE ON access_events
    FOR EACH STATEMENT EXECUTE FUNCTION access_events_are_final();
"""

# In the database, so that no writer of users can forget it: another password, or being disabled,
# ends what the old one let in.
ENDING = """
CREATE FUNCTION end_logins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE sessions SET revoked_at = now() WHERE id IN (
        SELECT id FROM sessions WHERE user_id = NEW.id AND revoked_at IS NULL
        ORDER BY id FOR UPDATE);
    DELETE FROM login_codes WHERE user_id = NEW.id;
    RETURN NULL;
END $$;

CREATE TRIGGER users_end_logins AFTER UPDATE ON users FOR EACH ROW
    WHEN (OLD.password_hash IS DISTINCT FROM NEW.password_hash
          OR OLD.disabled_at IS NULL AND NEW.disabled_at IS NOT NULL)
    EXECUTE FUNCTION end_logins();
"""

# What every proxy keeps in memory must go when it is no longer so. Ids only, and what they are of.
NOTIFY = """
CREATE FUNCTION tell_of_access() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('access', json_build_object(
        TG_ARGV[0], CASE TG_OP WHEN 'DELETE' THEN OLD.id ELSE NEW.id END)::text);
    RETURN NULL;
END $$;

CREATE TRIGGER access_session AFTER UPDATE ON sessions FOR EACH ROW
    WHEN ((OLD.revoked_at, OLD.expires_at) IS DISTINCT FROM (NEW.revoked_at, NEW.expires_at))
    EXECUTE FUNCTION tell_of_access('session');
CREATE TRIGGER access_session_gone AFTER DELETE ON sessions
    FOR EACH ROW EXECUTE FUNCTION tell_of_access('session');

CREATE TRIGGER access_token AFTER UPDATE ON api_tokens FOR EACH ROW
    WHEN ((OLD.revoked_at, OLD.expires_at, OLD.scopes)
          IS DISTINCT FROM (NEW.revoked_at, NEW.expires_at, NEW.scopes))
    EXECUTE FUNCTION tell_of_access('token');
CREATE TRIGGER access_token_gone AFTER DELETE ON api_tokens
    FOR EACH ROW EXECUTE FUNCTION tell_of_access('token');

CREATE TRIGGER access_user_new AFTER INSERT ON users
    FOR EACH ROW EXECUTE FUNCTION tell_of_access('user');
CREATE TRIGGER access_user AFTER UPDATE ON users FOR EACH ROW
    WHEN ((OLD.name, OLD.role, OLD.disabled_at) IS DISTINCT FROM
          (NEW.name, NEW.role, NEW.disabled_at))
    EXECUTE FUNCTION tell_of_access('user');
"""


def upgrade() -> None:
    for part in (UPSTREAM, ROUTES, SESSIONS, CODES, FAILURES, KEYS, AUDIT, ENDING, NOTIFY):
        op.execute(part)
