"""The schema's version: bring a database up to date, say where it is, refuse what does not fit.

Knowing the revisions as a constant keeps Alembic and SQLAlchemy out of every command but
`codehub db upgrade`; a test compares it with the migrations. There is no downgrade.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.rows import dict_row

from codehub.errors import DatabaseProblem
from codehub.store.advisory import OURS, Lock
from codehub.store.connect import arguments, translate, translated, unreachable

if TYPE_CHECKING:
    from alembic.config import Config
    from psycopg import AsyncConnection, Connection
    from psycopg.rows import DictRow
    from sqlalchemy.engine import Connection as EngineConnection

REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008")
"""All revisions this code knows, oldest first."""
HEAD: Final = REVISIONS[-1]
MIGRATIONS: Final = Path(__file__).with_name("migrations")

# Two steps, since a query that names a missing table fails as a whole.
_TABLES: Final = """
SELECT to_regclass('alembic_version') IS NOT NULL AS versioned,
       to_regclass('workspaces') IS NOT NULL AS filled
"""
_REVISION: Final = "SELECT version_num FROM alembic_version"


class Fit(StrEnum):
    """How a database stands to this code."""

    CURRENT = "current"
    EMPTY = "empty"
    OLDER = "older"
    NEWER = "newer"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The revision a database is at (None for none) and the newest one this code knows."""

    revision: str | None
    fit: Fit
    head: str = HEAD

    @property
    def fits(self) -> bool:
        return self.fit is Fit.CURRENT


def current(url: str) -> SchemaState:
    """Where a database is."""
    with translated(), _connect(url) as conn:
        tables = conn.execute(_TABLES).fetchone() or {}
        row = conn.execute(_REVISION).fetchone() if tables["versioned"] else None
    return _state(tables, row)


async def require_schema(conn: AsyncConnection[DictRow]) -> None:
    """Raises DatabaseProblem, saying what to run, unless the database fits this code."""
    with translated():
        tables = await (await conn.execute(_TABLES)).fetchone() or {}
        row = None
        if tables["versioned"]:
            row = await (await conn.execute(_REVISION)).fetchone()
    problem = misfit(_state(tables, row))
    if problem:
        raise problem


def upgrade(url: str) -> SchemaState:
    """Brings a database to the newest revision; returns where it was before.

    All steps are one transaction: a failing migration leaves the database as it was. A second
    upgrade at the same time waits for the lock and then finds nothing to do.
    """
    before = current(url)
    if before.fit in (Fit.NEWER, Fit.FOREIGN) and (problem := misfit(before)):
        raise problem
    if before.fit is not Fit.CURRENT:
        _migrate(url)
    return before


def misfit(state: SchemaState) -> DatabaseProblem | None:
    """What is wrong with a database in this state, None if nothing is."""
    to_upgrade = "run 'codehub db upgrade'"
    match state.fit:
        case Fit.CURRENT:
            return None
        case Fit.EMPTY:
            return DatabaseProblem("the database is empty", hint=to_upgrade)
        case Fit.OLDER:
            return DatabaseProblem(
                f"the database is older than this codehub ({state.revision}, not {state.head})",
                hint=to_upgrade,
            )
        case Fit.NEWER:
            return DatabaseProblem(
                f"this database is newer than this codehub (it is at {state.revision})",
                hint="upgrade codehub",
            )
        case Fit.FOREIGN:
            return DatabaseProblem(
                "the database holds tables that no codehub of this kind made",
                hint="use an empty database, and bring the old one over with 'codehub import'",
            )


def alembic_config(connection: EngineConnection | None = None) -> Config:
    """Alembic's configuration, made here: there is no alembic.ini to find or to forget."""
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _state(tables: dict[str, Any], row: dict[str, Any] | None) -> SchemaState:
    if row is None:
        return SchemaState(None, Fit.FOREIGN if tables["filled"] else Fit.EMPTY)
    revision = row["version_num"]
    if revision not in REVISIONS:
        return SchemaState(revision, Fit.NEWER)
    return SchemaState(revision, Fit.CURRENT if revision == HEAD else Fit.OLDER)


def _connect(url: str) -> Connection[DictRow]:
    """A blocking connection without a time limit on statements: a migration takes its time."""
    given = arguments(url, options="-c timezone=UTC")
    try:
        return psycopg.connect(given, row_factory=dict_row)
    except psycopg.OperationalError as error:
        raise unreachable(error, url) from error


def _migrate(url: str) -> None:
    from alembic import command
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import NullPool

    given = arguments(url, options="-c timezone=UTC")
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(given), poolclass=NullPool
    )
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({OURS}, {Lock.SCHEMA:d})")
            command.upgrade(alembic_config(connection), "head")
    except DBAPIError as error:
        meaning = translate(error.orig) if isinstance(error.orig, psycopg.Error) else None
        raise meaning or DatabaseProblem(f"the upgrade failed: {error.orig}") from error
