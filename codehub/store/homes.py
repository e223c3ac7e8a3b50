"""Which runtimes hold homes, as far as the database knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.store.rows import BACKENDS
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Runtime

HOLDS_HOMES: Final = """
SELECT bool_or(home_store_key IS NOT NULL) AS holds
FROM workspaces WHERE instance_backend = %(backend)s AND purged_at IS NULL
"""


async def holds_homes(conn: AsyncConnection[DictRow], runtime: Runtime) -> bool | None:
    """Whether a home is recorded there; None when no workspace is for this runtime.

    Those of deleted workspaces count: they can still be wanted back.
    """
    backend, _ = BACKENDS[runtime]
    rows = await fetch(conn, HOLDS_HOMES, {"backend": backend})
    holds: bool | None = rows[0]["holds"]
    return holds
