"""API tokens in SQL: scoped, expiring, and known by their hash only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg import errors
from psycopg.types.json import Jsonb

from codehub.errors import Refused
from codehub.model.access import Person, Scope, Token
from codehub.model.people import Role
from codehub.store.workspaces import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

# The name of one that has expired is free again.
RETIRE: Final = """
UPDATE api_tokens SET revoked_at = now()
WHERE user_id = %(user_id)s AND name = %(name)s AND revoked_at IS NULL AND expires_at <= now()
"""

# A key is good for a while; then it may stand for another token.
RELEASE: Final = """
UPDATE api_tokens SET request_hash = NULL
WHERE user_id = %(user_id)s AND request_hash = %(request)s AND created_at <= now() - %(within)s
"""

ADD: Final = """
WITH t AS (
    INSERT INTO api_tokens (user_id, name, token_hash, scopes, expires_at, request_hash)
    VALUES (%(user_id)s, %(name)s, %(hash)s, %(scopes)s, now() + %(lasts)s, %(request)s)
    RETURNING *
)
SELECT t.*, u.name AS user_name, u.role FROM t JOIN users u ON u.id = t.user_id
"""

_READ: Final = """
SELECT t.*, u.name AS user_name, u.role FROM api_tokens t JOIN users u ON u.id = t.user_id
WHERE t.revoked_at IS NULL AND u.disabled_at IS NULL
"""

FIND: Final = f"""
{_READ} AND t.token_hash = ANY(%(hashes)s) AND (t.expires_at IS NULL OR t.expires_at > now())
"""

RECENT: Final = f"""
{_READ} AND t.last_used_at IS NOT NULL AND (t.expires_at IS NULL OR t.expires_at > now())
ORDER BY t.last_used_at DESC, t.id LIMIT %(most)s
"""

# Everything that a request for a token can say is in the row.
FIND_REQUESTED: Final = """
SELECT t.*, u.name AS user_name, u.role, t.name = %(name)s AND t.scopes = %(scopes)s
    AND t.expires_at = t.created_at + %(lasts)s AS same
FROM api_tokens t JOIN users u ON u.id = t.user_id
WHERE t.user_id = %(user_id)s AND t.request_hash = %(request)s FOR NO KEY UPDATE OF t
"""

REPLACE: Final = "UPDATE api_tokens SET token_hash = %(hash)s WHERE id = %(id)s"

LIST: Final = f"""
{_READ} AND (%(user)s::text IS NULL OR u.name = %(user)s) ORDER BY u.name, t.name
"""

REVOKE: Final = """
UPDATE api_tokens t SET revoked_at = now()
FROM users u
WHERE u.id = t.user_id AND u.name = %(user)s AND t.name = %(name)s AND t.revoked_at IS NULL
RETURNING t.id
"""

USED: Final = """
WITH due AS (
    SELECT t.id, now() - make_interval(secs => ago) AS at
    FROM unnest(%(ids)s::uuid[], %(ago)s::float8[]) AS given (id, ago) JOIN api_tokens t USING (id)
    WHERE t.last_used_at IS NULL OR t.last_used_at < now() - make_interval(secs => ago) - %(slack)s
    ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
)
UPDATE api_tokens t SET last_used_at = due.at FROM due WHERE t.id = due.id
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A token to make; `request` is the hash of what its request is known by, where it has that."""

    user_id: UUID
    name: str
    scopes: frozenset[Scope]
    lasts: timedelta
    request: str | None = None

    @property
    def values(self) -> dict[str, Any]:
        return {
            "user_id": self.user_id,
            "name": self.name,
            "scopes": Jsonb(sorted(scope.value for scope in self.scopes)),
            "lasts": self.lasts,
            "request": self.request,
        }


@dataclass(frozen=True, slots=True)
class Requested:
    """What was made by a request before; `same` says whether that one wanted the same."""

    token: Token
    same: bool
    revoked: bool


async def add_token(conn: AsyncConnection[DictRow], wanted: Wanted, token_hash: str) -> Token:
    """Keep a new token, within the caller's transaction; Refused where its name is taken."""
    await conn.execute(RETIRE, wanted.values)
    try:
        return token_of((await fetch(conn, ADD, wanted.values | {"hash": token_hash}))[0])
    except errors.UniqueViolation:
        raise Refused(
            f'there is a token "{wanted.name}" already',
            hint="revoke it first, or take another name",
        ) from None


async def find_requested(
    conn: AsyncConnection[DictRow], wanted: Wanted, within: timedelta
) -> Requested | None:
    """What the same request made within this time, within the caller's transaction."""
    if wanted.request is None:
        return None
    await conn.execute(RELEASE, wanted.values | {"within": within})
    rows = await fetch(conn, FIND_REQUESTED, wanted.values)
    if not rows:
        return None
    return Requested(token_of(rows[0]), rows[0]["same"], rows[0]["revoked_at"] is not None)


async def replace_secret(conn: AsyncConnection[DictRow], token: Token, token_hash: str) -> None:
    """Another secret in place of the one there was, which is nobody's from then on."""
    await conn.execute(REPLACE, {"id": token.id, "hash": token_hash})


async def find_tokens(conn: AsyncConnection[DictRow], hashes: Sequence[str]) -> dict[str, Token]:
    """Those that are valid now, by the hash of their secret."""
    rows = await fetch(conn, FIND, {"hashes": list(hashes)})
    return {row["token_hash"]: token_of(row) for row in rows}


async def recent_tokens(conn: AsyncConnection[DictRow], most: int) -> list[str]:
    """The hashes of those that are valid now and were used last."""
    return [row["token_hash"] for row in await fetch(conn, RECENT, {"most": most})]


async def read_tokens(conn: AsyncConnection[DictRow], user: str | None = None) -> tuple[Token, ...]:
    """Those that were not revoked, expired ones too, of all or of one user."""
    return tuple(token_of(row) for row in await fetch(conn, LIST, {"user": user}))


async def end_token(conn: AsyncConnection[DictRow], user: str, name: str) -> bool:
    """Revoke a token; False where there is none."""
    return bool(await fetch(conn, REVOKE, {"user": user, "name": name}))


async def write_used(
    conn: AsyncConnection[DictRow], ago: Mapping[UUID, float], slack: timedelta
) -> None:
    """Note when tokens were last used, so many seconds ago; changes within `slack` are left."""
    await conn.execute(USED, {"ids": list(ago), "ago": list(ago.values()), "slack": slack})


def token_of(row: Mapping[str, Any]) -> Token:
    return Token(
        id=row["id"],
        person=Person(row["user_id"], row["user_name"], Role(row["role"])),
        name=row["name"],
        scopes=frozenset(scope for scope in Scope if scope in json.loads(row["scopes"])),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        last_used_at=row["last_used_at"],
    )
