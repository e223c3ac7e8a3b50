"""Sessions in SQL: opened, used, ended. Only hashes of their secrets are known here.

A session ends at its absolute time, when nobody used it for long, when it is revoked, and with the
session it was handed over from. `VALID` says so once, for everybody who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codehub.model.access import Person, Session
from codehub.model.people import Role
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.access import Visitor

# Whoever works on a workspace's host does not visit the hub's: the parent's idle time is not asked.
VALID: Final = """
s.revoked_at IS NULL AND s.expires_at > now() AND u.disabled_at IS NULL
AND COALESCE(s.last_seen_at, s.created_at) > now() - %(idle)s
AND NOT EXISTS (SELECT FROM sessions p WHERE p.id = s.parent_id
                AND (p.revoked_at IS NOT NULL OR p.expires_at <= now()))
"""

# The password is compared once more: it may have been changed while it was checked.
OPEN: Final = """
WITH s AS (
    INSERT INTO sessions (user_id, token_hash, address, user_agent, last_seen_at, expires_at)
    SELECT id, %(hash)s, %(address)s, %(agent)s, now(), now() + %(lasts)s
    FROM users
    WHERE id = %(user_id)s AND disabled_at IS NULL
        AND (%(password_hash)s::text IS NULL OR password_hash = %(password_hash)s)
    RETURNING *
)
SELECT s.*, u.name, u.role FROM s JOIN users u ON u.id = s.user_id
"""

OPEN_ON_HOST: Final = """
WITH s AS (
    INSERT INTO sessions (user_id, token_hash, address, user_agent, last_seen_at, expires_at, host,
                          parent_id)
    SELECT p.user_id, %(hash)s, %(address)s, %(agent)s, now(), p.expires_at, %(host)s, p.id
    FROM sessions p JOIN users u ON u.id = p.user_id
    WHERE p.id = %(parent_id)s AND p.revoked_at IS NULL AND p.expires_at > now()
        AND u.disabled_at IS NULL
    RETURNING *
)
SELECT s.*, u.name, u.role FROM s JOIN users u ON u.id = s.user_id
"""

FIND: Final = f"""
SELECT s.*, u.name, u.role FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.token_hash = ANY(%(hashes)s) AND {VALID}
"""

RECENT: Final = f"""
SELECT s.token_hash FROM sessions s JOIN users u ON u.id = s.user_id
WHERE {VALID} ORDER BY COALESCE(s.last_seen_at, s.created_at) DESC, s.id LIMIT %(most)s
"""

READ: Final = f"""
SELECT s.*, u.name, u.role FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.id = %(id)s AND {VALID}
"""

# Logging out on a workspace's host logs out of the hub: the one it came from ends, and its others.
END: Final = """
WITH root AS (
    SELECT COALESCE(parent_id, id) AS id FROM sessions WHERE id = %(id)s
), open AS (
    SELECT s.id FROM sessions s, root
    WHERE (s.id = root.id OR s.parent_id = root.id) AND s.revoked_at IS NULL
    ORDER BY s.id FOR UPDATE OF s
)
UPDATE sessions s SET revoked_at = now()
FROM open, users u WHERE s.id = open.id AND u.id = s.user_id
RETURNING u.name, s.host
"""

END_ALL: Final = """
WITH open AS (
    SELECT id FROM sessions
    WHERE user_id = %(user_id)s AND revoked_at IS NULL AND expires_at > now()
    ORDER BY id FOR UPDATE
)
UPDATE sessions s SET revoked_at = now() FROM open WHERE s.id = open.id
RETURNING s.host
"""

# A little old counts as fresh: a row is written once in a while, not by every request. Who works on
# a workspace's host uses the session it came from.
SEEN: Final = """
WITH seen AS (
    SELECT id, now() - make_interval(secs => ago) AS at
    FROM unnest(%(ids)s::uuid[], %(ago)s::float8[]) AS given (id, ago)
), all_seen AS (
    SELECT id, max(at) AS at FROM (
        SELECT id, at FROM seen
        UNION ALL
        SELECT s.parent_id, seen.at FROM seen JOIN sessions s USING (id)
        WHERE s.parent_id IS NOT NULL
    ) AS both_of_them GROUP BY id
), due AS (
    SELECT s.id, a.at FROM sessions s JOIN all_seen a USING (id)
    WHERE COALESCE(s.last_seen_at, s.created_at) < a.at - %(slack)s AND s.revoked_at IS NULL
    ORDER BY s.id FOR UPDATE OF s SKIP LOCKED
)
UPDATE sessions s SET last_seen_at = due.at FROM due WHERE s.id = due.id
"""

OPENED_FROM: Final = """
SELECT EXISTS (
    SELECT FROM sessions s JOIN users u ON u.id = s.user_id
    WHERE u.name = %(name)s AND s.address = %(address)s AND s.created_at > now() - %(lately)s
) AS known
"""

# Kept for a while after their end: where an account was opened from says who is no stranger.
FORGET: Final = "DELETE FROM sessions WHERE expires_at < now() - %(after)s"


async def add_session(
    conn: AsyncConnection[DictRow],
    user_id: UUID,
    secret_hash: str,
    visitor: Visitor,
    lasts: timedelta,
    *,
    password_hash: str | None = None,
) -> Session | None:
    """A new session; None when the user is disabled or has another password by now."""
    values = {
        "user_id": user_id,
        "lasts": lasts,
        "password_hash": password_hash,
        **_common(secret_hash, visitor),
    }
    return _first(await fetch(conn, OPEN, values))


async def add_host_session(
    conn: AsyncConnection[DictRow], parent_id: UUID, secret_hash: str, visitor: Visitor, host: str
) -> Session | None:
    """A session for one host that ends with its parent; None when that has ended."""
    values = {"parent_id": parent_id, "host": host, **_common(secret_hash, visitor)}
    return _first(await fetch(conn, OPEN_ON_HOST, values))


async def find_sessions(
    conn: AsyncConnection[DictRow], hashes: Sequence[str], idle: timedelta
) -> dict[str, Session]:
    """Those that are valid now, by the hash of their secret."""
    rows = await fetch(conn, FIND, {"hashes": list(hashes), "idle": idle})
    return {row["token_hash"]: session_of(row) for row in rows}


async def recent_sessions(conn: AsyncConnection[DictRow], idle: timedelta, most: int) -> list[str]:
    """The hashes of those that are valid now and were used last."""
    return [row["token_hash"] for row in await fetch(conn, RECENT, {"idle": idle, "most": most})]


async def read_session(
    conn: AsyncConnection[DictRow], session_id: UUID, idle: timedelta
) -> Session | None:
    """One session, if it is valid now."""
    return _first(await fetch(conn, READ, {"id": session_id, "idle": idle}))


async def end_session(conn: AsyncConnection[DictRow], session_id: UUID) -> str | None:
    """End a login with all its hosts; whose it was, None when it had ended."""
    rows = await fetch(conn, END, {"id": session_id})
    return rows[0]["name"] if rows else None


async def end_all_sessions(conn: AsyncConnection[DictRow], user_id: UUID) -> int:
    """End all logins of a user; how many there were, not counting those of hosts."""
    rows = await fetch(conn, END_ALL, {"user_id": user_id})
    return sum(not row["host"] for row in rows)


async def write_seen(
    conn: AsyncConnection[DictRow], ago: Mapping[UUID, float], slack: timedelta
) -> None:
    """Note when sessions were last used, so many seconds ago; changes within `slack` are left."""
    values = {"ids": list(ago), "ago": list(ago.values()), "slack": slack}
    await conn.execute(SEEN, values)


async def opened_from(
    conn: AsyncConnection[DictRow], name: str, address: str, lately: timedelta
) -> bool:
    """Whether the account was opened from this address not long ago."""
    values = {"name": name, "address": address, "lately": lately}
    return bool(address and (await fetch(conn, OPENED_FROM, values))[0]["known"])


async def forget_sessions(conn: AsyncConnection[DictRow], after: timedelta) -> None:
    """Delete those that ended long ago."""
    await conn.execute(FORGET, {"after": after})


def session_of(row: Mapping[str, Any]) -> Session:
    return Session(
        id=row["id"],
        person=Person(row["user_id"], row["name"], Role(row["role"])),
        expires_at=row["expires_at"],
        host=row["host"],
        parent_id=row["parent_id"],
    )


def _common(secret_hash: str, visitor: Visitor) -> dict[str, str]:
    return {"hash": secret_hash, "address": visitor.address, "agent": visitor.agent}


def _first(rows: Sequence[Mapping[str, Any]]) -> Session | None:
    return session_of(rows[0]) if rows else None
