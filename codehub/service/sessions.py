"""Logging in and out.

A login is counted, then checked, then settled, in two transactions with the slow part between them:
no connection and no lock is held while a password is looked at. What was counted stays a failure
unless the password turns out to be right, so a process that dies in between helps nobody. Where so
many log in that nobody would look at a password, nothing is counted.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Final

from codehub.core.fingerprint import fingerprint
from codehub.core.throttle import PACES, keys
from codehub.errors import NotLetIn, TooManyTries
from codehub.model.access import AccessKind, Opened, Visitor
from codehub.service.minting import new_secret
from codehub.store.access import append_access, find_account
from codehub.store.connect import transaction
from codehub.store.failures import count_try, forget_failures, take_back
from codehub.store.sessions import (
    add_session,
    end_all_sessions,
    end_session,
    forget_sessions,
    opened_from,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.config import Settings
    from codehub.core.throttle import Pace, Paces
    from codehub.model.access import Person
    from codehub.service.passwords import Passwords
    from codehub.store.access import Account
    from codehub.store.pool import Pool

log: Final = logging.getLogger("codehub.access")

LATELY: Final = timedelta(days=30)
"""Where an account was opened from in this time, strangers' tries do not slow its owner down."""
WRONG: Final = "name or password is wrong"
LONGEST_NAME: Final = 100
LONGEST_AGENT: Final = 200
LONGEST_ADDRESS: Final = 64


@dataclass(frozen=True, slots=True)
class Lasting:
    """How long logins and codes last."""

    session: timedelta = timedelta(days=14)
    idle: timedelta = timedelta(days=3)
    link: timedelta = timedelta(minutes=15)
    handover: timedelta = timedelta(minutes=1)


def lasting_of(settings: Settings) -> Lasting:
    """As the settings say."""
    return Lasting(
        timedelta(seconds=settings.auth_session_seconds),
        timedelta(seconds=settings.auth_idle_seconds),
        timedelta(seconds=settings.auth_link_seconds),
    )


async def log_in(
    pool: Pool,
    passwords: Passwords,
    name: str,
    password: str,
    visitor: Visitor,
    *,
    lasting: Lasting,
    replaces: UUID | None = None,
    paces: Paces = PACES,
) -> Opened:
    """A new session, with a new secret. `replaces` is the one the browser came with, which ends.

    Raises NotLetIn, TooManyTries, or Unreachable when the database gives no answer.
    """
    visitor, name = tidy(visitor), _printable(name.strip(), LONGEST_NAME)
    with passwords.place():
        async with pool.connection() as conn:
            account, counted = await _begin(conn, name, visitor, paces)
        stored = account.password_hash if account else None
        right = await passwords.check(stored, password)
    async with pool.connection() as conn:
        if not right or account is None or stored is None:
            await _note_failure(conn, account, visitor)
            raise NotLetIn(WRONG, hint="try again; who forgot theirs asks an administrator")
        opened = await _settle(conn, account, visitor, lasting, counted, replaces)
    if passwords.outdated(stored):
        log.warning("%s", outdated_text(account.person.name))
    return opened


async def log_out(
    conn: AsyncConnection[DictRow], session_id: UUID, visitor: Visitor, *, by: str = ""
) -> bool:
    """End a login, on the hub and on all hosts it was handed over to; False when it had ended."""
    async with transaction(conn):
        user = await end_session(conn, session_id)
        if user is not None:
            await append_access(conn, AccessKind.LOGOUT, user, tidy(visitor), by=by)
    return user is not None


async def log_out_everywhere(
    conn: AsyncConnection[DictRow], person: Person, visitor: Visitor, *, by: str = ""
) -> int:
    """End all logins of somebody; how many there were."""
    async with transaction(conn):
        count = await end_all_sessions(conn, person.id)
        if count:
            logins = "1 login" if count == 1 else f"{count} logins"
            await append_access(
                conn, AccessKind.LOGOUT, person.name, tidy(visitor), by=by, reason=f"all {logins}"
            )
    return count


def tidy(visitor: Visitor) -> Visitor:
    """Fit for a row and for a line of the audit: browsers may call themselves anything."""
    return Visitor(
        _printable(visitor.address, LONGEST_ADDRESS), _printable(visitor.agent, LONGEST_AGENT)
    )


def outdated_text(name: str) -> str:
    """What to tell about a hash with old parameters."""
    return (
        f"the password hash of {name} was made with other parameters than today's: "
        "make a new one with 'codehub user hash-password'"
    )


def _printable(text: str, most: int) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:most])


async def _begin(
    conn: AsyncConnection[DictRow], name: str, visitor: Visitor, paces: Paces
) -> tuple[Account | None, Mapping[str, Pace]]:
    """Count the try, and see whose account it is."""
    async with transaction(conn):
        known = await opened_from(conn, name, visitor.address, LATELY)
        watched = keys(name, visitor.address, paces, known=known)
        wait = await count_try(conn, watched)
        account = await find_account(conn, name)
    if wait > 0:
        # Not in the audit, which one address could fill; and no name, which may be a password.
        log.warning("too many failed logins: one from %s was not tried", visitor.address)
        raise _too_many(wait)
    return account, watched


async def _note_failure(
    conn: AsyncConnection[DictRow], account: Account | None, visitor: Visitor
) -> None:
    user = account.person.name if account else ""
    if account is None:
        reason = "no such user"
    else:
        reason = "wrong password" if account.password_hash else "this user has no password"
    async with transaction(conn):
        await append_access(conn, AccessKind.FAILED, user, visitor, by="nobody", reason=reason)
    await forget_failures(conn)


async def _settle(
    conn: AsyncConnection[DictRow],
    account: Account,
    visitor: Visitor,
    lasting: Lasting,
    counted: Mapping[str, Pace],
    replaces: UUID | None,
) -> Opened:
    secret = new_secret()
    async with transaction(conn):
        await take_back(conn, counted)
        if replaces is not None:
            await end_session(conn, replaces)
        session = await add_session(
            conn,
            account.person.id,
            fingerprint(secret),
            visitor,
            lasting.session,
            password_hash=account.password_hash,
        )
        if session is None:
            raise NotLetIn(WRONG, hint="the account was changed just now; try again")
        await append_access(
            conn, AccessKind.LOGIN, account.person.name, visitor, reason="with a password"
        )
    await forget_sessions(conn, LATELY)
    return Opened(session, secret)


def _too_many(wait: float) -> TooManyTries:
    seconds = ceil(wait)
    span = f"{seconds} second{'' if seconds == 1 else 's'}"
    if seconds > 90:
        span = f"{ceil(seconds / 60)} minutes"
    return TooManyTries(
        f"too many failed logins; the next one can be tried in {span}",
        hint="wait, or ask an administrator for a login link",
        seconds=seconds,
    )
