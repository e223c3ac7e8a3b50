"""Users as the specs declare them: disabled, never removed, since rows and the audit name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg.types.json import Jsonb

from codehub.model.people import Role, User
from codehub.store.columns import source_text
from codehub.store.rows import source_of
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

READ_USERS: Final = """
SELECT name, display_name, role, password_hash, max_running, disabled_at, spec_source
FROM users ORDER BY name
"""

READ_USER_IDS: Final = "SELECT name, id FROM users"

# A user who is declared again is no longer disabled. Rows that would not change are not written.
UPSERT_USERS: Final = """
INSERT INTO users AS u (name, display_name, role, password_hash, max_running, spec_source)
SELECT name, display_name, role, password_hash, max_running, spec_source
FROM jsonb_populate_recordset(NULL::users, %(users)s)
ON CONFLICT (name) DO UPDATE SET
    display_name = EXCLUDED.display_name,
    role = EXCLUDED.role,
    password_hash = EXCLUDED.password_hash,
    max_running = EXCLUDED.max_running,
    spec_source = EXCLUDED.spec_source,
    disabled_at = NULL
WHERE (u.display_name, u.role, u.password_hash, u.max_running, u.spec_source, u.disabled_at)
    IS DISTINCT FROM (EXCLUDED.display_name, EXCLUDED.role, EXCLUDED.password_hash,
                      EXCLUDED.max_running, EXCLUDED.spec_source, NULL::timestamptz)
"""

# What lets them in goes in the same statement: there is no moment with one and without the other.
DISABLE_REMOVED: Final = """
WITH removed AS (
    UPDATE users SET disabled_at = %(at)s
    WHERE disabled_at IS NULL AND NOT name = ANY(%(declared)s)
    RETURNING id
), no_sessions AS (
    DELETE FROM sessions USING removed WHERE sessions.user_id = removed.id
), no_tokens AS (
    DELETE FROM api_tokens USING removed WHERE api_tokens.user_id = removed.id
)
SELECT count(*) AS disabled FROM removed
"""


async def read_users(conn: AsyncConnection[DictRow]) -> dict[str, User]:
    """Everybody the hub knows, disabled ones included, by name."""
    return {
        row["name"]: User(
            name=row["name"],
            display_name=row["display_name"],
            role=Role(row["role"]),
            password_hash=row["password_hash"],
            max_running=row["max_running"],
            disabled=row["disabled_at"] is not None,
            source=source_of(row["spec_source"]),
        )
        for row in await fetch(conn, READ_USERS)
    }


async def read_user_ids(conn: AsyncConnection[DictRow]) -> dict[str, UUID]:
    return {row["name"]: row["id"] for row in await fetch(conn, READ_USER_IDS)}


async def upsert_users(conn: AsyncConnection[DictRow], users: Iterable[User]) -> None:
    """Write those that are new or differ from what is stored."""
    columns = [
        {
            "name": user.name,
            "display_name": user.display_name,
            "role": user.role.value,
            "password_hash": user.password_hash,
            "max_running": user.max_running,
            "spec_source": source_text(user.source),
        }
        for user in users
    ]
    await conn.execute(UPSERT_USERS, {"users": Jsonb(columns)})


async def disable_removed(
    conn: AsyncConnection[DictRow], declared: Iterable[str], at: object
) -> None:
    """Disable everybody else and end their sessions and tokens."""
    await conn.execute(DISABLE_REMOVED, {"declared": list(declared), "at": at})
