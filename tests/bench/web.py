"""A web application to be measured: `codehub serve web` in a process of its own, and people."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codehub.core.fingerprint import fingerprint
from codehub.model.access import Visitor
from codehub.model.people import Role
from codehub.service.minting import new_secret
from codehub.store.sessions import add_session
from codehub.store.users import read_user_ids, upsert_users
from tests.bench.measure import codehub
from tests.bench.proxies.processes import free_port, running
from tests.make import user

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    Conn = AsyncConnection[DictRow]

DAY: Final = timedelta(days=1)
CONNECTIONS: Final = """
SELECT count(*) AS n FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


@dataclass(frozen=True, slots=True)
class Web:
    """Where it listens, and its process."""

    port: int
    pid: int


@contextmanager
def serving_web(database_url: str, redis_url: str, **settings: str) -> Iterator[Web]:
    """The process until the block ends, on the first core that there is."""
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as name:
        port, log = free_port(), Path(name) / "web.log"
        env = _env(settings) | {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
        command = codehub("serve", "web", "--port", str(port))
        with running(command, port, min(os.sched_getaffinity(0)), log, env) as pid:
            yield Web(port, pid)


def _env(settings: Mapping[str, str]) -> dict[str, str]:
    return {name.upper(): value for name, value in settings.items()}


async def admins(conn: Conn, count: int) -> list[str]:
    """So many admins, each with a login of their own: the headers that show it."""
    names = [f"admin-{number}" for number in range(count)]
    await upsert_users(conn, [user(name, role=Role.ADMIN) for name in names])
    ids, shown = await read_user_ids(conn), []
    for name in names:
        secret = new_secret()
        await add_session(conn, ids[name], fingerprint(secret), Visitor(), DAY)
        shown.append(f"Cookie: codehub={secret}")
    return shown


async def connections(conn: Conn) -> int:
    """To this database, others' than this one."""
    row = await (await conn.execute(CONNECTIONS)).fetchone()
    assert row is not None
    return int(row["n"])


def request(path: str, shown: str) -> bytes:
    lines = (f"GET {path} HTTP/1.1", "Host: localhost", shown, "", "")
    return "\r\n".join(lines).encode()


def percentile(values: list[float], part: float) -> float:
    """The smallest value that so great a part of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * part) - 1)]
