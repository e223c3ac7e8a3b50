"""Logins without a password: the one-time link, and the way to a workspace's own host.

A link is made by somebody at the hub's machine (`codehub up`, `codehub open`). A hand-over takes a
login from the hub's host to one workspace's host, which has a cookie of its own: the code is good
for that session, that host and that browser, for a minute, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeGuard

from codehub.core.fingerprint import fingerprint
from codehub.errors import NotFound, NotLetIn
from codehub.model.access import AccessKind, Opened, Purpose, Visitor
from codehub.service.minting import new_secret
from codehub.service.sessions import Lasting, tidy
from codehub.store.access import append_access
from codehub.store.codes import add_handover, add_link, take
from codehub.store.connect import transaction
from codehub.store.sessions import add_host_session, add_session

if TYPE_CHECKING:
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.access import Session
    from codehub.store.codes import Code

USED_UP: Final = "this login link was used already, or is too old"


async def create_login_link(
    conn: AsyncConnection[DictRow], user: str, *, by: str = "", lasting: Lasting | None = None
) -> str:
    """A code that logs this user in, once. Raises NotFound where there is no such user."""
    code = new_secret()
    async with transaction(conn):
        lasts = (lasting or Lasting()).link
        if not await add_link(conn, fingerprint(code), user, lasts):
            raise NotFound(f'there is no user "{user}"', hint="declare one in the specs")
        await append_access(conn, AccessKind.LINK, user, Visitor(), by=by)
    return code


async def redeem(
    conn: AsyncConnection[DictRow], code: str, visitor: Visitor, *, lasting: Lasting
) -> Opened:
    """The session of a login link. Raises NotLetIn when it is used, old, or none of ours."""
    secret = new_secret()
    async with transaction(conn):
        taken = await take(conn, fingerprint(code))
        session = None
        if _good(taken, Purpose.LINK):
            session = await add_session(
                conn, taken.user_id, fingerprint(secret), tidy(visitor), lasting.session
            )
        if session is not None:
            await _note(conn, session, visitor, "with a login link")
    # Only after the commit: a code that was tried in vain is used up too.
    return _opened(session, secret, USED_UP, "make a new one with 'codehub open --as NAME'")


async def hand_over(
    conn: AsyncConnection[DictRow],
    session_id: UUID,
    host: str,
    *,
    state: str = "",
    lasting: Lasting | None = None,
) -> str:
    """A code that takes this session, the hub's, to one host. Raises NotLetIn when it has ended.

    `state` is something only the asking browser has, in a cookie of that host, so that nobody can
    log another one in by sending them a code.
    """
    code = new_secret()
    lasts = (lasting or Lasting()).handover
    async with transaction(conn):
        if not await add_handover(conn, _bound(code, state), session_id, host.lower(), lasts):
            raise NotLetIn("this login has ended", hint="log in again")
    return code


async def arrive(
    conn: AsyncConnection[DictRow], code: str, host: str, visitor: Visitor, *, state: str = ""
) -> Opened:
    """The session on a workspace's host; it ends with the one it comes from."""
    secret, host = new_secret(), host.lower()
    async with transaction(conn):
        taken = await take(conn, _bound(code, state))
        session = None
        if _good(taken, Purpose.HANDOVER) and taken.host == host and taken.session_id:
            session = await add_host_session(
                conn, taken.session_id, fingerprint(secret), tidy(visitor), host
            )
        if session is not None:
            await _note(conn, session, visitor, f"handed over to {host}")
    return _opened(session, secret, "this login did not arrive in time", "open the workspace again")


def _good(code: Code | None, purpose: Purpose) -> TypeGuard[Code]:
    return code is not None and code.fresh and code.purpose is purpose


def _bound(code: str, state: str) -> str:
    """Both go into the hash: without the state the code is another one."""
    return fingerprint(f"{code} {state}")


def _opened(session: Session | None, secret: str, problem: str, hint: str) -> Opened:
    if session is None:
        raise NotLetIn(problem, hint=hint)
    return Opened(session, secret)


async def _note(
    conn: AsyncConnection[DictRow], session: Session, visitor: Visitor, how: str
) -> None:
    await append_access(conn, AccessKind.LOGIN, session.person.name, tidy(visitor), reason=how)
