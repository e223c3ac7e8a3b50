"""A session of one's own: asked under time limits, cut when it gives no answer, never a pooler's.

The driver's way out of a statement takes up to ten seconds when the server is silent: it asks for
a cancel, then waits. A leader that must step down cannot wait so long, nor may its cancellation be
lost to the error of a connection that died at the same moment.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from codehub.errors import DatabaseProblem, Unreachable
from codehub.store.advisory import OURS, Lock, has_lock
from codehub.store.connect import connect, transaction, translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

T = TypeVar("T")

ABORT: Final = 1.0
"""Seconds for each step of getting out of a statement: ask the server, then cut the line."""


@asynccontextmanager
async def open_session(url: str) -> AsyncIterator[AsyncConnection[DictRow]]:
    """A connection that is closed at the end without a further word to the server."""
    conn = await connect(url)
    try:
        yield conn
    finally:
        await conn.close()


async def ask(conn: AsyncConnection[DictRow], work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What `work` on this connection gives, or Unreachable after so many seconds.

    After a time-out or a cancellation the connection is of no more use.
    """
    task = asyncio.create_task(work)
    forget(task)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            with translated():
                return task.result()
    finally:
        if not task.done():
            await insist(_abort(conn, task))
    raise Unreachable(
        f"the database gave no answer within {seconds:g} seconds",
        hint="see whether its server runs",
    )


async def insist(work: Coroutine[Any, Any, T]) -> T:
    """Brings `work`, which must be bounded, to its end; a cancellation is passed on after it."""
    task = asyncio.create_task(work)
    forget(task)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


def forget(task: asyncio.Task[Any]) -> None:
    """Should nobody come back for what this task raises, that is no fault to be logged."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


def cut(conn: AsyncConnection[DictRow]) -> None:
    """End the connection's stream: whoever waits on it fails at once, and the server hears of it.

    Closing the descriptor instead would leave the waiting one asleep for ever.
    """
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(conn.fileno())) as stream:
        stream.shutdown(socket.SHUT_RDWR)


async def holds_lock(conn: AsyncConnection[DictRow], lock: Lock) -> bool:
    """Whether the server process behind this connection holds a session's lock."""
    with translated():
        return await has_lock(conn, lock)


async def require_own_session(
    conn: AsyncConnection[DictRow], other: AsyncConnection[DictRow], lock: Lock
) -> None:
    """Raises DatabaseProblem unless `conn`, which took the lock, alone has a session that holds it.

    A transaction pooler gives each transaction any of its sessions. The transaction on `other`
    keeps the one that was used last busy, so that even an idle pooler shows what it is.
    """
    async with transaction(other):
        if await holds_lock(other, lock):
            # Nobody could lead for as long as the pooler keeps this session.
            await other.execute("SELECT pg_advisory_unlock(%s, %s)", (OURS, lock))
            raise _pooled()
        if not await holds_lock(conn, lock):
            raise _pooled()


def _pooled() -> DatabaseProblem:
    return DatabaseProblem(
        "DATABASE_URL goes through a transaction pooler, which cannot hold the leader's lock",
        hint="set DATABASE_URL to the server itself, or to a pooler in session mode",
    )


async def _abort(conn: AsyncConnection[DictRow], task: asyncio.Task[Any]) -> None:
    """Get a statement off the server where it listens; off this connection in any case."""
    with suppress(Exception):
        await conn.cancel_safe(timeout=ABORT)
    await asyncio.wait({task}, timeout=ABORT)
    cut(conn)
    await asyncio.wait({task}, timeout=ABORT)
