"""Tokens for programs: made, listed, revoked. The secret is shown once, to whoever made it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from codehub.core.fingerprint import fingerprint
from codehub.core.suggest import did_you_mean
from codehub.errors import NotFound, Refused, UsageError
from codehub.model.access import AccessKind, Issued, Scope, Visitor
from codehub.model.scalars import NAME_LENGTH, NAME_PATTERN
from codehub.service.minting import new_token
from codehub.service.sessions import tidy
from codehub.store.access import append_access, lock_account
from codehub.store.connect import transaction
from codehub.store.tokens import (
    Wanted,
    add_token,
    end_token,
    find_requested,
    read_tokens,
    replace_secret,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.access import Token

NOWHERE: Final = Visitor()
KEY_LASTS: Final = timedelta(days=1)
"""How long a request for a token may be sent again."""
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
    key: str | None = None,
) -> Issued:
    """A new token of this user. Raises NotFound, or Refused: a taken name, or too many.

    `key` is what the request is known by. Whoever lost the answer sends it again, and gets the
    same token with another secret: the first one is kept nowhere, so it cannot be told again.
    """
    chosen, secret = frozenset(scopes), new_token()
    _check(name, chosen)
    async with transaction(conn):
        # One at a time for one user: the same request may come twice at once, or one too many.
        account = await lock_account(conn, user)
        if account is None:
            raise NotFound(f'there is no user "{user}"', hint="declare one in the specs")
        request = None if key is None else fingerprint(key)
        wanted = Wanted(account.person.id, name, chosen, lasts, request)
        token = await _make_again(conn, wanted, secret)
        again = "" if token is None else ", asked for again: its first secret ended"
        if token is None:
            token = await _make(conn, user, wanted, secret)
        reason = f"{name} ({', '.join(sorted(chosen))}){again}"
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


async def _make(conn: AsyncConnection[DictRow], user: str, wanted: Wanted, secret: str) -> Token:
    if len(await read_tokens(conn, user)) >= MOST:
        raise Refused(f"{user} has {MOST} tokens already", hint="revoke some of them first")
    return await add_token(conn, wanted, fingerprint(secret))


async def _make_again(conn: AsyncConnection[DictRow], wanted: Wanted, secret: str) -> Token | None:
    """The token that the same request made before, with this secret; None if it made none."""
    made = await find_requested(conn, wanted, KEY_LASTS)
    if made is None:
        return None
    if not made.same:
        raise UsageError(
            "this key was sent with another request", hint="take a new key for a new request"
        )
    if made.revoked:
        raise Refused(
            f'the token "{wanted.name}" that this request made was revoked',
            hint="take a new key to make another one",
        )
    if made.token.last_used_at is not None:
        raise Refused(
            f'the token "{wanted.name}" that this request made is in use',
            hint="its secret did arrive; revoke it if it is not yours, and make another one",
        )
    await replace_secret(conn, made.token, fingerprint(secret))
    return made.token


def _check(name: str, scopes: frozenset[Scope]) -> None:
    if len(name) > NAME_LENGTH or not re.fullmatch(NAME_PATTERN, name):
        raise UsageError(
            f"a token's name has at most {NAME_LENGTH} small letters, digits and hyphens",
            hint="example: ci-plan",
        )
    if not scopes:
        raise UsageError("a token needs a scope", hint=f"one of {', '.join(Scope)}")
