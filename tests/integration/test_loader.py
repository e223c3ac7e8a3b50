"""One loader at a time, all or nothing, and at once where somebody asks for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.admit import admit
from codehub.core.target import waits_until
from codehub.errors import Conflict
from codehub.model.people import Hub
from codehub.model.states import DesiredState, Phase
from codehub.model.workspace import (
    Status,
)
from codehub.store.connect import connect
from codehub.store.declare import loader_lock, write_spec_set
from codehub.store.hubs import read_hub_state
from codehub.store.workspaces import read_workspaces
from tests.integration.stored import apply, count, insert, live, versions
from tests.make import NOW, declaration, spec_set, workspace

if TYPE_CHECKING:
    from psycopg import AsyncConnection

pytestmark = pytest.mark.anyio

TABLES = ("hub", "users", "workspaces", "spec_revisions", "workspace_events")


async def test_a_second_loader_is_refused_and_told_by_whom(database_url: str) -> None:
    async with await connect(database_url) as first, await connect(database_url) as second:
        async with loader_lock(first, author="bob"):
            with pytest.raises(Conflict) as refused:
                async with loader_lock(second, author="carol", wait_seconds=0.01):
                    pytest.fail("two loaders at once")

        assert str(refused.value) == "another apply is under way (by bob)"
        assert refused.value.hint
        assert await apply(second, spec_set(declaration("api"))) is not None


async def test_a_loader_who_waited_sees_what_the_first_one_wrote(database_url: str) -> None:
    async with await connect(database_url) as first, await connect(database_url) as second:
        one = spec_set(declaration("api"), declaration("lab"), digest="d1")
        two = spec_set(declaration("api", memo="second"), digest="d2")

        async with loader_lock(first):
            waiting = asyncio.create_task(apply(second, two))
            await until_waiting(first)
            admissions = admit(await read_hub_state(first), one)
            await write_spec_set(first, one, admissions, author="alice", source="cli")
        revision = await waiting

        assert revision is not None
        assert revision.summary == {"delete": 1, "update": 1}
        assert (await live(first, "api")).generation == 2
        assert (await live(first, "lab")).intent.desired is DesiredState.DELETED


async def until_waiting(conn: AsyncConnection[Any]) -> None:
    """Returns once somebody waits for an advisory lock in this database."""
    query = (
        "SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    async with asyncio.timeout(60):
        while True:
            row = await (await conn.execute(query)).fetchone()
            if row and row["n"]:
                return


async def test_writing_without_the_lock_is_a_mistake_that_shows(database_url: str) -> None:
    async with await connect(database_url) as conn, await connect(database_url) as other:
        async with loader_lock(other):
            with pytest.raises(RuntimeError, match="loader_lock"):
                await write_spec_set(conn, spec_set(), (), author="alice", source="cli")
        assert await count(conn, "spec_revisions") == 0


async def test_after_the_lock_the_connection_is_as_before(database_url: str) -> None:
    names = ("application_name", "lock_timeout")
    query = "SELECT " + ", ".join(f"current_setting('{name}') AS {name}" for name in names)
    async with await connect(database_url) as conn:
        before = await (await conn.execute(query)).fetchone()
        await apply(conn, spec_set(declaration("api")))

        assert await (await conn.execute(query)).fetchone() == before


async def test_a_failure_in_the_middle_leaves_nothing(database_url: str) -> None:
    """A name that is still taken is found after users, hub and revision have been written."""
    async with await connect(database_url) as conn:
        await apply(conn, spec_set(declaration("api"), digest="d1"))
        await apply(conn, spec_set(digest="d2"))
        before = await versions(conn, *TABLES)

        incoming = spec_set(declaration("api", owner="bob"), digest="d3", hub=Hub("other"))
        with pytest.raises(Conflict, match=r"still being deleted.*api"):
            await apply(conn, incoming)
        assert await versions(conn, *TABLES) == before


async def test_now_ends_all_waiting_for_people(database_url: str) -> None:
    running = Status(phase=Phase.RUNNING, phase_changed_at=NOW)
    lowered = {"declared_state": DesiredState.STANDBY}
    async with await connect(database_url) as conn:
        rows = [workspace(name, number=n, status=running) for n, name in enumerate(("a", "b"), 1)]
        await insert(conn, *rows)
        incoming = spec_set(declaration("a", **lowered), digest="d9")
        await apply(conn, incoming)
        await conn.execute("UPDATE workspaces SET last_access_at = now()")
        waiting = [one for one in await read_workspaces(conn) if await _waits(conn, one.name)]
        assert [one.name for one in waiting] == ["a", "b"]

        assert await apply(conn, incoming, immediately=True) is None
        assert not await _waits(conn, "a")
        assert not await _waits(conn, "b")
        settled = await versions(conn, *TABLES)
        assert await apply(conn, incoming, immediately=True) is None
        assert await versions(conn, *TABLES) == settled


async def _waits(conn: AsyncConnection[Any], name: str) -> bool:
    row = await (await conn.execute("SELECT now() AS now")).fetchone()
    assert row is not None
    return waits_until(await live(conn, name), row["now"]) is not None
