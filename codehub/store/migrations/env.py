"""Alembic's entry point: runs the migrations on the connection that `schema.upgrade` hands over.

There is no alembic.ini and no other way in, so the advisory lock is always held. Migrations are
written by hand in SQL and need no metadata; tests compare their result with the tables.
"""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
