"""What a dashboard shows of all workspaces together: how many there are, and who runs what.

All of it is counted by the database, what runs as limits count it, and lists are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codehub.model.people import Role
from codehub.model.states import Phase
from codehub.store.places import COUNTED
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

COUNT: Final = """
SELECT w.phase, count(*) AS count FROM workspaces w JOIN users u ON u.id = w.owner_user_id
WHERE w.deleted_at IS NULL AND (%(owner)s::text IS NULL OR u.name = %(owner)s)
GROUP BY w.phase
"""

# The User spec goes before the Hub spec; the settings come last, in the caller.
RUNNING: Final = f"""
SELECT count(*) FILTER (WHERE u.name = %(name)s) AS own, count(*) AS everybody,
       (SELECT COALESCE(max_running, (SELECT (spec ->> 'max_running_per_user')::integer FROM hub))
        FROM users WHERE name = %(name)s) AS own_limit,
       (SELECT (spec ->> 'max_running_per_user')::integer FROM hub) AS limit_each,
       (SELECT (spec ->> 'max_running_global')::integer FROM hub) AS limit
FROM workspaces w JOIN users u ON u.id = w.owner_user_id
WHERE {COUNTED}
"""

OWNERS: Final = """
SELECT DISTINCT u.name FROM workspaces w JOIN users u ON u.id = w.owner_user_id
WHERE w.deleted_at IS NULL ORDER BY u.name LIMIT %(limit)s
"""

PEOPLE: Final = f"""
SELECT u.name, u.display_name, u.role, u.disabled_at IS NOT NULL AS disabled,
       u.password_hash IS NOT NULL AS has_password, u.spec_source,
       COALESCE(u.max_running, (SELECT (spec ->> 'max_running_per_user')::integer FROM hub))
           AS limit,
       count(w.id) AS workspaces, max(w.last_access_at) AS last_access_at,
       count(w.id) FILTER (WHERE {COUNTED}) AS running,
       COALESCE(array_agg(w.name ORDER BY w.name) FILTER (WHERE {COUNTED}), '{{}}')
           AS running_names
FROM users u LEFT JOIN workspaces w ON w.owner_user_id = u.id AND w.deleted_at IS NULL
GROUP BY u.id ORDER BY disabled, u.name LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class InUse:
    """How many run, of one person's and in all; a limit of None leaves it to the settings."""

    own: int
    everybody: int
    own_limit: int | None
    limit_each: int | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class PersonInUse:
    """Somebody, and what is theirs."""

    name: str
    display_name: str
    role: Role
    disabled: bool
    has_password: bool
    source: str
    limit: int | None
    workspaces: int
    running: int
    running_names: tuple[str, ...] = field(default=())
    last_access_at: datetime | None = None


async def count_phases(conn: AsyncConnection[DictRow], owner: str | None) -> Mapping[Phase, int]:
    """How many are in each phase; phases that nobody is in are not there."""
    rows = await fetch(conn, COUNT, {"owner": owner})
    return {Phase(row["phase"]): row["count"] for row in rows}


async def read_in_use(conn: AsyncConnection[DictRow], name: str) -> InUse:
    """What this person and everybody run, and how many they may."""
    row = (await fetch(conn, RUNNING, {"name": name}))[0]
    return InUse(**row)


async def read_owners(conn: AsyncConnection[DictRow], limit: int = 500) -> tuple[str, ...]:
    """Who has workspaces."""
    return tuple(row["name"] for row in await fetch(conn, OWNERS, {"limit": limit}))


async def read_people(conn: AsyncConnection[DictRow], limit: int = 500) -> tuple[PersonInUse, ...]:
    """Everybody whom the hub knows, those who may not log in any more last."""
    return tuple(
        PersonInUse(
            name=row["name"],
            display_name=row["display_name"],
            role=Role(row["role"]),
            disabled=row["disabled"],
            has_password=row["has_password"],
            source=row["spec_source"],
            limit=row["limit"],
            workspaces=row["workspaces"],
            running=row["running"],
            running_names=tuple(row["running_names"]),
            last_access_at=row["last_access_at"],
        )
        for row in await fetch(conn, PEOPLE, {"limit": limit})
    )
