"""The way to Postgres: connections with sane options, and its errors in our words.

The driver's errors are translated here and nowhere else: `connect` and `transaction` do it for
what happens inside them, `translated` for a statement on its own. What breaks a constraint is left
alone, since only the caller knows what it means.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import DictRow, dict_row

from codehub.cancelling import cancellations, heed
from codehub.errors import CodeHubError, Conflict, DatabaseProblem, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

OPTIONS: Final[dict[str, str]] = {
    "connect_timeout": "10",
    "application_name": "codehub",
    # With the server's below: a silent network loss shows within 15 seconds on both ends.
    "keepalives_idle": "5",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
    "options": "-c statement_timeout=60s -c idle_in_transaction_session_timeout=60s"
    " -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=3 -c tcp_keepalives_count=3"
    " -c timezone=UTC"
    # A dead client's statement that waits for a lock must not hold up whoever takes over.
    " -c client_connection_check_interval=2s",
}
"""What a connection gets unless its URL says otherwise."""

REFUSALS: Final = (
    ("password authentication failed", "refused the password of", "check it in DATABASE_URL"),
    ("no password supplied", "wants a password for", "give one in DATABASE_URL or ~/.pgpass"),
    ("no pg_hba.conf entry", "does not let in", "allow this client in the server's pg_hba.conf"),
    ("Peer authentication failed", "does not let in", "connect as that user, or with a password"),
    ("too many", "has no connection left for", "raise max_connections, or stop other clients"),
)
"""What the server says, and what it means for the user who connects; it sends no code for it."""


async def connect(url: str) -> AsyncConnection[DictRow]:
    """A connection in autocommit, with rows as dicts. Raises Unreachable or DatabaseProblem."""
    given = arguments(url)
    try:
        return await AsyncConnection.connect(given, autocommit=True, row_factory=dict_row)
    except psycopg.OperationalError as error:
        raise unreachable(error, url) from error


@asynccontextmanager
async def transaction(
    conn: AsyncConnection[DictRow], *, snapshot: bool = False
) -> AsyncIterator[AsyncConnection[DictRow]]:
    """One transaction: committed at the end of the block, undone when it raises.

    A snapshot reads only, and all its queries see one moment.
    """
    with translated():
        async with conn.transaction():
            if snapshot:
                await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield conn


@contextmanager
def translated() -> Iterator[None]:
    """Turns what the driver raises into our errors, where it has a meaning for everybody."""
    since = cancellations()
    try:
        yield
    except psycopg.Error as error:
        heed(since)
        meaning = translate(error)
        if meaning is None:
            raise
        raise meaning from error


def translate(error: psycopg.Error) -> CodeHubError | None:
    """Our error for one of the driver's; None for what only the caller can judge."""
    match error:
        case errors.SerializationFailure() | errors.DeadlockDetected():
            return Conflict("somebody else changed the same at this moment", hint="try again")
        case errors.QueryCanceled() | errors.LockNotAvailable():
            return Unreachable("the database took too long to answer", hint="try again later")
        case errors.DiskFull():
            return DatabaseProblem("the database's disk is full", hint="make room on its server")
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return DatabaseProblem(
                "the database's tables are not those of this codehub",
                hint="run 'codehub db upgrade'",
            )
        case errors.InsufficientPrivilege():
            return DatabaseProblem(
                f"the database refuses: {_first_line(error)}", hint="grant its user that right"
            )
        case errors.ReadOnlySqlTransaction():
            return DatabaseProblem(
                "the database is read-only", hint="set DATABASE_URL to the primary server"
            )
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return Unreachable(
                f"the connection to the database was lost: {_first_line(error)}",
                hint="see whether its server runs",
            )
    return None


def unreachable(error: psycopg.OperationalError, url: str) -> Unreachable:
    """Why no connection came about, told apart by what the server or the network said."""
    said, where = str(error), redacted(url)
    for phrase, what, hint in REFUSALS:
        if phrase in said:
            return Unreachable(f"the database server {what} {where}", hint=hint)
    if "does not exist" in said and "database" in said:
        return Unreachable(
            f"there is no such database: {where}", hint="create it, or correct DATABASE_URL"
        )
    if "does not exist" in said and "role" in said:
        return Unreachable(
            f"the database server knows no such user: {where}", hint="correct DATABASE_URL"
        )
    return Unreachable(
        f"no database server answers at {where} ({_reason(said)})",
        hint="start it, or correct DATABASE_URL",
    )


def arguments(url: str, **more: str) -> str:
    """The connection string for a URL: what it says, our options for what it does not."""
    return make_conninfo(**{**OPTIONS, **more, **_parts(url)})


def redacted(url: str) -> str:
    """A database URL to show: server, user and database, never a password or an option."""
    try:
        parts = _parts(url)
    except DatabaseProblem:
        return "(a database URL that cannot be read)"
    host, port = parts.get("host", ""), parts.get("port")
    user = quote(parts["user"]) + "@" if "user" in parts else ""
    server = host + (f":{port}" if port else "") if not host.startswith("/") else ""
    shown = f"postgresql://{user}{server}/{quote(parts.get('dbname', ''))}"
    return shown if server or not host else f"{shown}?host={host}"


def _parts(url: str) -> dict[str, Any]:
    """The URL taken apart; SQLAlchemy's way of naming the driver is understood too.

    The driver's complaint quotes the URL with its password, so it is not passed on.
    """
    scheme, sep, rest = url.partition("://")
    plain = f"{scheme.partition('+')[0]}{sep}{rest}" if sep else url
    try:
        parts = dict(conninfo_to_dict(plain))
    except psycopg.ProgrammingError:
        parts = {}
    if not parts:
        raise DatabaseProblem(
            "DATABASE_URL is not a PostgreSQL URL",
            hint="write it as postgresql://user:password@host:5432/database",
        )
    return parts


def _first_line(error: psycopg.Error) -> str:
    return str(error).partition("\n")[0]


def _reason(said: str) -> str:
    """The end of the first line, which says what went wrong: "Connection refused"."""
    first = said.strip().partition("\n")[0]
    return first.rpartition(": ")[2].strip() or "no answer"
