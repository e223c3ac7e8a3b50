"""The audit in Postgres: append, and read back in order.

Rows are never changed (a trigger refuses it). Ids are given out before their transactions commit,
so two of them may appear in the other order: somebody who follows the audit by id asks again from
a little before what they last saw and leaves out what they know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from codehub.model.events import Event, EventKind
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

APPEND: Final = """
INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source, by, reason)
SELECT workspace_id, workspace_name, kind, old, new, source, by, reason
FROM jsonb_populate_recordset(NULL::workspace_events, %(events)s) WITH ORDINALITY
ORDER BY ordinality
"""

# Rows outlive their workspaces, so the audit of what is long gone is found by its last name, and a
# renamed workspace keeps its history.
_OF: Final = "workspace_id IN (SELECT w.id FROM workspaces w WHERE w.name = %(name)s)"

_READ: Final = """
SELECT id, at, workspace_id, workspace_name, kind, old, new, source, by, reason
FROM workspace_events
"""

# After an id: forward from there, as somebody who follows wants it.
READ_SINCE: Final = f"""
{_READ} WHERE id > %(since)s AND {{filter}} ORDER BY id LIMIT %(limit)s
"""

# Without one: the latest, oldest of them first.
READ_LATEST: Final = f"""
SELECT * FROM ({_READ} WHERE {{filter}} ORDER BY id DESC LIMIT %(limit)s) AS latest ORDER BY id
"""

READ_LAST: Final = f"""
{_READ} WHERE workspace_id = %(id)s AND kind = %(kind)s ORDER BY id DESC LIMIT 1
"""

HAS_SAID: Final = """
SELECT EXISTS (
    SELECT FROM workspace_events
    WHERE workspace_id = %(id)s AND kind = %(kind)s AND by = %(by)s AND at > now() - %(span)s
) AS said
"""

# Times are those of transactions, ids are not quite in their order: the first one is early enough.
ID_BEFORE: Final = """
SELECT COALESCE(min(id) - 1, (SELECT COALESCE(max(id), 0) FROM workspace_events)) AS id
FROM workspace_events WHERE at >= now() - %(span)s
"""

IS_KNOWN: Final = "SELECT EXISTS (SELECT FROM workspaces WHERE name = %(name)s) AS known"


def entry(
    workspace_id: UUID,
    name: str,
    kind: EventKind,
    *,
    old: str,
    new: str,
    source: str,
    by: str,
    reason: str = "",
) -> dict[str, str]:
    """One event to append; its id and time are the server's."""
    return {
        "workspace_id": str(workspace_id),
        "workspace_name": name,
        "kind": kind.value,
        "old": old,
        "new": new,
        "source": source,
        "by": by,
        "reason": reason,
    }


async def append(conn: AsyncConnection[DictRow], entries: Iterable[dict[str, str]]) -> None:
    """Write events in one statement, in their order, within the caller's transaction."""
    listed = list(entries)
    if listed:
        await conn.execute(APPEND, {"events": Jsonb(listed)})


async def events(
    conn: AsyncConnection[DictRow],
    workspace: str | UUID | None = None,
    since_id: int | None = None,
    limit: int = 100,
) -> tuple[Event, ...]:
    """The audit of all or of one workspace (by name or id), oldest first.

    With `since_id` those after it, from the earliest on; without, the latest.
    """
    wanted = "true"
    if isinstance(workspace, UUID):
        wanted = "workspace_id = %(name)s"
    elif workspace is not None:
        wanted = _OF
    query = (READ_LATEST if since_id is None else READ_SINCE).format(filter=wanted)
    rows = await fetch(conn, query, {"name": workspace, "since": since_id, "limit": limit})
    return tuple(event_of(row) for row in rows)


async def last_event(
    conn: AsyncConnection[DictRow], workspace_id: UUID, kind: EventKind
) -> Event | None:
    """The newest of one kind."""
    rows = await fetch(conn, READ_LAST, {"id": workspace_id, "kind": kind.value})
    return event_of(rows[0]) if rows else None


async def has_said(
    conn: AsyncConnection[DictRow], workspace_id: UUID, kind: EventKind, by: str, span: timedelta
) -> bool:
    """Whether there is one of this kind, by this person, from within the last `span`."""
    values = {"id": workspace_id, "kind": kind.value, "by": by, "span": span}
    return bool((await fetch(conn, HAS_SAID, values))[0]["said"])


async def id_before(conn: AsyncConnection[DictRow], span: timedelta) -> int:
    """The id after which all that happened within the last `span` is found."""
    before: int = (await fetch(conn, ID_BEFORE, {"span": span}))[0]["id"]
    return before


async def is_known(conn: AsyncConnection[DictRow], name: str) -> bool:
    """Whether a workspace has or had this name, so that the audit can speak of it."""
    return bool((await fetch(conn, IS_KNOWN, {"name": name}))[0]["known"])


def event_of(row: Mapping[str, Any]) -> Event:
    """From a row with all columns of the audit."""
    return Event(
        id=row["id"],
        at=row["at"],
        workspace_id=row["workspace_id"],
        workspace=row["workspace_name"],
        kind=EventKind(row["kind"]),
        old=row["old"],
        new=row["new"],
        source=row["source"],
        by=row["by"],
        reason=row["reason"],
    )
