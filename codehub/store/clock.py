"""The one clock: Postgres. Every decision about time compares with what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

NOW: Final = "SELECT now() AS now"


async def read_now(conn: AsyncConnection[DictRow]) -> datetime:
    """The server's time; within a transaction, that of its beginning."""
    moment: datetime = (await fetch(conn, NOW))[0]["now"]
    return moment
