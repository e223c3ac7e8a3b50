"""A hub with a few users, and requests as the wire hands them over."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from argon2 import PasswordHasher

from codehub.core.throttle import Pace, Paces
from codehub.model.access import Person, Visitor
from codehub.model.people import Role
from codehub.proxy.seam import RequestHead
from codehub.service.passwords import Passwords, hash_password
from codehub.service.sessions import Lasting, log_in
from codehub.store.access import find_account
from codehub.store.pool import Pool
from codehub.store.users import upsert_users
from tests.make import user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codehub.model.access import Opened

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
PASSWORD = "correct horse battery"
LASTING = Lasting()
HOME = Visitor("192.0.2.1", "Firefox")
LONG = Pace(free=4, first=3600, most=3600, forget=1e9)
"""Nobody waits this out in a test, however slow the machine is."""
PATIENT = Paces(LONG, Pace(20, 3600, 3600, 1e9), Pace(10, 3600, 3600, 1e9))


@dataclass(slots=True)
class Hub:
    """Users alice (a member), bob (an admin) and carol, who has no password."""

    url: str
    pool: Pool
    passwords: Passwords

    async def log_in(
        self, name: str = "alice", password: str = PASSWORD, visitor: Visitor = HOME, **more: Any
    ) -> Opened:
        more = {**dict[str, Any](lasting=LASTING, paces=PATIENT), **more}
        return await log_in(self.pool, self.passwords, name, password, visitor, **more)

    async def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        async with self.pool.connection() as conn:
            cursor = await conn.execute(query.encode(), values or None)
            return list(await cursor.fetchall()) if cursor.description else []

    async def person(self, name: str) -> Person:
        async with self.pool.connection() as conn:
            account = await find_account(conn, name)
        assert account is not None
        return account.person

    async def everything(self) -> str:
        """All rows of all tables, as text."""
        tables = await self.rows("SELECT relname FROM pg_stat_user_tables")
        parts = [await self.rows(f"SELECT t::text AS row FROM {t['relname']} t") for t in tables]
        return "\n".join(str(row["row"]) for part in parts for row in part)


@asynccontextmanager
async def open_hub(url: str) -> AsyncIterator[Hub]:
    async with Pool(url, size=4, checked=True) as pool:
        with Passwords(hasher=CHEAP) as passwords:
            yield Hub(url, pool, passwords)


async def fill(hub: Hub) -> None:
    people = [
        user("alice", password_hash=hash_password(PASSWORD, CHEAP)),
        user("bob", role=Role.ADMIN, password_hash=hash_password("another password", CHEAP)),
        user("carol"),
    ]
    async with hub.pool.connection() as conn:
        await upsert_users(conn, people)


def request(
    *headers: tuple[str, str],
    method: str = "GET",
    peer: str = "192.0.2.1",
    cookie: str | None = None,
    bearer: str | None = None,
    secure: bool = False,
) -> RequestHead:
    """A request; `cookie` is a session's secret, `bearer` a token."""
    listed = [(name.encode(), value.encode()) for name, value in headers]
    if cookie is not None:
        name = "__Host-codehub" if secure else "codehub"
        listed.append((b"Cookie", f"{name}={cookie}".encode()))
    if bearer is not None:
        listed.append((b"Authorization", f"Bearer {bearer}".encode()))
    return RequestHead(method.encode(), b"/w/api/", listed, peer, secure)
