"""One more kind of event: that a volume which belonged to nothing was removed.

Written as SQL, like the first one, and compared with `codehub.store.tables` by a test.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"

KINDS = """
ALTER TABLE workspace_events DROP CONSTRAINT ck_workspace_events_kind;
ALTER TABLE workspace_events ADD CONSTRAINT ck_workspace_events_kind CHECK (kind IN (
    'declared', 'desired', 'phase', 'operation', 'error', 'override', 'recover', 'expiring',
    'stray'));
"""


def upgrade() -> None:
    op.execute(KINDS)
