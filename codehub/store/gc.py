"""What a collection of archives reads and keeps in Postgres.

Orphans are remembered in `gc_candidates`. A trigger notes in `archive_operations` every operation
that archives of a workspace may lie under. Two rows of `system_locks` belong to a collection: `gc`
counts collections, and `gc-confirmed` says who last vouched for this database, and when. The count
moves with nothing else (a leader's epoch moves with every election, so a restored database would
soon have caught up with it). Every write is fenced.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from codehub.model.collection import Fate, Holder, Ledger
from codehub.store.connect import transaction, translated
from codehub.store.fence import HOLDS, fenced, fenced_transaction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import timedelta
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.collection import Verdict
    from codehub.store.fence import Fence

HOLDS_ARCHIVES: Final = """
SELECT EXISTS (SELECT FROM workspaces WHERE archive_key IS NOT NULL AND purged_at IS NULL) AS any
"""

_HOLDER: Final = """
SELECT id, name, archive_key, op_id, phase = 'ERROR' AS in_error,
       desired_state <> 'DELETED' AS wanted, deleted_at, purged_at IS NOT NULL AS purged,
       ARRAY(SELECT o.op_id FROM archive_operations o WHERE o.workspace_id = w.id) AS noted
FROM workspaces w
"""

# Of purged workspaces only those that still have objects are of interest.
READ_HOLDERS: Final = f"{_HOLDER} WHERE purged_at IS NULL OR id = ANY(%(ids)s)"

READ_THESE: Final = f"{_HOLDER} WHERE id = ANY(%(ids)s)"

READ_CANDIDATES: Final = "SELECT object_key, first_seen_at FROM gc_candidates"

READ_STATE: Final = """
SELECT now() AS now,
       (SELECT epoch FROM system_locks WHERE lock_name = 'gc') AS epoch,
       (SELECT acquired_at FROM system_locks WHERE lock_name = 'gc-confirmed') AS confirmed_at,
       (SELECT min(noted_at) FROM archive_operations) AS noted_since
"""

# Undeleting requires purged_at to be null, and both statements test under the row's lock: whoever
# comes second finds the other's work. A workspace that is wanted again is on its way back.
PURGE: Final = f"""
, over AS (
    SELECT id FROM workspaces
    WHERE deleted_at <= now() - %(retention)s AND purged_at IS NULL AND desired_state = 'DELETED'
    AND {HOLDS}
    ORDER BY id FOR NO KEY UPDATE
)
UPDATE workspaces w SET purged_at = now() FROM over WHERE w.id = over.id RETURNING w.name
"""

FORGET_OTHERS: Final = "DELETE FROM gc_candidates WHERE object_key <> ALL(%(keys)s)"

REMEMBER: Final = """
INSERT INTO gc_candidates AS c (object_key, bytes, reason)
SELECT * FROM unnest(%(keys)s::text[], %(bytes)s::bigint[], %(reasons)s::text[])
ON CONFLICT (object_key) DO UPDATE
SET bytes = excluded.bytes, reason = excluded.reason, cycles = c.cycles + 1, last_seen_at = now()
"""

ADVANCE: Final = f"""
INSERT INTO system_locks AS l (lock_name, epoch) SELECT 'gc', 1 WHERE {HOLDS}
ON CONFLICT (lock_name) DO UPDATE SET epoch = l.epoch + 1, acquired_at = now()
RETURNING epoch
"""

CATCH_UP: Final = """
INSERT INTO system_locks AS l (lock_name, epoch) VALUES ('gc', %(epoch)s)
ON CONFLICT (lock_name) DO UPDATE SET epoch = GREATEST(l.epoch, excluded.epoch)
"""

CONFIRM: Final = """
INSERT INTO system_locks AS l (lock_name, holder_id, epoch) VALUES ('gc-confirmed', %(by)s, 1)
ON CONFLICT (lock_name) DO UPDATE
SET holder_id = excluded.holder_id, acquired_at = now(), epoch = l.epoch + 1
"""


async def holds_archives(conn: AsyncConnection[DictRow]) -> bool:
    """Whether any workspace has an archive that must be there."""
    with translated():
        row = await (await conn.execute(HOLDS_ARCHIVES)).fetchone()
    return bool(row and row["any"])


async def read_ledger(conn: AsyncConnection[DictRow], ids: Collection[UUID]) -> Ledger:
    """What protects archives, at one moment; `ids` are the workspaces that have objects."""
    async with transaction(conn, snapshot=True):
        state = (await _rows(conn, READ_STATE))[0]
        holders = await _rows(conn, READ_HOLDERS, {"ids": list(ids)})
        candidates = await _rows(conn, READ_CANDIDATES)
    return Ledger(
        now=state["now"],
        holders=_holders(holders),
        candidates={row["object_key"]: row["first_seen_at"] for row in candidates},
        epoch=state["epoch"] or 0,
        confirmed_at=state["confirmed_at"],
        noted_since=state["noted_since"],
    )


async def read_again(
    conn: AsyncConnection[DictRow], ledger: Ledger, ids: Collection[UUID]
) -> Ledger:
    """The same ledger with what these workspaces, and only they, protect now."""
    with translated():
        rows = await _rows(conn, READ_THESE, {"ids": list(ids)})
    return replace(ledger, holders=_holders(rows))


async def purge(
    conn: AsyncConnection[DictRow], fence: Fence, retention: timedelta
) -> tuple[str, ...]:
    """Give up the deleted workspaces whose retention has ended; their names."""
    cursor = await fenced(conn, fence, PURGE, {"retention": retention})
    with translated():
        return tuple(sorted(row["name"] for row in await cursor.fetchall()))


async def remember(
    conn: AsyncConnection[DictRow], fence: Fence, verdicts: Iterable[Verdict]
) -> None:
    """Keep the orphans of this collection, and only them: what is protected again is forgotten."""
    orphans = [each for each in verdicts if each.fate is not Fate.KEPT]
    keys = [each.archive.key for each in orphans]
    values = {
        "keys": keys,
        "bytes": [each.archive.bytes for each in orphans],
        "reasons": [each.why.value for each in orphans],
    }
    async with fenced_transaction(conn, fence):
        await conn.execute(FORGET_OTHERS, {"keys": keys})
        await conn.execute(REMEMBER, values)


async def advance_epoch(conn: AsyncConnection[DictRow], fence: Fence) -> int:
    """Begin another collection; its number."""
    cursor = await fenced(conn, fence, ADVANCE)
    with translated():
        row = await cursor.fetchone()
    assert row is not None  # `fenced` raises where the statement wrote nothing
    return int(row["epoch"])


async def confirm_restored(
    conn: AsyncConnection[DictRow], fence: Fence, epoch: int, by: str
) -> None:
    """An admin vouches for this database: it is no longer behind the store, and begins anew.

    What it took for orphans before is forgotten, so that everything gets its full time again.
    """
    async with fenced_transaction(conn, fence):
        await conn.execute(CATCH_UP, {"epoch": epoch})
        await conn.execute(CONFIRM, {"by": by})
        await conn.execute("DELETE FROM gc_candidates")


def _holders(rows: Iterable[DictRow]) -> dict[UUID, Holder]:
    return {row["id"]: Holder(**{**row, "noted": frozenset(row["noted"])}) for row in rows}


async def _rows(
    conn: AsyncConnection[DictRow], query: str, values: dict[str, Any] | None = None
) -> list[DictRow]:
    return await (await conn.execute(query, values)).fetchall()
