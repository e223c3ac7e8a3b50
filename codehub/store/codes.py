"""One-time codes in SQL. Whoever deletes the row has redeemed the code, and nobody else can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.model.access import Purpose
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

ADD_LINK: Final = """
INSERT INTO login_codes (code_hash, purpose, user_id, expires_at)
SELECT %(hash)s, 'link', id, now() + %(lasts)s FROM users
WHERE name = %(user)s AND disabled_at IS NULL
RETURNING user_id
"""

ADD_HANDOVER: Final = """
INSERT INTO login_codes (code_hash, purpose, user_id, session_id, host, expires_at)
SELECT %(hash)s, 'handover', user_id, id, %(host)s, now() + %(lasts)s FROM sessions
WHERE id = %(session_id)s AND host = '' AND revoked_at IS NULL AND expires_at > now()
RETURNING user_id
"""

# Used up whatever comes of it: a code that was tried on another host is nobody's any more.
TAKE: Final = """
DELETE FROM login_codes WHERE code_hash = %(hash)s
RETURNING purpose, user_id, session_id, host, expires_at > now() AS fresh
"""

FORGET: Final = "DELETE FROM login_codes WHERE expires_at <= now()"


@dataclass(frozen=True, slots=True)
class Code:
    """What a code was good for."""

    purpose: Purpose
    user_id: UUID
    session_id: UUID | None
    host: str
    fresh: bool


async def add_link(
    conn: AsyncConnection[DictRow], code_hash: str, user: str, lasts: timedelta
) -> bool:
    """Keep a code that logs this user in; False where there is no such user."""
    values = {"hash": code_hash, "user": user, "lasts": lasts}
    return bool(await fetch(conn, ADD_LINK, values))


async def add_handover(
    conn: AsyncConnection[DictRow], code_hash: str, session_id: UUID, host: str, lasts: timedelta
) -> bool:
    """Keep a code that takes this session to a host; False when the session has ended."""
    values = {"hash": code_hash, "session_id": session_id, "host": host, "lasts": lasts}
    return bool(await fetch(conn, ADD_HANDOVER, values))


async def take(conn: AsyncConnection[DictRow], code_hash: str) -> Code | None:
    """Use a code up, and those that nobody used in time."""
    rows = await fetch(conn, TAKE, {"hash": code_hash})
    await conn.execute(FORGET)
    return Code(**{**rows[0], "purpose": Purpose(rows[0]["purpose"])}) if rows else None
