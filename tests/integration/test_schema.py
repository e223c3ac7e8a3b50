"""The migrations make what the tables describe, and a database that does not fit is refused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from codehub.errors import DatabaseProblem
from codehub.store import schema
from codehub.store.connect import connect
from codehub.store.schema import HEAD, REVISIONS, Fit, SchemaState, current, upgrade
from codehub.store.tables import metadata
from tests.make import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection
    from sqlalchemy.engine import Connection as EngineConnection

CATALOG = """
SELECT 'constraint' AS kind, conrelid::regclass::text AS of, conname::text AS name,
       pg_get_constraintdef(oid) AS definition
FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
UNION ALL
SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'column', table_name, column_name,
       concat_ws(' ', data_type, is_nullable, column_default, generation_expression)
FROM information_schema.columns WHERE table_schema = 'public'
"""
ADD = """
INSERT INTO workspaces (name, owner_user_id, instance_backend, storage_backend)
SELECT %s, id, 'process', 'directory' FROM users WHERE name = 'alice'
"""

SENSELESS = (
    "phase = 'SLEEPING'",
    "operation = 'DANCING'",
    "desired_state = 'PENDING'",
    "declared_state = 'DELETED'",
    "desired_source = 'rumour'",
    "wake_from = 'RUNNING'",
    "error_reason = 'Bad luck'",
    "activity_policy = 'guess'",
    "path_prefix = 'cut'",
    "start_on = 'monday'",
    "update_policy = 'never'",
    "name = ''",
    "name = repeat('a', 41)",
    "port = 0",
    "port = 65536",
    "storage_backend = 'pvc'",
    "standby_ttl_seconds = -1",
    "archive_ttl_seconds = -1",
    "busy_cpu = -1",
    "generation = 0",
    "home_generation = -1",
    "archive_bytes = -1",
    "override_state = 'RUNNING'",
    "override_state = 'DELETED', override_until = now()",
    "operation = 'STARTING'",
    "purged_at = now()",
    "phase = 'ERROR', operation = 'STOPPING', op_id = id, op_started_at = now()",
)


@contextmanager
def engine_connection(url: str) -> Iterator[EngineConnection]:
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool
    )
    with engine.connect() as connection:
        yield connection


@pytest.fixture
def conn(database_url: str) -> Iterator[Connection[dict[str, Any]]]:
    """A migrated database with one user and one workspace."""
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as conn:
        conn.execute("INSERT INTO users (name) VALUES ('alice')")
        conn.execute(ADD, ("api",))
        yield conn


def catalog(url: str) -> set[tuple[str, ...]]:
    with psycopg.connect(url) as conn:
        found = conn.execute(CATALOG).fetchall()
    return {tuple(row) for row in found if row[1] != "alembic_version"}


def require(url: str) -> None:
    async def scenario() -> None:
        async with await connect(url) as conn:
            await schema.require_schema(conn)

    asyncio.run(scenario())


def refused(conn: Connection[dict[str, Any]], change: str) -> bool:
    try:
        conn.execute(f"UPDATE workspaces SET {change}")
    except psycopg.errors.CheckViolation:
        return True
    return False


# The migrations and the tables


def test_alembic_finds_no_difference_between_migrations_and_tables(database_url: str) -> None:
    with engine_connection(database_url) as connection:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_checks_and_partial_indexes_are_those_of_the_tables(
    database_url: str, empty_database_url: str
) -> None:
    with engine_connection(empty_database_url) as connection:
        metadata.create_all(connection)
        connection.commit()
    made_by_tables = catalog(empty_database_url)
    assert catalog(database_url) == made_by_tables
    assert any(name == "ck_workspaces_error_is_idle" for _, _, name, _ in made_by_tables)


def test_the_known_revisions_are_those_of_the_migrations() -> None:
    scripts = ScriptDirectory.from_config(schema.alembic_config())
    oldest_first = [script.revision for script in scripts.walk_revisions()][::-1]
    assert tuple(oldest_first) == REVISIONS
    assert scripts.get_current_head() == HEAD


def test_the_operations_of_archives_there_are_noted_by_the_upgrade(
    empty_database_url: str,
) -> None:
    with engine_connection(empty_database_url) as connection:
        command.upgrade(schema.alembic_config(connection), "0004")
        connection.commit()
    with psycopg.connect(empty_database_url, autocommit=True) as conn:
        conn.execute("INSERT INTO users (name) VALUES ('alice')")
        for name in ("api", "strange", "new"):
            conn.execute(ADD, (name,))
        op = "00000000-0000-0000-0000-00000000000"
        archived = "UPDATE workspaces SET archive_key = %s WHERE name = %s"
        conn.execute(archived, (f"hub/ws/{op}1/1/home.tar.zst", "api"))
        conn.execute(archived, ("elsewhere", "strange"))
        conn.execute("UPDATE workspaces SET op_id = %s WHERE name = 'api'", (f"{op}2",))
        upgrade(empty_database_url)
        rows = conn.execute("SELECT op_id FROM archive_operations ORDER BY op_id").fetchall()
    assert rows == [(f"{op}1",), (f"{op}2",)]


def test_there_is_no_way_down() -> None:
    scripts = ScriptDirectory.from_config(schema.alembic_config())
    assert [s.revision for s in scripts.walk_revisions() if hasattr(s.module, "downgrade")] == []


def test_knowing_the_schema_does_not_load_what_changes_it() -> None:
    program = (
        "import sys, codehub.store.schema as s; s.HEAD;"
        "print([m for m in ('alembic', 'sqlalchemy', 'sqlmodel') if m in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert told.stdout.strip() == "[]"


# Upgrade and fit


def test_upgrade_takes_an_empty_database_to_the_newest_schema(empty_database_url: str) -> None:
    assert current(empty_database_url) == SchemaState(None, Fit.EMPTY)
    assert upgrade(empty_database_url) == SchemaState(None, Fit.EMPTY)
    assert current(empty_database_url) == SchemaState(HEAD, Fit.CURRENT)
    assert upgrade(empty_database_url).fits
    require(empty_database_url)


def test_many_upgrades_at_once_are_one(empty_database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        states = list(pool.map(upgrade, [empty_database_url] * 4))
    assert {state.fit for state in states} <= {Fit.EMPTY, Fit.CURRENT}
    assert current(empty_database_url).fits


def test_an_upgrade_that_fails_leaves_nothing_behind(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as conn:
        conn.execute("CREATE TABLE system_locks (mine int)")
    with pytest.raises(DatabaseProblem, match="system_locks"):
        upgrade(empty_database_url)
    assert current(empty_database_url).fit is Fit.EMPTY


def test_an_empty_database_is_refused_with_what_to_run(empty_database_url: str) -> None:
    with pytest.raises(DatabaseProblem, match="is empty") as caught:
        require(empty_database_url)
    assert caught.value.hint == "run 'codehub db upgrade'"


def test_an_older_database_is_refused_with_what_to_run(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "REVISIONS", (*REVISIONS, "9999"))
    monkeypatch.setattr(schema, "HEAD", "9999")
    with pytest.raises(DatabaseProblem, match=f"older than this codehub .{HEAD}") as caught:
        require(database_url)
    assert caught.value.hint == "run 'codehub db upgrade'"


def test_a_newer_database_is_refused_and_not_touched(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
    for use in (require, upgrade):
        with pytest.raises(DatabaseProblem, match="newer than this codehub") as caught:
            use(database_url)
        assert caught.value.hint == "upgrade codehub"
    assert current(database_url) == SchemaState("9999", Fit.NEWER)


def test_a_database_of_something_else_is_refused(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as conn:
        conn.execute("CREATE TABLE workspaces (id int)")
    with pytest.raises(DatabaseProblem, match="tables that no codehub") as caught:
        upgrade(empty_database_url)
    assert "codehub import" in (caught.value.hint or "")


# What the tables refuse


def test_a_row_that_makes_no_sense_is_refused(conn: Connection[dict[str, Any]]) -> None:
    assert [change for change in SENSELESS if not refused(conn, change)] == []


def test_a_name_is_unique_among_the_living_only(conn: Connection[dict[str, Any]]) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation):
        conn.execute(ADD, ("api",))
    conn.execute("UPDATE workspaces SET phase = 'DELETED', deleted_at = now()")
    conn.execute(ADD, ("api",))
    assert len(conn.execute("SELECT FROM workspaces WHERE name = 'api'").fetchall()) == 2


def test_there_is_one_hub(conn: Connection[dict[str, Any]]) -> None:
    conn.execute("INSERT INTO hub (name) VALUES ('one')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        conn.execute("INSERT INTO hub (name) VALUES ('two')")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE workspace_events SET new = ''",
        "DELETE FROM workspace_events",
        "TRUNCATE workspace_events",
    ],
)
def test_the_audit_is_append_only(conn: Connection[dict[str, Any]], change: str) -> None:
    conn.execute(
        "INSERT INTO workspace_events (workspace_id, kind, new)"
        " SELECT id, 'phase', 'RUNNING' FROM workspaces"
    )
    with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
        conn.execute(change)
    assert conn.execute("SELECT new FROM workspace_events").fetchall() == [{"new": "RUNNING"}]


# Due times and their indexes


@pytest.mark.parametrize(
    ("ttl", "standby", "archive"),
    [
        (3600, NOW + timedelta(hours=1), NOW + timedelta(minutes=50)),
        (None, NOW, NOW - timedelta(minutes=10)),
        (0, None, None),
    ],
)
def test_due_times_count_from_the_base_in_any_time_zone(
    conn: Connection[dict[str, Any]], ttl: int | None, standby: object, archive: object
) -> None:
    conn.execute("SET timezone = 'America/New_York'")
    conn.execute(
        "UPDATE workspaces SET standby_ttl_seconds = %(ttl)s, archive_ttl_seconds = %(ttl)s,"
        " last_access_at = %(access)s, phase_changed_at = %(changed)s",
        {"ttl": ttl, "access": NOW, "changed": NOW - timedelta(minutes=10)},
    )
    row = conn.execute("SELECT standby_due_at, archive_due_at FROM workspaces").fetchone()
    assert row == {"standby_due_at": standby, "archive_due_at": archive}


@pytest.mark.parametrize(
    ("phase", "column", "ttl"),
    [
        ("RUNNING", "standby_due_at", "standby_ttl_seconds"),
        ("STANDBY", "archive_due_at", "archive_ttl_seconds"),
    ],
)
def test_a_ttl_check_looks_only_at_what_is_due(
    conn: Connection[dict[str, Any]], phase: str, column: str, ttl: str
) -> None:
    """Five thousand rows, twenty due: both halves of the OR are served by their own index."""
    conn.execute(
        "INSERT INTO workspaces (name, owner_user_id, instance_backend, storage_backend, phase,"
        f" desired_state, phase_changed_at, {ttl})"
        " SELECT 'w' || n, owner_user_id, 'process', 'directory', %(phase)s, %(phase)s,"
        " %(now)s - make_interval(secs => n), CASE WHEN n %% 2 = 0 THEN 600 END"
        " FROM workspaces, generate_series(1, 5000) AS n",
        {"phase": phase, "now": NOW},
    )
    conn.execute("ANALYZE workspaces")
    query = (
        f"SELECT name FROM workspaces WHERE phase = '{phase}' AND operation = 'NONE'"
        f" AND desired_state = '{phase}' AND deleted_at IS NULL"
        f" AND (({ttl} IS NOT NULL AND {column} < '{NOW}'::timestamptz - interval '73 minutes')"
        f" OR ({ttl} IS NULL AND {column} < '{NOW}'::timestamptz - interval '83 minutes'))"
    )
    plan = "\n".join(row["QUERY PLAN"] for row in conn.execute(f"EXPLAIN {query}").fetchall())
    index = column.removesuffix("_at")
    assert f"workspaces_{index} " in plan
    assert f"workspaces_{index}_by_hub" in plan
    assert len(conn.execute(query).fetchall()) == 20
