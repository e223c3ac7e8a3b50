"""Many workspaces and much audit, a page at a time: only the rows of the page are read.

Pages go on behind a key (a name, an id), never behind a number of rows, so that the last page costs
what the first one does and nothing is shown twice because something else was added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from psycopg.types.json import Jsonb

from codehub.store.events import event_of
from codehub.store.rows import COLUMNS, workspace_of
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.events import Event
    from codehub.model.states import DesiredState, Operation, Phase
    from codehub.model.workspace import Workspace

# In the order of the index on the names that live: it ends with the page.
_PAGE: Final = f"""
SELECT {COLUMNS}, u.name AS owner, now() AS read_at
FROM workspaces w JOIN users u ON u.id = w.owner_user_id
WHERE {{conditions}}
ORDER BY w.name LIMIT %(limit)s
"""

# A user is looked up once, so that the index on owners can serve.
_OWNED: Final = "w.owner_user_id = (SELECT id FROM users WHERE name = %({0})s)"

# What is typed is looked for as it is: strpos knows no wildcards.
_CONDITIONS: Final[Mapping[str, str]] = {
    "seen_by": _OWNED.format("seen_by"),
    "owner": _OWNED.format("owner"),
    "after": "w.name > %(after)s",
    "phases": "w.phase = ANY(%(phases)s)",
    "operations": "w.operation = ANY(%(operations)s)",
    "desired": "w.desired_state = ANY(%(desired)s)",
    "busy": "(w.operation <> 'NONE') = %(busy)s",
    "archived": "(w.phase = 'ARCHIVED') = %(archived)s",
    "orphaned": "w.orphaned = %(orphaned)s",
    "labels": "w.labels @> ALL(%(labels)s::jsonb[])",
    "label_keys": "w.labels ?& %(label_keys)s",
    "text": "strpos(lower(w.name || ' ' || w.description), lower(%(text)s)) > 0",
}

_EVENT: Final = """
SELECT e.id, e.at, e.workspace_id, e.workspace_name, e.kind, e.old, e.new, e.source, e.by, e.reason
"""

# Whatever there is, latest first: the primary key's own order.
_ALL_EVENTS: Final = f"""
{_EVENT} FROM workspace_events e WHERE e.id < %(before)s ORDER BY e.id DESC LIMIT %(limit)s
"""

# From each workspace its latest, by the index on both, and of those the latest: however long the
# audit has become, what is read of it is bounded by what is asked for.
_EVENTS_OF: Final = f"""
{_EVENT} FROM workspaces w CROSS JOIN LATERAL (
    SELECT * FROM workspace_events of
    WHERE of.workspace_id = w.id AND of.id < %(before)s ORDER BY of.id DESC LIMIT %(limit)s
) AS e
WHERE {{conditions}} ORDER BY e.id DESC LIMIT %(limit)s
"""

_IS_SEEN: Final = "SELECT EXISTS (SELECT FROM workspaces w WHERE {conditions}) AS known"

_NAMED: Final = "w.name = %(name)s"
_LAST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for; what is None or empty does not matter.

    `seen_by` is the member who looks, None for somebody who sees all. `labels` are pairs.
    """

    seen_by: str | None = None
    owner: str | None = None
    phases: tuple[Phase, ...] = ()
    operations: tuple[Operation, ...] = ()
    desired: tuple[DesiredState, ...] = ()
    busy: bool | None = None
    archived: bool | None = None
    orphaned: bool | None = None
    labels: tuple[tuple[str, str], ...] = ()
    label_keys: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """One page, by name; `read_at` is the server's time, None where nothing was found."""

    found: tuple[Workspace, ...] = field(default=())
    read_at: datetime | None = None
    more: bool = False


async def read_listing(
    conn: AsyncConnection[DictRow], wanted: Wanted, *, after: str = "", limit: int = 100
) -> Listed:
    """Those that live, behind the name `after`."""
    values = _values(wanted) | ({"after": after} if after else {})
    conditions = ["w.deleted_at IS NULL", *(_CONDITIONS[name] for name in values)]
    query = _PAGE.format(conditions=" AND ".join(conditions))
    rows = await fetch(conn, query, values | {"limit": limit + 1})
    if not rows:
        return Listed()
    found = tuple(workspace_of(row) for row in rows[:limit])
    return Listed(found, rows[0]["read_at"], more=len(rows) > limit)


async def read_audit(
    conn: AsyncConnection[DictRow],
    *,
    seen_by: str | None = None,
    name: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> tuple[Event, ...] | None:
    """The audit, latest first: of all that somebody sees, or of what has or had one name.

    None where they see nothing of that name. Deleted workspaces keep their audit.
    """
    values: dict[str, object] = {"before": _LAST if before is None else before, "limit": limit}
    if seen_by is None and name is None:
        return tuple(event_of(row) for row in await fetch(conn, _ALL_EVENTS, values))
    conditions = _seen(seen_by, name)
    values |= {"seen_by": seen_by, "name": name}
    rows = await fetch(conn, _EVENTS_OF.format(conditions=conditions), values)
    if not rows and name is not None and not await _is_seen(conn, conditions, values):
        return None
    return tuple(event_of(row) for row in rows)


def _seen(seen_by: str | None, name: str | None) -> str:
    owned = [] if seen_by is None else [_CONDITIONS["seen_by"]]
    return " AND ".join([*owned, *([] if name is None else [_NAMED])])


async def _is_seen(
    conn: AsyncConnection[DictRow], conditions: str, values: Mapping[str, object]
) -> bool:
    return bool((await fetch(conn, _IS_SEEN.format(conditions=conditions), values))[0]["known"])


def _values(wanted: Wanted) -> dict[str, object]:
    """Those that matter, by the names of their conditions."""
    values: dict[str, object] = {
        "seen_by": wanted.seen_by,
        "owner": wanted.owner,
        "phases": [each.value for each in wanted.phases],
        "operations": [each.value for each in wanted.operations],
        "desired": [each.value for each in wanted.desired],
        "busy": wanted.busy,
        "archived": wanted.archived,
        "orphaned": wanted.orphaned,
        "labels": [Jsonb({key: value}) for key, value in wanted.labels],
        "label_keys": list(wanted.label_keys),
        "text": wanted.text,
    }
    return {name: value for name, value in values.items() if value not in (None, [], "")}
