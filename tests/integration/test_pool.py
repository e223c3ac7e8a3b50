"""The pool over real Postgres: connections come back whatever their users do with them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg_pool.base import AttemptWithBackoff

from codehub.errors import DatabaseProblem, Unreachable
from codehub.store import pool as pool_module
from codehub.store.connect import connect, transaction
from codehub.store.pool import Pool
from tests.integration.elections import PATIENCE, one_value, until_true
from tests.integration.relay import Relay

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

ADD = "INSERT INTO users (name) VALUES (%s)"
OTHERS = """
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def add_user(pool: Pool, name: str) -> None:
    async with pool.connection() as conn:
        await conn.execute(ADD, (name,))


async def test_many_write_at_once_on_few_connections(database_url: str) -> None:
    async with Pool(database_url, size=2) as pool:
        await asyncio.gather(*(add_user(pool, f"user{n}") for n in range(20)))
        async with pool.connection() as conn:
            assert await one_value(conn, "SELECT count(*) FROM users") == 20
            assert await one_value(conn, f"SELECT count(*) {OTHERS}") <= 1


async def fail_midway(pool: Pool) -> None:
    async with pool.connection() as conn, transaction(conn):
        await conn.execute(ADD, ("alice",))
        raise RuntimeError("midway")


async def leave_open(pool: Pool) -> None:
    async with pool.connection() as conn:
        await conn.execute("BEGIN")
        await conn.execute(ADD, ("bob",))
        raise RuntimeError("midway")


async def test_what_was_begun_and_failed_is_undone(database_url: str) -> None:
    async with Pool(database_url, size=1) as pool:
        with pytest.raises(RuntimeError):
            await fail_midway(pool)
        with pytest.raises(RuntimeError):
            await leave_open(pool)
        async with pool.connection() as conn:
            assert await one_value(conn, "SELECT count(*) FROM users") == 0


async def test_errors_come_in_our_words_and_constraints_as_they_are(database_url: str) -> None:
    async with Pool(database_url, size=1) as pool:
        with pytest.raises(DatabaseProblem, match="not those of this codehub"):
            async with pool.connection() as conn:
                await conn.execute("SELECT FROM no_such_table")
        await add_user(pool, "alice")
        with pytest.raises(psycopg.errors.UniqueViolation):
            await add_user(pool, "alice")
        await add_user(pool, "bob")


async def test_a_cancelled_user_gives_the_connection_back(database_url: str) -> None:
    async def hold(pool: Pool) -> None:
        async with pool.connection() as conn:
            await conn.execute("SELECT pg_sleep(600)")

    async with await connect(database_url) as watcher, Pool(database_url, size=1) as pool:
        task = asyncio.create_task(hold(pool))
        sleeps = f"SELECT count(*) {OTHERS} AND state = 'active' AND query LIKE '%pg_sleep%'"
        await until_true(watcher, sleeps)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await add_user(pool, "alice")
        assert await one_value(watcher, sleeps) == 0


async def test_who_is_cancelled_when_a_connection_comes_free_is_cancelled(
    database_url: str,
) -> None:
    async with Pool(database_url, size=1) as pool:
        for turns in range(12):
            async with pool.connection():
                waiting = asyncio.create_task(add_user(pool, f"user{turns}"))
                await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            done = waiting.done()
            waiting.cancel()
            await asyncio.wait({waiting})
            assert done or waiting.cancelled(), turns


async def test_a_connection_that_died_costs_one_failure(database_url: str) -> None:
    async with await connect(database_url) as other, Pool(database_url, size=1) as pool:
        await add_user(pool, "alice")
        await other.execute(f"SELECT pg_terminate_backend(pid, 60000) {OTHERS}")
        with pytest.raises(Unreachable, match="connection to the database was lost"):
            await add_user(pool, "bob")
        await add_user(pool, "carol")
        rows = await (await other.execute("SELECT name FROM users ORDER BY name")).fetchall()
    assert [row["name"] for row in rows] == ["alice", "carol"]


async def test_a_server_that_is_not_there_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "PATIENCE", 0.2)
    async with Pool(f"postgresql:///hub?host={tmp_path}") as pool:
        with pytest.raises(Unreachable):
            await add_user(pool, "alice")


async def test_a_closed_pool_has_no_connections_and_gives_none(database_url: str) -> None:
    async with await connect(database_url) as watcher:
        async with Pool(database_url) as pool:
            await add_user(pool, "alice")
        await until_true(watcher, f"SELECT count(*) = 0 {OTHERS}")
        with pytest.raises(Unreachable):
            await add_user(pool, "bob")


async def test_a_checked_pool_gives_out_no_connection_that_died_meanwhile(
    database_url: str,
) -> None:
    async with Pool(database_url, size=2, checked=True) as pool:
        async with pool.connection() as conn:
            pid = await one_value(conn, "SELECT pg_backend_pid()")
        async with await connect(database_url) as other:
            await other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
        async with pool.connection() as conn:
            assert await one_value(conn, "SELECT 1") == 1


async def test_after_an_outage_of_any_length_it_is_back_at_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits ever longer between its own tries; that must not keep anybody waiting."""
    monkeypatch.setattr(pool_module, "PATIENCE", 0.2)
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", 10 * PATIENCE)
    async with Relay(database_url) as relay, Pool(relay.url, size=2, checked=True) as pool:
        await add_user(pool, "alice")
        await relay.stop()
        with pytest.raises(Unreachable):
            await add_user(pool, "bob")
        await relay.start()
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await add_user(pool, "carol")
                except Unreachable:
                    continue
                break
