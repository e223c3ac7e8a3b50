"""Writing the rows of a hub whose database was lost, all of them in the caller's transaction.

This is the one place beside the controller that writes its columns, and only of rows that are not
there yet. So nobody may lead meanwhile: `keep_leaders_out` comes first.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from psycopg.types.json import Jsonb

from codehub.errors import Refused
from codehub.model.events import EventKind
from codehub.model.salvage import Known, Undeclared
from codehub.model.states import IntentSource
from codehub.store.advisory import Lock, try_lock_transaction
from codehub.store.columns import row_of
from codehub.store.connect import translated
from codehub.store.events import append, entry
from codehub.store.fence import take_epoch
from codehub.store.rows import BACKENDS
from codehub.store.users import read_user_ids
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.workspace import Runtime, Workspace

LEADER: Final = "coordinator"
"""The row of `system_locks` that has the leaders' epoch."""

BATCH: Final = 500
"""Rows in one statement: each stays far below the time that a statement may take."""

READ_KNOWN: Final = """
SELECT (SELECT id FROM hub) AS hub_id,
       EXISTS (SELECT FROM spec_revisions WHERE applied) AS loaded,
       (SELECT epoch FROM system_locks WHERE lock_name = 'gc') AS collections
"""

# Rows that the loader made or changed have the revision that did it.
READ_ROWS: Final = """
SELECT id, name, instance_backend, deleted_at IS NULL AS lives,
       spec_revision IS NULL AND orphaned AND desired_state <> 'DELETED' AS undeclared
FROM workspaces
"""

# There is one row at most. Whoever calls this has made sure that nothing carries the former id.
ADOPT: Final = """
INSERT INTO hub AS h (id) VALUES (%(id)s)
ON CONFLICT ((true)) DO UPDATE SET id = excluded.id WHERE h.id <> excluded.id
"""

ADD_USERS: Final = """
INSERT INTO users (name) SELECT unnest(%(names)s::text[]) ON CONFLICT (name) DO NOTHING
"""

_RUNTIMES: Final[Mapping[str, Runtime]] = {each[0]: runtime for runtime, each in BACKENDS.items()}


async def read_known(conn: AsyncConnection[DictRow]) -> Known:
    """What the database holds, workspaces that were purged included."""
    with translated():
        state = (await fetch(conn, READ_KNOWN))[0]
        rows = await fetch(conn, READ_ROWS)
    living = [row for row in rows if row["lives"]]
    return Known(
        hub_id=state["hub_id"],
        ids=frozenset(row["id"] for row in rows),
        names={row["name"]: row["id"] for row in living},
        undeclared={
            row["id"]: Undeclared(row["name"], _RUNTIMES[row["instance_backend"]])
            for row in living
            if row["undeclared"]
        },
        loaded=state["loaded"],
        collections=state["collections"] or 0,
    )


async def keep_leaders_out(conn: AsyncConnection[DictRow], by: str) -> None:
    """Until the transaction ends nobody leads, and whoever led before can write nothing more."""
    if not await try_lock_transaction(conn, Lock.LEADER):
        raise Refused(
            "a coordinator leads this hub, and nothing may be imported meanwhile",
            hint="stop 'codehub up' or 'codehub serve coordinator', import, and start it again",
        )
    await take_epoch(conn, LEADER, f"import by {by}")


async def adopt_hub(conn: AsyncConnection[DictRow], hub_id: UUID) -> None:
    """Give the hub the id that the archives carry."""
    await conn.execute(ADOPT, {"id": hub_id})


async def insert_workspaces(
    conn: AsyncConnection[DictRow], workspaces: Iterable[Workspace], by: str
) -> None:
    """Write whole rows, their owners and their audit. None of them may be there."""
    rest = iter(workspaces)
    while batch := list(islice(rest, BATCH)):
        names = sorted({each.declaration.owner for each in batch})
        await conn.execute(ADD_USERS, {"names": names})
        owners = await read_user_ids(conn)
        rows = [row_of(each, owners[each.declaration.owner]) for each in batch]
        columns = ", ".join(rows[0])
        await conn.execute(
            f"INSERT INTO workspaces ({columns}) SELECT {columns}"
            " FROM jsonb_populate_recordset(NULL::workspaces, %(rows)s)",
            {"rows": Jsonb(rows)},
        )
        await append(conn, [_event(each, by) for each in batch])


def _event(workspace: Workspace, by: str) -> dict[str, str]:
    return entry(
        workspace.id,
        workspace.name,
        EventKind.PHASE,
        old="",
        new=workspace.status.phase.value,
        source=IntentSource.CLI.value,
        by=by,
        reason=f"imported from the archive {workspace.status.archive_key}",
    )
