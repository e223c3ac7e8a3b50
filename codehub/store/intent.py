"""The intent columns in SQL: what somebody asked of a workspace, and the audit of it.

`MOVE` is the one statement that writes desired_state, for one workspace or for all of a revision:
the test, the update and its audit row happen together or not at all. `service/intent.py` says who
may; the loader (`declare.py`) and it are the callers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg.types.json import Jsonb

from codehub.store.places import COUNTED, STOPPABLE
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.states import DesiredState, IntentSource

# Rows are locked in the order of their ids, as every writer of many rows does. What is there
# already is left alone: its time is its place in the queue of those who asked.
MOVE: Final = """
WITH asked AS (
    SELECT id, desired_state, reason
    FROM jsonb_to_recordset(%(asked)s) AS a (id uuid, desired_state text, reason text)
), seen AS (
    SELECT w.id, w.name, w.desired_state AS old, asked.desired_state AS new, asked.reason
    FROM workspaces w JOIN asked USING (id)
    WHERE w.deleted_at IS NULL AND w.desired_state <> asked.desired_state
    ORDER BY w.id FOR NO KEY UPDATE OF w
), moved AS (
    UPDATE workspaces w
    SET desired_state = seen.new, desired_source = %(source)s, desired_by = %(by)s,
        desired_at = COALESCE(%(at)s, now())
    FROM seen WHERE w.id = seen.id
    RETURNING w.id, w.name, seen.old, seen.new, seen.reason
)
INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source, by, reason)
SELECT id, name, 'desired', old, new, %(source)s, %(by)s, reason FROM moved ORDER BY id
"""

# The reason goes into the row too: every plan shows it. The audit also has how it was asked for.
SET_OVERRIDE: Final = """
WITH moved AS (
    UPDATE workspaces
    SET override_state = %(state)s, override_until = now() + %(lasts)s,
        override_reason = %(reason)s
    WHERE id = %(id)s
    RETURNING id, name, override_until
)
INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source, by, reason)
SELECT id, name, 'override', %(old)s, %(state)s, %(source)s, %(by)s, %(told)s FROM moved
RETURNING (SELECT override_until FROM moved)
"""

CLEAR_OVERRIDE: Final = """
WITH moved AS (
    UPDATE workspaces
    SET override_state = NULL, override_until = NULL, override_reason = NULL
    WHERE id = %(id)s
    RETURNING id, name
)
INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source, by, reason)
SELECT id, name, 'override', %(old)s, '', %(source)s, %(by)s, %(reason)s FROM moved
"""

# The controller acts on it, clears the error and this mark.
REQUEST_RECOVER: Final = """
WITH moved AS (
    UPDATE workspaces SET recover_requested = %(mode)s WHERE id = %(id)s RETURNING id, name
)
INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source, by, reason)
SELECT id, name, 'recover', %(old)s, %(mode)s, %(source)s, %(by)s, %(reason)s FROM moved
"""

# A deleted workspace has nothing but its archive, so that decides where it stands. Once purging
# has begun there is no way back, hence the test inside the statement.
UNDELETE: Final = """
UPDATE workspaces
SET deleted_at = NULL, phase = CASE WHEN archive_key IS NULL THEN 'PENDING' ELSE 'ARCHIVED' END,
    phase_changed_at = COALESCE(%(at)s, now()), operation = 'NONE', recover_requested = NULL,
    error_reason = NULL, error_message = NULL, error_count = 0, retry_at = NULL
WHERE id = ANY(%(ids)s) AND deleted_at IS NOT NULL AND purged_at IS NULL
RETURNING id, name, phase
"""

# The names are the owner's own, in the order of asking.
COUNT_RUNNING: Final = f"""
SELECT count(*) AS everybody,
       COALESCE(array_agg(w.name ORDER BY w.desired_at NULLS FIRST, w.id)
                FILTER (WHERE w.owner_user_id = me.owner_user_id), '{{}}') AS own,
       COALESCE(array_agg(w.name ORDER BY w.desired_at NULLS FIRST, w.id)
                FILTER (WHERE w.owner_user_id = me.owner_user_id AND {STOPPABLE}), '{{}}')
           AS stoppable
FROM workspaces me JOIN workspaces w ON w.id <> me.id AND {COUNTED}
WHERE me.id = %(id)s
"""

# The User spec goes before the Hub spec; the settings come last, in the caller.
READ_LIMITS: Final = """
SELECT COALESCE(u.max_running, (h.spec ->> 'max_running_per_user')::integer) AS per_user,
       (h.spec ->> 'max_running_global')::integer AS everybody
FROM workspaces w JOIN users u ON u.id = w.owner_user_id LEFT JOIN hub h ON true
WHERE w.id = %(id)s
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of one workspace."""

    id: UUID
    state: DesiredState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """Who else runs or waits to run: how many in all, and the owner's by name.

    `stoppable` are those of the owner's that can be stopped now.
    """

    everybody: int
    own: tuple[str, ...]
    stoppable: tuple[str, ...]
    limit_per_user: int | None
    limit_of_all: int | None


async def move(
    conn: AsyncConnection[DictRow],
    asked: Sequence[Asked],
    *,
    source: IntentSource,
    by: str,
    at: datetime | None = None,
) -> int:
    """Set what is desired where it differs, with its audit; returns how many moved."""
    listed = [
        {"id": str(one.id), "desired_state": one.state.value, "reason": one.reason} for one in asked
    ]
    values = {"asked": Jsonb(listed), "source": source.value, "by": by, "at": at}
    return (await conn.execute(MOVE, values)).rowcount


async def write_override(
    conn: AsyncConnection[DictRow],
    workspace_id: UUID,
    state: DesiredState,
    lasts: timedelta,
    *,
    told: str | None = None,
    **audit: str,
) -> datetime:
    """Set another ceiling from now on; `audit` is old, source, by and reason. Returns its end.

    `told` is for the audit alone, where that is to know more than the reason.
    """
    values = {"id": workspace_id, "state": state.value, "lasts": lasts, **audit}
    values["told"] = audit["reason"] if told is None else told
    until: datetime = (await fetch(conn, SET_OVERRIDE, values))[0]["override_until"]
    return until


async def remove_override(conn: AsyncConnection[DictRow], workspace_id: UUID, **audit: str) -> None:
    await conn.execute(CLEAR_OVERRIDE, {"id": workspace_id, **audit})


async def write_recover(
    conn: AsyncConnection[DictRow], workspace_id: UUID, mode: str, **audit: str
) -> None:
    await conn.execute(REQUEST_RECOVER, {"id": workspace_id, "mode": mode, **audit})


async def undelete_rows(
    conn: AsyncConnection[DictRow], ids: Sequence[UUID], at: datetime | None = None
) -> dict[UUID, str]:
    """Bring deleted rows back to where their archive puts them; returns the phase of each."""
    rows = await fetch(conn, UNDELETE, {"ids": list(ids), "at": at})
    return {row["id"]: row["phase"] for row in rows}


async def count_running(conn: AsyncConnection[DictRow], workspace_id: UUID) -> Running:
    """Who runs or waits to run beside this one, and the limits that the specs set."""
    counted = (await fetch(conn, COUNT_RUNNING, {"id": workspace_id}))[0]
    limits = (await fetch(conn, READ_LIMITS, {"id": workspace_id}))[0]
    return Running(
        counted["everybody"],
        tuple(counted["own"]),
        tuple(counted["stoppable"]),
        limits["per_user"],
        limits["everybody"],
    )
