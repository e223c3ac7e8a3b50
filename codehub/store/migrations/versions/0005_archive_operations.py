"""The operations that archives lie under, so that the collector knows what it has no record of.

Written as SQL, like the first one, and compared with `codehub.store.tables` by a test.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"

# As text: an archive key that is none of ours must not keep an archive from being recorded.
OPERATIONS = """
CREATE TABLE archive_operations (
    workspace_id uuid,
    op_id text,
    noted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_archive_operations PRIMARY KEY (workspace_id, op_id)
);
"""

# Within the statement that claims or records, so there is no archive whose operation was not noted
# first. An import takes over archives of operations that another database claimed.
NOTES = """
CREATE FUNCTION note_archive_operation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO archive_operations (workspace_id, op_id)
    SELECT NEW.id, op_id FROM (VALUES
        (CASE WHEN NEW.operation IN ('ARCHIVING', 'CREATE_EMPTY_ARCHIVE')
            THEN NEW.op_id::text END),
        (NULLIF(split_part(NEW.archive_key, '/', 3), ''))
    ) AS named (op_id)
    WHERE op_id IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER archive_operation_new AFTER INSERT ON workspaces FOR EACH ROW
    WHEN (NEW.op_id IS NOT NULL OR NEW.archive_key IS NOT NULL)
    EXECUTE FUNCTION note_archive_operation();
CREATE TRIGGER archive_operation AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((NEW.op_id, NEW.archive_key) IS DISTINCT FROM (OLD.op_id, OLD.archive_key))
    EXECUTE FUNCTION note_archive_operation();
"""

KNOWN = """
INSERT INTO archive_operations (workspace_id, op_id)
SELECT id, split_part(archive_key, '/', 3) FROM workspaces
WHERE split_part(archive_key, '/', 3) <> ''
UNION
SELECT id, op_id::text FROM workspaces WHERE op_id IS NOT NULL
"""


def upgrade() -> None:
    for part in (OPERATIONS, NOTES, KNOWN):
        op.execute(part)
