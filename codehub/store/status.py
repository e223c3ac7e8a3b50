"""The controller's columns: one fenced statement for each change of one workspace.

A pass reads, decides and writes; acts of the same leader write beside it. So every write names what
it was decided upon, and one that is late changes nothing: the next pass decides again. Audit rows
go with the change they tell of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg.types.json import Jsonb

from codehub.model.states import IntentSource, Operation
from codehub.store.columns import status_columns
from codehub.store.fence import HOLDS, fenced
from codehub.store.rows import COLUMNS, OBSERVED, workspace_of
from codehub.store.ttl import STILL_IDLE
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.core.audit import Change
    from codehub.model.archive import ArchiveMeta
    from codehub.model.workspace import Status, Workspace
    from codehub.store.fence import Fence

# A purge is the collector's to set, and there is no way back from it.
_ASSIGNED: Final = ", ".join(f"{name} = s.{name}" for name in OBSERVED if name != "purged_at")

# What acts, the collector and the intent service may have changed since the row was read.
_AS_READ: Final = """
w.operation = %(operation)s AND w.op_id IS NOT DISTINCT FROM %(op_id)s
AND w.op_progress = %(op_progress)s AND w.home_ctx = %(home_ctx)s
AND w.archive_key IS NOT DISTINCT FROM %(archive_key)s
AND w.home_store_key IS NOT DISTINCT FROM %(home_store_key)s
AND w.retry_at IS NOT DISTINCT FROM %(retry_at)s
AND w.deleted_at IS NOT DISTINCT FROM %(deleted_at)s
AND w.purged_at IS NOT DISTINCT FROM %(purged_at)s
"""

# A claim rests on what people ask for as well, and a stop for idleness on idleness.
_AS_ASKED: Final = f"""
(NOT %(claims)s OR (
    w.desired_state = %(desired_state)s AND w.generation = %(generation)s
    AND w.recover_requested IS NOT DISTINCT FROM %(recover_requested)s
    AND w.override_until IS NOT DISTINCT FROM %(override_until)s))
AND (NOT %(for_idleness)s OR {STILL_IDLE})
"""

SAVE: Final = f"""
, saved AS (
    UPDATE workspaces w SET {_ASSIGNED},
        recover_requested = CASE WHEN %(answered)s
            AND w.recover_requested IS NOT DISTINCT FROM %(recover_requested)s
            THEN NULL ELSE w.recover_requested END
    FROM jsonb_populate_record(NULL::workspaces, %(after)s) AS s
    WHERE w.id = %(id)s AND {HOLDS} AND {_AS_READ} AND {_AS_ASKED}
    RETURNING w.id, w.name
), told AS (
    INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source, by, reason)
    SELECT saved.id, saved.name, e.kind, e.old, e.new, 'controller', '', e.reason
    FROM saved, ROWS FROM (
        jsonb_to_recordset(%(events)s) AS (kind text, old text, new text, reason text)
    ) WITH ORDINALITY AS e (kind, old, new, reason, place)
    ORDER BY e.place
)
SELECT id FROM saved
"""

# What the controller does beside the status, for the audit alone.
TELL: Final = f"""
INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source, by, reason)
SELECT w.id, w.name, %(kind)s, %(old)s, %(new)s, 'controller', '', %(reason)s
FROM workspaces w WHERE w.id = %(id)s AND {HOLDS}
"""

# Progress ends a blind time: somebody sees the operation move.
PROGRESS: Final = f"""
UPDATE workspaces w
SET op_progress = (w.op_progress - ARRAY['blind_seconds', 'blind_since', 'unreachable_count'])
    || %(progress)s || jsonb_build_object('at', now())
WHERE w.id = %(id)s AND w.op_id = %(op_id)s AND w.operation = %(operation)s AND {HOLDS}
"""

# What is remembered of homes, with this one retired; those that were given up stay remembered.
_RETIRED: Final = """
(w.home_ctx - 'restore_marker') || jsonb_build_object('retired',
    COALESCE(w.home_ctx -> 'retired', '[]') || to_jsonb(w.home_store_key))
"""

# The order that keeps data safe: the archive is recorded and the home retired together, and only
# then is the volume deleted.
ARCHIVED: Final = f"""
UPDATE workspaces w
SET archive_key = %(key)s, archive_bytes = %(bytes)s, archive_sha256 = %(sha256)s,
    home_store_key = NULL,
    home_ctx = CASE WHEN w.home_store_key IS NULL THEN w.home_ctx ELSE {_RETIRED} END
WHERE w.id = %(id)s AND w.op_id = %(op_id)s AND w.operation = %(operation)s
    AND w.home_store_key IS NOT DISTINCT FROM %(home)s AND {HOLDS}
"""

RESTORED: Final = f"""
UPDATE workspaces w
SET home_ctx = w.home_ctx || jsonb_build_object('restore_marker', w.archive_key)
WHERE w.id = %(id)s AND w.op_id = %(op_id)s AND w.operation = 'RESTORING'
    AND w.home_store_key = %(home)s AND w.archive_key = %(key)s AND {HOLDS}
"""

# A restore that was interrupted starts over with another generation, never on top of the half.
RENEW_HOME: Final = f"""
UPDATE workspaces w
SET home_generation = w.home_generation + 1,
    home_store_key = 'ws-' || w.id || '-home-g' || (w.home_generation + 1),
    home_ctx = {_RETIRED}
WHERE w.id = %(id)s AND w.op_id = %(op_id)s AND w.operation = 'RESTORING'
    AND w.home_store_key = %(home)s AND {HOLDS}
RETURNING w.home_generation
"""

# Rows that may need a step: under way, asked for by name, or not where they are desired to be.
READ_ACTIVE: Final = f"""
SELECT {COLUMNS}, u.name AS owner
FROM workspaces w JOIN users u ON u.id = w.owner_user_id
WHERE w.purged_at IS NULL AND w.id IN (
    SELECT id FROM workspaces WHERE operation <> 'NONE' AND deleted_at IS NULL
    UNION SELECT unnest(%(ids)s::uuid[])
    UNION SELECT id FROM workspaces
    WHERE %(mismatched)s AND (phase <> desired_state OR operation <> 'NONE') AND deleted_at IS NULL)
ORDER BY w.id
"""


@dataclass(frozen=True, slots=True)
class Idleness:
    """The settings that say from when on silence counts, for a stop that idleness asked for."""

    standby_ttl: int
    flush: float
    slack: float


@dataclass(frozen=True, slots=True)
class Write:
    """One change of one workspace: what it rests on, what it becomes, and what is told of it.

    `answered` says that it does what `recover_requested` asked for.
    """

    seen: Workspace
    after: Status
    events: Sequence[Change] = ()
    answered: bool = False

    @property
    def claims(self) -> bool:
        """Whether an operation begins with it."""
        begins = self.after.operation is not Operation.NONE
        return begins and self.after.op_id != self.seen.status.op_id

    @property
    def for_idleness(self) -> bool:
        stops = self.after.operation is Operation.STOPPING
        return self.claims and stops and self.seen.intent.source is IntentSource.TTL


async def save(
    conn: AsyncConnection[DictRow], fence: Fence, write: Write, idleness: Idleness
) -> bool:
    """Store it; False when what it rests on has changed. Raises FenceLost if we lead no more."""
    cursor = await fenced(conn, fence, SAVE, _values(write, idleness))
    return cursor.rowcount == 1


async def tell(
    conn: AsyncConnection[DictRow], fence: Fence, workspace: Workspace, change: Change
) -> None:
    """Put one line into the audit. Raises FenceLost if we lead no more."""
    await fenced(conn, fence, TELL, {"id": workspace.id, **_told(change)})


async def write_progress(
    conn: AsyncConnection[DictRow], fence: Fence, workspace: Workspace, progress: Mapping[str, Any]
) -> bool:
    """Say how far the operation in flight is; False when it is another one by now."""
    values = {**_operation(workspace), "progress": Jsonb(dict(progress))}
    return (await fenced(conn, fence, PROGRESS, values)).rowcount == 1


async def save_archive(
    conn: AsyncConnection[DictRow], fence: Fence, workspace: Workspace, meta: ArchiveMeta
) -> bool:
    """Record a committed archive and retire the home it was made from, together."""
    values = {
        **_operation(workspace),
        "key": meta.key,
        "bytes": meta.bytes,
        "sha256": meta.sha256,
        "home": workspace.status.home_store_key,
    }
    return (await fenced(conn, fence, ARCHIVED, values)).rowcount == 1


async def save_restored(
    conn: AsyncConnection[DictRow], fence: Fence, workspace: Workspace, key: str
) -> bool:
    """Commit a restore: from now on the volume is the home."""
    values = {**_operation(workspace), "key": key, "home": workspace.status.home_store_key}
    return (await fenced(conn, fence, RESTORED, values)).rowcount == 1


async def renew_home(
    conn: AsyncConnection[DictRow], fence: Fence, workspace: Workspace
) -> int | None:
    """Name the next generation for a restore that starts over; None when it is not ours."""
    values = {**_operation(workspace), "home": workspace.status.home_store_key}
    row = await (await fenced(conn, fence, RENEW_HOME, values)).fetchone()
    return None if row is None else row["home_generation"]


async def read_active(
    conn: AsyncConnection[DictRow], ids: Sequence[UUID], *, mismatched: bool
) -> tuple[Workspace, ...]:
    """Those under way, those named, and where asked for those that are not where they should be."""
    rows = await fetch(conn, READ_ACTIVE, {"ids": list(ids), "mismatched": mismatched})
    return tuple(workspace_of(row) for row in rows)


def _operation(workspace: Workspace) -> dict[str, Any]:
    status = workspace.status
    return {"id": workspace.id, "op_id": status.op_id, "operation": status.operation.value}


def _values(write: Write, idleness: Idleness) -> dict[str, Any]:
    seen, status = write.seen, status_columns(write.seen.status)
    intent = seen.intent
    return {
        **_operation(seen),
        "op_progress": Jsonb(status["op_progress"]),
        "home_ctx": Jsonb(status["home_ctx"]),
        "archive_key": seen.status.archive_key,
        "home_store_key": seen.status.home_store_key,
        "retry_at": seen.status.retry_at,
        "deleted_at": seen.status.deleted_at,
        "purged_at": seen.status.purged_at,
        "claims": write.claims,
        "desired_state": intent.desired.value,
        "generation": seen.generation,
        "recover_requested": intent.recover_requested,
        "override_until": intent.override and intent.override.until,
        "for_idleness": write.for_idleness,
        "hub_standby_ttl": idleness.standby_ttl,
        "flush": idleness.flush,
        "slack": idleness.slack,
        "answered": write.answered,
        "after": Jsonb(status_columns(write.after)),
        "events": Jsonb([_told(each) for each in write.events]),
    }


def _told(change: Change) -> dict[str, str]:
    return {
        "kind": change.kind.value,
        "old": change.old,
        "new": change.new,
        "reason": change.reason,
    }
