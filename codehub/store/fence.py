"""The epoch fence: a leader that was replaced cannot write any more, however late it wakes.

A new leader bumps `system_locks.epoch`; every write of a leader carries the epoch it took and
locks that row FOR SHARE. So a bump waits for writes under way, and a write after the bump finds
no fence. A plain sub-select would not do: a write that waited on a row lock would go through after
the epoch has moved.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codehub.errors import FenceLost
from codehub.store.connect import transaction, translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from psycopg import AsyncConnection, AsyncCursor
    from psycopg.rows import DictRow

HOLDS: Final = "EXISTS (SELECT FROM fence)"
"""The condition that every fenced statement must carry."""

_LOCKED: Final = """
SELECT 1 FROM system_locks
WHERE lock_name = %(fence_name)s AND epoch = %(fence_epoch)s
FOR SHARE
"""

# Waits for every write that holds the row FOR SHARE.
_TAKE: Final = """
INSERT INTO system_locks AS l (lock_name, holder_id, acquired_at, epoch)
VALUES (%(name)s, %(holder)s, now(), 1)
ON CONFLICT (lock_name) DO UPDATE
SET holder_id = excluded.holder_id, acquired_at = excluded.acquired_at, epoch = l.epoch + 1
RETURNING epoch
"""

_READ: Final = "SELECT epoch FROM system_locks WHERE lock_name = %(fence_name)s"


@dataclass(frozen=True, slots=True)
class Fence:
    """A leader's right to write: the epoch it took."""

    lock_name: str
    epoch: int

    @property
    def values(self) -> dict[str, Any]:
        return {"fence_name": self.lock_name, "fence_epoch": self.epoch}


async def take_epoch(conn: AsyncConnection[DictRow], lock_name: str, holder: str) -> Fence:
    """Begins a new epoch; from here on all older fences are void."""
    with translated():
        cursor = await conn.execute(_TAKE, {"name": lock_name, "holder": holder})
        row = await cursor.fetchone()
    assert row is not None  # an upsert returns its row
    return Fence(lock_name, row["epoch"])


async def fenced(
    conn: AsyncConnection[DictRow],
    fence: Fence,
    statement: str,
    values: Mapping[str, Any] | None = None,
) -> AsyncCursor[DictRow]:
    """Runs one writing statement behind the fence; raises FenceLost if it is void.

    The statement has the HOLDS condition and named placeholders. That it touched no row may be
    its own condition's doing, so the epoch is looked at before anything is said of the fence.
    """
    if HOLDS not in statement:
        raise ValueError(f"a fenced statement needs the condition {HOLDS}")
    with translated():
        cursor = await conn.execute(
            f"WITH fence AS ({_LOCKED}) {statement}", {**(values or {}), **fence.values}
        )
    if cursor.rowcount == 0:
        await require_fence(conn, fence)
    return cursor


async def require_fence(conn: AsyncConnection[DictRow], fence: Fence) -> None:
    """Raises FenceLost if the epoch has moved; to be asked right before an act in the world."""
    with translated():
        row = await (await conn.execute(_READ, fence.values)).fetchone()
    if row is None or row["epoch"] != fence.epoch:
        raise _lost(fence)


@asynccontextmanager
async def fenced_transaction(
    conn: AsyncConnection[DictRow], fence: Fence
) -> AsyncIterator[AsyncConnection[DictRow]]:
    """A transaction of several statements that no new epoch can begin in the middle of."""
    async with transaction(conn):
        row = await (await conn.execute(_LOCKED, fence.values)).fetchone()
        if row is None:
            raise _lost(fence)
        yield conn


def _lost(fence: Fence) -> FenceLost:
    return FenceLost(
        f"another {fence.lock_name} has taken over since epoch {fence.epoch}; nothing was written"
    )
