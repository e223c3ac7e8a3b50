"""${message}.

Why this revision exists: say it here in a sentence.
"""

from __future__ import annotations

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}

UPGRADE = """
"""


def upgrade() -> None:
    op.execute(UPGRADE)
