"""Tokens for programs: made, listed, revoked. The secret is shown once, to whoever made it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codehub.core.fingerprint import fingerprint
from codehub.core.suggest import did_you_mean
from codehub.errors import NotFound, Refused, UsageError
from codehub.model.access import AccessKind, Issued, Scope, Visitor
from codehub.model.scalars import NAME_LENGTH, NAME_PATTERN
from codehub.service.minting import new_token
from codehub.service.sessions import tidy
from codehub.store.access import append_access, find_account
from codehub.store.connect import transaction
from codehub.store.tokens import add_token, end_token, read_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

NOWHERE: Final = Visitor()
MOST: Final = 100
"""Tokens that one user may have: more than anybody can keep an eye on."""


async def create_token(
    conn: AsyncConnection[DictRow],
    user: str,
    name: str,
    scopes: Iterable[Scope],
    lasts: timedelta,
    *,
    by: str,
    visitor: Visitor = NOWHERE,
) -> Issued:
    """A new token of this user. Raises NotFound, or Refused: a taken name, or too many."""
    wanted = frozenset(scopes)
    _check(name, wanted)
    secret = new_token()
    async with transaction(conn):
        account = await find_account(conn, user)
        if account is None:
            raise NotFound(f'there is no user "{user}"', hint="declare one in the specs")
        if len(await read_tokens(conn, user)) >= MOST:
            raise Refused(f"{user} has {MOST} tokens already", hint="revoke some of them first")
        token = await add_token(conn, account.person.id, name, fingerprint(secret), wanted, lasts)
        reason = f"{name} ({', '.join(sorted(wanted))})"
        await append_access(
            conn, AccessKind.TOKEN_CREATED, user, tidy(visitor), by=by, reason=reason
        )
    return Issued(token, secret)


async def revoke_token(
    conn: AsyncConnection[DictRow],
    user: str,
    name: str,
    *,
    by: str,
    visitor: Visitor = NOWHERE,
) -> None:
    """End a token at once. Raises NotFound where this user has none of that name."""
    async with transaction(conn):
        if not await end_token(conn, user, name):
            names = [token.name for token in await read_tokens(conn, user)]
            raise NotFound(
                f'{user} has no token "{name}"{did_you_mean(name, names)}',
                hint="see 'codehub token list'",
            )
        await append_access(conn, AccessKind.TOKEN_REVOKED, user, tidy(visitor), by=by, reason=name)


def _check(name: str, scopes: frozenset[Scope]) -> None:
    if len(name) > NAME_LENGTH or not re.fullmatch(NAME_PATTERN, name):
        raise UsageError(
            f"a token's name has at most {NAME_LENGTH} small letters, digits and hyphens",
            hint="example: ci-plan",
        )
    if not scopes:
        raise UsageError("a token needs a scope", hint=f"one of {', '.join(Scope)}")
