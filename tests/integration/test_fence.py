"""The fence against real Postgres: three connections, real row locks, no mocks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from codehub.errors import FenceLost
from codehub.store.connect import connect, transaction
from codehub.store.fence import (
    HOLDS,
    Fence,
    fenced,
    fenced_transaction,
    require_fence,
    take_epoch,
)

if TYPE_CHECKING:
    from psycopg import AsyncConnection

LOCK = "coordinator"
WRITE = f"UPDATE workspaces SET memo = %(memo)s WHERE name = 'api' AND {HOLDS}"

pytestmark = pytest.mark.anyio


async def add_workspace(conn: AsyncConnection[Any]) -> None:
    await conn.execute("INSERT INTO users (name) VALUES ('alice')")
    await conn.execute(
        "INSERT INTO workspaces (name, owner_user_id, instance_backend, storage_backend)"
        " SELECT 'api', id, 'process', 'directory' FROM users"
    )


async def read_memo(conn: AsyncConnection[Any]) -> str:
    row = await (await conn.execute("SELECT memo FROM workspaces")).fetchone()
    return str(row["memo"]) if row else ""


async def read_epoch(conn: AsyncConnection[Any]) -> int:
    row = await (await conn.execute("SELECT epoch FROM system_locks")).fetchone()
    return int(row["epoch"]) if row else 0


async def until_blocked(watcher: AsyncConnection[Any], blocked: AsyncConnection[Any]) -> None:
    """Returns once a connection waits for a lock that another one holds."""
    query = "SELECT cardinality(pg_blocking_pids(%s)) AS blockers"
    async with asyncio.timeout(60):
        while True:
            row = await (await watcher.execute(query, (blocked.info.backend_pid,))).fetchone()
            if row and row["blockers"]:
                return


async def test_each_leader_takes_the_next_epoch(database_url: str) -> None:
    async with await connect(database_url) as conn:
        assert await take_epoch(conn, LOCK, "one") == Fence(LOCK, 1)
        assert await take_epoch(conn, LOCK, "two") == Fence(LOCK, 2)
        assert await take_epoch(conn, "other", "one") == Fence("other", 1)
        query = "SELECT holder_id, epoch FROM system_locks WHERE lock_name = %s"
        row = await (await conn.execute(query, (LOCK,))).fetchone()
    assert row == {"holder_id": "two", "epoch": 2}


async def test_the_leader_writes_and_a_former_one_does_not(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await add_workspace(conn)
        old = await take_epoch(conn, LOCK, "old")
        assert (await fenced(conn, old, WRITE, {"memo": "first"})).rowcount == 1

        new = await take_epoch(conn, LOCK, "new")
        with pytest.raises(FenceLost, match="since epoch 1"):
            await fenced(conn, old, WRITE, {"memo": "late"})
        assert await read_memo(conn) == "first"
        assert (await fenced(conn, new, WRITE, {"memo": "second"})).rowcount == 1
        assert await read_memo(conn) == "second"


async def test_a_condition_that_matches_nothing_is_no_lost_fence(database_url: str) -> None:
    async with await connect(database_url) as conn:
        fence = await take_epoch(conn, LOCK, "one")
        cursor = await fenced(conn, fence, WRITE, {"memo": "x"})
    assert cursor.rowcount == 0


async def test_what_a_statement_returns_is_passed_on(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await add_workspace(conn)
        fence = await take_epoch(conn, LOCK, "one")
        cursor = await fenced(conn, fence, f"{WRITE} RETURNING memo", {"memo": "x"})
        assert await cursor.fetchall() == [{"memo": "x"}]


async def test_an_insert_can_be_fenced(database_url: str) -> None:
    insert = f"INSERT INTO gc_candidates (object_key) SELECT 'k' WHERE {HOLDS}"
    async with await connect(database_url) as conn:
        old = await take_epoch(conn, LOCK, "old")
        await take_epoch(conn, LOCK, "new")
        with pytest.raises(FenceLost):
            await fenced(conn, old, insert)
        rows = await (await conn.execute("SELECT * FROM gc_candidates")).fetchall()
    assert rows == []


async def test_a_statement_without_the_condition_is_not_run(database_url: str) -> None:
    async with await connect(database_url) as conn:
        await add_workspace(conn)
        fence = await take_epoch(conn, LOCK, "one")
        with pytest.raises(ValueError, match="needs the condition"):
            await fenced(conn, fence, "UPDATE workspaces SET memo = 'unguarded'")
        assert await read_memo(conn) == ""


async def test_before_an_act_in_the_world_the_epoch_is_asked(database_url: str) -> None:
    async with await connect(database_url) as conn:
        with pytest.raises(FenceLost):
            await require_fence(conn, Fence(LOCK, 1))
        old = await take_epoch(conn, LOCK, "old")
        await require_fence(conn, old)
        await take_epoch(conn, LOCK, "new")
        with pytest.raises(FenceLost):
            await require_fence(conn, old)


async def test_a_write_that_waits_for_a_row_holds_the_next_epoch_up(database_url: str) -> None:
    async with (
        await connect(database_url) as leader,
        await connect(database_url) as successor,
        await connect(database_url) as person,
        await connect(database_url) as watcher,
    ):
        await add_workspace(leader)
        fence = await take_epoch(leader, LOCK, "old")
        async with transaction(person):
            await person.execute("UPDATE workspaces SET description = 'held'")
            writing = asyncio.create_task(fenced(leader, fence, WRITE, {"memo": "in time"}))
            await until_blocked(watcher, leader)
            taking = asyncio.create_task(take_epoch(successor, LOCK, "new"))
            await until_blocked(watcher, successor)
            assert await read_epoch(watcher) == 1
        assert (await writing).rowcount == 1
        assert await taking == Fence(LOCK, 2)
        assert await read_memo(watcher) == "in time"


async def test_a_plain_sub_select_would_let_a_late_write_through(database_url: str) -> None:
    """Why the fence locks: the same scene with a sub-select writes after the epoch has moved."""
    leaking = """
    UPDATE workspaces SET memo = 'late' WHERE name = 'api' AND EXISTS
    (SELECT 1 FROM system_locks WHERE lock_name = 'coordinator' AND epoch = 1)
    """
    async with (
        await connect(database_url) as leader,
        await connect(database_url) as successor,
        await connect(database_url) as person,
        await connect(database_url) as watcher,
    ):
        await add_workspace(leader)
        await take_epoch(leader, LOCK, "old")
        async with transaction(person):
            await person.execute("UPDATE workspaces SET description = 'held'")
            writing = asyncio.create_task(leader.execute(leaking))
            await until_blocked(watcher, leader)
            assert await take_epoch(successor, LOCK, "new") == Fence(LOCK, 2)
        await writing
        assert await read_memo(watcher) == "late"


async def test_a_write_that_meets_a_new_epoch_being_taken_fails(database_url: str) -> None:
    async with (
        await connect(database_url) as leader,
        await connect(database_url) as successor,
        await connect(database_url) as watcher,
    ):
        await add_workspace(leader)
        fence = await take_epoch(leader, LOCK, "old")
        async with transaction(successor):
            await take_epoch(successor, LOCK, "new")
            writing = asyncio.create_task(fenced(leader, fence, WRITE, {"memo": "late"}))
            await until_blocked(watcher, leader)
        with pytest.raises(FenceLost):
            await writing
        assert await read_memo(watcher) == ""


async def test_a_fenced_transaction_is_whole_or_nothing(database_url: str) -> None:
    async with (
        await connect(database_url) as leader,
        await connect(database_url) as successor,
        await connect(database_url) as watcher,
    ):
        await add_workspace(leader)
        fence = await take_epoch(leader, LOCK, "old")
        async with fenced_transaction(leader, fence):
            await leader.execute("UPDATE workspaces SET memo = 'one'")
            taking = asyncio.create_task(take_epoch(successor, LOCK, "new"))
            await until_blocked(watcher, successor)
            await leader.execute("UPDATE workspaces SET memo = memo || ' two'")
        assert (await taking).epoch == 2
        assert await read_memo(watcher) == "one two"

        with pytest.raises(FenceLost):
            async with fenced_transaction(leader, fence):
                await leader.execute("UPDATE workspaces SET memo = 'three'")
        assert await read_memo(watcher) == "one two"
