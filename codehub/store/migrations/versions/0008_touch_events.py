"""One more kind of event: that somebody said they still work in a workspace.

Written as SQL, like the first one, and compared with `codehub.store.tables` by a test.
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"

KINDS = """
ALTER TABLE workspace_events DROP CONSTRAINT ck_workspace_events_kind;
ALTER TABLE workspace_events ADD CONSTRAINT ck_workspace_events_kind CHECK (kind IN (
    'declared', 'desired', 'phase', 'operation', 'error', 'override', 'recover', 'expiring',
    'stray', 'touch'));
"""


def upgrade() -> None:
    op.execute(KINDS)
