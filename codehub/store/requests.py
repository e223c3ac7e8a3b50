"""Asking the leader: a row, a NOTIFY that it is there, and the leader's answer in the same row.

What only the leader may do, commands ask for and never do beside it. The trigger on the table tells
the leader at once; it also looks by itself now and then, so a lost hint costs a delay only.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg.types.json import Jsonb

from codehub.store.connect import translated
from codehub.store.fence import HOLDS, fenced

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.store.fence import Fence

LOOK_AGAIN: Final = 0.2
"""Seconds between two looks for the answer."""

ASK: Final = """
INSERT INTO leader_requests (kind, arguments, asked_by)
VALUES (%(kind)s, %(arguments)s, %(by)s) RETURNING id
"""

READ_OPEN: Final = """
SELECT id, kind, arguments, asked_by, asked_at FROM leader_requests
WHERE kind = %(kind)s AND done_at IS NULL ORDER BY id
"""

FINISH: Final = f"""
UPDATE leader_requests SET done_at = now(), result = %(result)s
WHERE id = %(id)s AND done_at IS NULL AND {HOLDS}
"""

READ_RESULT: Final = "SELECT result FROM leader_requests WHERE id = %(id)s AND done_at IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Request:
    """Something the leader is asked to do."""

    id: int
    kind: str
    arguments: Mapping[str, Any]
    asked_by: str
    asked_at: datetime


async def ask(
    conn: AsyncConnection[DictRow], kind: str, arguments: Mapping[str, Any], by: str
) -> int:
    """Leave a request for the leader; its number."""
    with translated():
        values = {"kind": kind, "arguments": Jsonb(dict(arguments)), "by": by}
        row = await (await conn.execute(ASK, values)).fetchone()
    assert row is not None  # an insert returns its row
    return int(row["id"])


async def open_requests(conn: AsyncConnection[DictRow], kind: str) -> tuple[Request, ...]:
    """What is asked for and not answered, in the order of asking."""
    with translated():
        rows = await (await conn.execute(READ_OPEN, {"kind": kind})).fetchall()
    return tuple(Request(**row) for row in rows)


async def finish(
    conn: AsyncConnection[DictRow], fence: Fence, request_id: int, result: Mapping[str, Any]
) -> None:
    """Answer a request; one that has its answer keeps it."""
    await fenced(conn, fence, FINISH, {"id": request_id, "result": Jsonb(dict(result))})


async def wait_for(
    conn: AsyncConnection[DictRow], request_id: int, seconds: float
) -> dict[str, Any] | None:
    """The answer, or None when there is none within so many seconds. The request stays."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        with translated():
            row = await (await conn.execute(READ_RESULT, {"id": request_id})).fetchone()
        if row is not None:
            return dict(row["result"])
        if loop.time() >= end:
            return None
        await asyncio.sleep(min(LOOK_AGAIN, max(0.0, end - loop.time())))
