"""Users and keys as far as access is concerned, and the audit of who was let in.

The audit keeps no secret, and no name that nobody has: people type passwords where names belong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from codehub.model.access import AccessEvent, AccessKind, Person
from codehub.model.people import Role
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.access import Visitor

CHANNEL: Final = "access"
"""Where Postgres tells of sessions, tokens and users that are no longer what they were."""

FIND_USER: Final = """
SELECT id, name, role, password_hash FROM users WHERE name = %(name)s AND disabled_at IS NULL
"""

# Not FOR UPDATE: rows that refer to a user may be added meanwhile.
LOCK_USER: Final = f"{FIND_USER} FOR NO KEY UPDATE"

FIND_PEOPLE: Final = """
SELECT id, name, role FROM users WHERE name = ANY(%(names)s) AND disabled_at IS NULL
"""

FIRST_PERSON: Final = """
SELECT id, name, role FROM users WHERE disabled_at IS NULL
ORDER BY role <> 'admin', name LIMIT 1
"""

MAKE_KEY: Final = """
INSERT INTO auth_keys (name, secret) VALUES (%(name)s, %(secret)s) ON CONFLICT DO NOTHING
"""

READ_KEY: Final = "SELECT secret FROM auth_keys WHERE name = %(name)s"

APPEND: Final = """
INSERT INTO access_events (kind, user_name, by, address, agent, reason)
VALUES (%(kind)s, %(user)s, %(by)s, %(address)s, %(agent)s, %(reason)s)
"""

READ_EVENTS: Final = """
SELECT id, at, kind, user_name AS user, by, address, agent, reason FROM (
    SELECT * FROM access_events
    WHERE (%(user)s::text IS NULL OR user_name = %(user)s) AND id > %(after)s
        AND (%(within)s::interval IS NULL OR at > now() - %(within)s::interval)
    ORDER BY id DESC LIMIT %(limit)s
) AS latest ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who may log in."""

    person: Person
    password_hash: str | None = field(repr=False)


async def find_account(conn: AsyncConnection[DictRow], name: str) -> Account | None:
    """Who has this name and is not disabled."""
    return await _account(conn, FIND_USER, name)


async def lock_account(conn: AsyncConnection[DictRow], name: str) -> Account | None:
    """As `find_account`, and nobody else gets them so until the caller's transaction ends."""
    return await _account(conn, LOCK_USER, name)


async def _account(conn: AsyncConnection[DictRow], query: str, name: str) -> Account | None:
    rows = await fetch(conn, query, {"name": name})
    return Account(person_of(rows[0]), rows[0]["password_hash"]) if rows else None


async def find_people(conn: AsyncConnection[DictRow], names: Sequence[str]) -> dict[str, Person]:
    """Those of these names that are not disabled."""
    rows = await fetch(conn, FIND_PEOPLE, {"names": list(names)})
    return {row["name"]: person_of(row) for row in rows}


async def first_person(conn: AsyncConnection[DictRow]) -> Person | None:
    """Somebody to log in as on a hub of one's own: an admin, where there is one."""
    rows = await fetch(conn, FIRST_PERSON)
    return person_of(rows[0]) if rows else None


async def read_key(conn: AsyncConnection[DictRow], name: str, fresh: str) -> str:
    """The hub's key for a purpose; `fresh` becomes it where there was none."""
    rows = await fetch(conn, READ_KEY, {"name": name})
    if not rows:
        await conn.execute(MAKE_KEY, {"name": name, "secret": fresh})
        rows = await fetch(conn, READ_KEY, {"name": name})
    key: str = rows[0]["secret"]
    return key


async def append_access(
    conn: AsyncConnection[DictRow],
    kind: AccessKind,
    user: str,
    visitor: Visitor,
    *,
    by: str = "",
    reason: str = "",
) -> None:
    """Write one line of the audit, within the caller's transaction."""
    values = {
        "kind": kind.value,
        "user": user,
        "by": by or user,
        "address": visitor.address,
        "agent": visitor.agent,
        "reason": reason,
    }
    await conn.execute(APPEND, values)


async def access_events(
    conn: AsyncConnection[DictRow],
    user: str | None = None,
    limit: int | None = 100,
    *,
    after: int = 0,
    within: timedelta | None = None,
) -> tuple[AccessEvent, ...]:
    """The latest of all or of one user, oldest first; after an id, or of the last while."""
    asked = {"user": user, "limit": limit, "after": after, "within": within}
    rows = await fetch(conn, READ_EVENTS, asked)
    return tuple(AccessEvent(**{**row, "kind": AccessKind(row["kind"])}) for row in rows)


def person_of(row: Mapping[str, Any]) -> Person:
    return Person(row["id"], row["name"], Role(row["role"]))
