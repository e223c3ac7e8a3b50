"""What Postgres tells us unasked: LISTEN and NOTIFY.

A connection over which nothing comes looks the same as a dead one, so it is asked now and then.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg import sql

from codehub.store.connect import translated
from codehub.store.session import ask

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

WAKE: Final = 5.0
"""Seconds between two questions whether the connection is still there."""
PATIENCE: Final = 5.0
"""Seconds to wait for the answer."""


@dataclass(frozen=True, slots=True)
class Notification:
    channel: str
    payload: str


async def notifications(
    conn: AsyncConnection[DictRow], channels: Sequence[str]
) -> AsyncGenerator[Notification, None]:
    """All that is told on these channels from the moment this returns; close it when done.

    It ends only by raising Unreachable, when the connection is lost. The connection is its alone.
    """
    for channel in channels:
        await ask(
            conn, conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel))), PATIENCE
        )
    return _heard(conn)


async def _heard(conn: AsyncConnection[DictRow]) -> AsyncGenerator[Notification, None]:
    while True:
        with translated():
            async with aclosing(conn.notifies(timeout=WAKE)) as heard:
                async for each in heard:
                    yield Notification(each.channel, each.payload)
        # What arrives together with the answer is kept by the driver for the next round.
        await ask(conn, conn.execute("SELECT 1"), PATIENCE)
