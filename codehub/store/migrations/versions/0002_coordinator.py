"""What the coordinator keeps: how far activity was read, and what the leader is asked to do.

Written as SQL, like the first one, and compared with `codehub.store.tables` by a test.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

# One row. A leader that takes over must know of a blind time that another one saw.
ACTIVITY = """
CREATE TABLE activity_sync (
    is_one boolean CONSTRAINT pk_activity_sync PRIMARY KEY DEFAULT true
        CONSTRAINT ck_activity_sync_one CHECK (is_one),
    drained_at timestamptz,
    blind_until timestamptz,
    sentinel text NOT NULL DEFAULT ''
);
"""

REQUESTS = """
CREATE TABLE leader_requests (
    id bigserial CONSTRAINT pk_leader_requests PRIMARY KEY,
    kind text NOT NULL,
    arguments jsonb NOT NULL DEFAULT '{}',
    asked_by text NOT NULL DEFAULT '',
    asked_at timestamptz NOT NULL DEFAULT now(),
    done_at timestamptz,
    result jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX leader_requests_open ON leader_requests (id) WHERE done_at IS NULL;

CREATE FUNCTION tell_of_request() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('leader_request', NEW.id::text);
    RETURN NULL;
END $$;

CREATE TRIGGER leader_request_new AFTER INSERT ON leader_requests
    FOR EACH ROW EXECUTE FUNCTION tell_of_request();
"""


def upgrade() -> None:
    for part in (ACTIVITY, REQUESTS):
        op.execute(part)
