"""Webhooks: who is told, what is to be handed out to them, and what is on its way.

Written as SQL, like the first one, and compared with `codehub.store.tables` by a test.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"

# The loader's record of what the specs declare. One that comes back is a new one: it did not see
# what happened in between.
WEBHOOKS = """
CREATE TABLE webhooks (
    id uuid CONSTRAINT pk_webhooks PRIMARY KEY DEFAULT gen_random_uuid(),
    name text NOT NULL,
    url text NOT NULL,
    events jsonb NOT NULL DEFAULT '[]',
    secret text,
    since timestamptz NOT NULL DEFAULT now(),
    removed_at timestamptz
);
"""

# What happened and was not handed out yet. A cursor over the ids of the audit would pass by rows
# that commit after later ones; here a row is seen when it is there, and goes when it is done.
EVENTS = """
CREATE TABLE webhook_events (
    id bigserial CONSTRAINT pk_webhook_events PRIMARY KEY,
    event_id bigint,
    revision_id bigint,
    CONSTRAINT ck_webhook_events_what CHECK ((event_id IS NULL) <> (revision_id IS NULL))
);

CREATE FUNCTION keep_for_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM webhooks WHERE removed_at IS NULL) THEN
        INSERT INTO webhook_events (event_id, revision_id) VALUES (
            CASE TG_ARGV[0] WHEN 'event' THEN NEW.id END,
            CASE TG_ARGV[0] WHEN 'revision' THEN NEW.id END);
        PERFORM pg_notify('webhook_event', '');
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER webhook_event_moved AFTER INSERT ON workspace_events FOR EACH ROW
    WHEN (NEW.kind = 'expiring' OR NEW.kind = 'phase' AND NEW.new IN ('ERROR', 'ARCHIVED'))
    EXECUTE FUNCTION keep_for_webhooks('event');
CREATE TRIGGER webhook_event_failed AFTER INSERT ON spec_revisions FOR EACH ROW
    WHEN (NOT NEW.applied)
    EXECUTE FUNCTION keep_for_webhooks('revision');
"""

DELIVERIES = """
CREATE TABLE webhook_deliveries (
    id uuid CONSTRAINT pk_webhook_deliveries PRIMARY KEY DEFAULT gen_random_uuid(),
    webhook_id uuid NOT NULL
        CONSTRAINT fk_webhook_deliveries_webhook_id REFERENCES webhooks,
    kind text NOT NULL,
    payload jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0
        CONSTRAINT ck_webhook_deliveries_attempts CHECK (attempts >= 0),
    next_at timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz,
    failed_at timestamptz,
    last_status integer,
    last_error text NOT NULL DEFAULT '',
    CONSTRAINT ck_webhook_deliveries_end CHECK (delivered_at IS NULL OR failed_at IS NULL)
);
CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (webhook_id, attempts, next_at)
    WHERE delivered_at IS NULL AND failed_at IS NULL;
CREATE INDEX webhook_deliveries_of ON webhook_deliveries (webhook_id, created_at);
"""

# Specs were not asked to name a webhook before. The words of `events` were those of the audit; what
# has no counterpart stays, and matches nothing.
DECLARED = """
INSERT INTO webhooks (name, url, events, secret)
SELECT DISTINCT ON (hook ->> 'url')
    COALESCE(substring(hook ->> 'url' FROM '^https?://([^/?#]+)'), '?')
        || CASE WHEN place > 1 THEN '-' || place ELSE '' END,
    hook ->> 'url',
    (SELECT COALESCE(jsonb_agg(CASE WHEN word IN ('error', 'expiring')
        THEN 'workspace.' || word ELSE word END), '[]')
     FROM jsonb_array_elements_text(hook -> 'events') AS word),
    hook ->> 'secret'
FROM hub, jsonb_array_elements(COALESCE(spec -> 'webhooks', '[]'))
    WITH ORDINALITY AS h (hook, place)
ORDER BY hook ->> 'url', place
"""


def upgrade() -> None:
    for part in (WEBHOOKS, EVENTS, DELIVERIES, DECLARED):
        op.execute(part)
