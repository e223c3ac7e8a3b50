"""Connections: each way to fail has its own sentence, and no sentence has the password."""

from __future__ import annotations

import asyncio
import os
import socket
import traceback
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest

from codehub.errors import Conflict, DatabaseProblem, Unreachable
from codehub.store.advisory import (
    OURS,
    Lock,
    lock_transaction,
    session_lock,
    try_lock_session,
    try_lock_transaction,
)
from codehub.store.connect import arguments, connect, redacted, transaction, translated
from tests.conftest import database

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

pytestmark = pytest.mark.anyio
SECRET = "hunter2#/?&@"
QUOTED = "hunter2%23%2F%3F%26%40"


async def why_not(url: str) -> Unreachable:
    with pytest.raises(Unreachable) as caught:
        await connect(url)
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint} {caught.value!r}"
    return caught.value


async def scalar(conn: AsyncConnection[DictRow], query: str) -> object:
    row = await (await conn.execute(query)).fetchone()
    return next(iter(row.values())) if row else None


# Connecting


async def test_a_connection_commits_by_itself_and_has_limits(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await conn.execute("INSERT INTO hub (name) VALUES ('mine')")
        assert await scalar(conn, "SHOW statement_timeout") == "1min"
        assert await scalar(conn, "SHOW timezone") == "UTC"
        assert await scalar(conn, "SHOW application_name") == "codehub"
    async with await connect(database_url) as conn:
        assert await (await conn.execute("SELECT name FROM hub")).fetchall() == [{"name": "mine"}]


async def test_what_the_url_says_wins(database_url: str) -> None:
    url = f"{database_url}&application_name=mine&options=-c%20statement_timeout%3D5s"
    async with await connect(url) as conn:
        assert await scalar(conn, "SHOW application_name") == "mine"
        assert await scalar(conn, "SHOW statement_timeout") == "5s"


async def test_sqlalchemys_way_to_write_a_url_is_understood(database_url: str) -> None:
    url = database_url.replace("postgresql://", "postgresql+psycopg://")
    async with await connect(url) as conn:
        assert await scalar(conn, "SELECT 1") == 1


async def test_a_server_that_is_down() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = await why_not(f"postgresql://alice:{QUOTED}@127.0.0.1:{port}/codehub")
    assert error.message.startswith("no database server answers at postgresql://alice@127.0.0.1:")
    assert "refused" in error.message
    assert error.hint == "start it, or correct DATABASE_URL"


async def test_a_database_that_is_not_there(postgres_url: str) -> None:
    error = await why_not(database(postgres_url, "nowhere"))
    assert error.message.startswith("there is no such database: postgresql://")
    assert "/nowhere" in error.message


async def test_a_user_that_is_not_there(postgres_url: str) -> None:
    url = urlsplit(postgres_url)
    netloc = f"nobody_here:{QUOTED}@{url.netloc.rpartition('@')[2]}"
    error = await why_not(url._replace(netloc=netloc).geturl())
    assert "no such user" in error.message
    assert "nobody_here" in error.message


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('FATAL:  password authentication failed for user "alice"', "refused the password of"),
        ("fe_sendauth: no password supplied", "wants a password for"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1"', "does not let in"),
        ("FATAL:  sorry, too many clients already", "has no connection left for"),
    ],
)
async def test_a_refusal_is_told_apart(said: str, told: str) -> None:
    """The server speaks, as far as it matters here: authentication that fails at once."""
    async with await asyncio.start_server(refuser(said), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"postgresql://alice:{QUOTED}@127.0.0.1:{port}/codehub?sslmode=disable"
        error = await why_not(url + "&gssencmode=disable")
    assert told in error.message
    assert f"postgresql://alice@127.0.0.1:{port}/codehub" in error.message
    assert error.hint


def refuser(
    said: str,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        body = b"SFATAL\0C28P01\0M" + said.removeprefix("FATAL:  ").encode() + b"\0\0"
        writer.write(b"E" + (len(body) + 4).to_bytes(4, "big") + body)
        await writer.drain()
        writer.close()

    return refuse


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://a:hunter2@h/d", f"password={SECRET} nonsense"]
)
async def test_what_is_no_url_is_said_to_be_none(url: str) -> None:
    with pytest.raises(DatabaseProblem, match="not a PostgreSQL URL") as caught:
        await connect(url)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://alice:{QUOTED}@db:5433/hub", "postgresql://alice@db:5433/hub"),
        (f"postgres://db/hub?password={QUOTED}&sslpassword=hunter2", "postgresql://db/hub"),
        (f"host=db user=alice password='{SECRET}' dbname=hub", "postgresql://alice@db/hub"),
        ("postgresql://a:hunter2#x@db/hub", "postgresql://a@db/hub"),
        ("postgresql+psycopg://a:hunter2@db/hub", "postgresql://a@db/hub"),
        ("postgresql://a:hunter2@/hub?host=/run/pg", "postgresql://a@/hub?host=/run/pg"),
        ("postgresql://a:hunter2@one:1,two:2/hub", "postgresql://a@one,two:1,2/hub"),
        ("hunter2 is not a url", "(a database URL that cannot be read)"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert redacted(url) == shown


def test_keepalives_find_a_dead_network_in_time() -> None:
    given = dict(each.split("=", 1) for each in arguments("host=db").split(" ") if "=" in each)
    silence = int(given["keepalives_idle"])
    silence += int(given["keepalives_interval"]) * int(given["keepalives_count"])
    assert silence <= 15
    assert int(given["tcp_user_timeout"]) <= 15_000


# Transactions


async def add_and_fail(conn: AsyncConnection[DictRow]) -> None:
    async with transaction(conn):
        await conn.execute("INSERT INTO hub (name) VALUES ('mine')")
        raise KeyError


async def lose_connection(conn: AsyncConnection[DictRow], other: AsyncConnection[DictRow]) -> None:
    async with transaction(conn):
        await other.execute("SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,))
        await conn.execute("SELECT 1")


async def overtake(one: AsyncConnection[DictRow], two: AsyncConnection[DictRow]) -> None:
    async with transaction(one):
        await one.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await one.execute("SELECT * FROM hub")
        await two.execute("UPDATE hub SET name = 'theirs'")
        await one.execute("UPDATE hub SET name = 'ours'")


async def read_as_guest(conn: AsyncConnection[DictRow], guest: str) -> None:
    async with transaction(conn):
        await conn.execute(f"CREATE ROLE {guest}")
        await conn.execute(f"SET LOCAL ROLE {guest}")
        await conn.execute("SELECT * FROM users")


async def test_a_transaction_is_undone_when_it_raises(database_url: str) -> None:
    async with await connect(database_url) as conn:
        with pytest.raises(KeyError):
            await add_and_fail(conn)
        assert await scalar(conn, "SELECT count(*) FROM hub") == 0


async def test_a_snapshot_sees_one_moment_and_writes_nothing(database_url: str) -> None:
    async with await connect(database_url) as reader, await connect(database_url) as writer:
        async with transaction(reader, snapshot=True):
            before = await scalar(reader, "SELECT count(*) FROM users")
            await writer.execute("INSERT INTO users (name) VALUES ('alice')")
            assert await scalar(reader, "SELECT count(*) FROM users") == before == 0
        with pytest.raises(DatabaseProblem, match="read-only"):
            async with transaction(reader, snapshot=True):
                await reader.execute("INSERT INTO users (name) VALUES ('bob')")


async def test_a_lost_connection_is_unreachable(database_url: str) -> None:
    async with await connect(database_url) as conn, await connect(database_url) as other:
        with pytest.raises(Unreachable, match="connection to the database was lost"):
            await lose_connection(conn, other)


async def test_a_statement_that_takes_too_long_is_unreachable(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await conn.execute("SET statement_timeout = '10ms'")
        with pytest.raises(Unreachable, match="too long"):
            async with transaction(conn):
                await conn.execute("SELECT pg_sleep(60)")


async def test_two_who_change_the_same_conflict(database_url: str) -> None:
    async with await connect(database_url) as one, await connect(database_url) as two:
        await one.execute("INSERT INTO hub (name) VALUES ('mine')")
        with pytest.raises(Conflict):
            await overtake(one, two)
        assert await scalar(one, "SELECT name FROM hub") == "theirs"


async def test_tables_that_are_missing_are_a_matter_of_the_schema(empty_database_url: str) -> None:
    async with await connect(empty_database_url) as conn:
        with pytest.raises(DatabaseProblem) as caught, translated():
            await conn.execute("SELECT * FROM workspaces")
    assert caught.value.hint == "run 'codehub db upgrade'"


async def test_a_right_that_is_missing_is_named(database_url: str) -> None:
    """The role is gone with the transaction; its name is this process's, in a shared server."""
    async with await connect(database_url) as conn:
        with pytest.raises(DatabaseProblem, match="permission denied for table users"):
            await read_as_guest(conn, f"guest_{os.getpid()}")


async def test_a_broken_constraint_is_left_to_the_caller(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await conn.execute("INSERT INTO users (name) VALUES ('alice')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            async with transaction(conn):
                await conn.execute("INSERT INTO users (name) VALUES ('alice')")


# Advisory locks


async def test_one_at_a_time_holds_a_lock(database_url: str) -> None:
    async with await connect(database_url) as one, await connect(database_url) as two:
        async with transaction(one):
            await lock_transaction(one, Lock.LOADER)
            async with transaction(two):
                assert not await try_lock_transaction(two, Lock.LOADER)
                assert await try_lock_transaction(two, Lock.LIMITS)
        async with transaction(two):
            assert await try_lock_transaction(two, Lock.LOADER)


async def test_a_session_lock_dies_with_its_connection(database_url: str) -> None:
    async with await connect(database_url) as two:
        one = await connect(database_url)
        assert await try_lock_session(one, Lock.LEADER)
        assert not await try_lock_session(two, Lock.LEADER)
        await one.close()
        await two.execute("SELECT pg_advisory_lock(%s, %s)", (OURS, Lock.LEADER))


async def test_a_session_lock_ends_with_its_block(database_url: str) -> None:
    async with await connect(database_url) as one, await connect(database_url) as two:
        async with session_lock(one, Lock.SCHEMA):
            assert not await try_lock_session(two, Lock.SCHEMA)
        assert await try_lock_session(two, Lock.SCHEMA)
