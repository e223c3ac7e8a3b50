"""The ways to running workspaces: as the database has them, within a moment, and while it is away.

The table reads everything once an hour here, so what it learns it learns by being told.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.errors import CodeHubError
from codehub.model.runtime import Upstream
from codehub.model.states import DesiredState, Operation, Phase
from codehub.model.workspace import ActivityPolicy, Intent, PathPrefix, Status
from codehub.store import pool as pool_module
from codehub.store.connect import connect
from codehub.store.pool import Pool
from codehub.store.users import read_user_ids
from tests.integration.relay import Relay
from tests.integration.stored import change, insert
from tests.proxy.gate_world import (
    PATIENCE,
    UPSTREAM,
    HeardTable,
    asleep,
    awake,
    people,
    running,
    until,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.route import Route
    from codehub.model.workspace import Workspace

pytestmark = pytest.mark.anyio

API = UUID(int=1)
BUSY: dict[str, Any] = {"op_id": UUID(int=7), "op_started_at": "2026-11-01T12:00:00Z"}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


class World:
    """A table that follows, and a connection of one's own to change what it follows."""

    def __init__(self, table: HeardTable, conn: AsyncConnection[DictRow]) -> None:
        self.table = table
        self.conn = conn

    async def change(self, which: str = "api", /, **columns: Any) -> None:
        await change(self.conn, which, **columns)

    async def rename(self, old: str, new: str) -> None:
        await self.conn.execute("UPDATE workspaces SET name = %s WHERE name = %s", (new, old))

    async def gone(self, name: str = "api") -> None:
        await until(lambda: self.table.find(name) is None)

    async def there(self, name: str = "api") -> None:
        await until(lambda: self.table.find(name) is not None)


@asynccontextmanager
async def following(
    url: str, *workspaces: Workspace, through: str | None = None, interval: float = 3600.0
) -> AsyncIterator[World]:
    through = through or url
    async with await connect(url) as conn, Pool(through, size=2, checked=True) as pool:
        await people(conn)
        await insert(conn, *workspaces)
        table = HeardTable(pool, through, interval=interval)
        async with running(table):
            await table.hears(conn)
            yield World(table, conn)


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    """One workspace that runs."""
    async with following(database_url, awake()) as found:
        yield found


# What it knows


async def test_it_knows_where_how_and_whose(database_url: str) -> None:
    one = awake(
        "web",
        2,
        owner="carol",
        upstream=Upstream("10.0.0.7", 8888),
        path_prefix=PathPrefix.KEEP,
        inject=False,
    )
    async with following(database_url, awake(), one) as world:
        route = world.table.find("web")
        assert route is not None
        assert (route.id, route.name) == (UUID(int=2), "web")
        assert route.owner_id == (await read_user_ids(world.conn))["carol"]
        assert route.upstream == Upstream("10.0.0.7", 8888)
        assert (route.path_prefix, route.inject) == (PathPrefix.KEEP, False)
        assert route.activity is ActivityPolicy.AUTO
        assert len(world.table) == 2
        assert world.table.loaded.is_set()


async def test_it_knows_only_what_can_be_reached(database_url: str) -> None:
    busy = Status(
        Phase.RUNNING,
        operation=Operation.STOPPING,
        op_id=UUID(int=9),
        op_started_at=awake().created_at,
        upstream=UPSTREAM,
    )
    async with following(
        database_url,
        awake("here", 1),
        asleep("asleep", 2),
        asleep("archived", 3, Phase.ARCHIVED),
        awake("stopping", 4, status=busy),
        awake("nowhere", 5, upstream=None),
        awake("leaving", 6, intent=Intent(DesiredState.DELETED)),
    ) as world:
        assert len(world.table) == 1
        assert world.table.find("here") is not None


async def test_finding_asks_nothing(world: World) -> None:
    before = list(world.table.reads)
    for _ in range(1000):
        assert world.table.find("api") is not None
        assert world.table.find("no-such") is None
    await asyncio.sleep(0)
    assert world.table.reads == before


# What it follows


@pytest.mark.parametrize(
    "columns",
    [
        {"phase": "STANDBY", "upstream_host": None, "upstream_port": None},
        {"phase": "ERROR"},
        {"operation": "STOPPING", **BUSY},
        {"upstream_host": None, "upstream_port": None},
        {"desired_state": "DELETED"},
        {"phase": "DELETED", "deleted_at": "2026-11-01T12:00:00Z"},
        {"deleted_at": "2026-11-01T12:00:00Z"},
    ],
    ids=lambda columns: "-".join(columns),
)
async def test_what_can_be_reached_no_longer_is_forgotten(
    world: World, columns: dict[str, Any]
) -> None:
    assert world.table.find("api") is not None
    await world.change(**columns)
    await world.gone()
    assert len(world.table) == 0


async def test_what_comes_is_known(database_url: str) -> None:
    async with following(database_url) as world:
        await insert(world.conn, asleep())
        await world.change(operation="STARTING", desired_state="RUNNING", **BUSY)
        await world.change(
            phase="RUNNING", operation="NONE", upstream_host="127.0.0.1", upstream_port=4712
        )
        await world.there()
        await insert(world.conn, awake("web", 2))
        await world.there("web")
        assert len(world.table) == 2


@pytest.mark.parametrize(
    ("columns", "field", "value"),
    [
        ({"upstream_port": 5000}, "upstream", Upstream("127.0.0.1", 5000)),
        ({"upstream_host": "10.0.0.9"}, "upstream", Upstream("10.0.0.9", UPSTREAM.port)),
        ({"path_prefix": "keep"}, "path_prefix", PathPrefix.KEEP),
        ({"inject": False}, "inject", False),
        ({"activity_policy": "connections"}, "activity", ActivityPolicy.CONNECTIONS),
        ({"standby_ttl_seconds": 30}, "standby_ttl", 30),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, dict) else None,
)
async def test_what_changes_of_one_that_runs_is_followed(
    world: World, columns: dict[str, Any], field: str, value: object
) -> None:
    assert getattr(world.table.find("api"), field) != value
    await world.change(**columns)
    await until(lambda: getattr(world.table.find("api"), field) == value)


async def test_another_owner_is_followed(world: World) -> None:
    carol = (await read_user_ids(world.conn))["carol"]
    await world.change(owner_user_id=carol)
    await until(lambda: getattr(world.table.find("api"), "owner_id", None) == carol)


async def test_another_name_is_followed_and_the_old_one_leads_nowhere(world: World) -> None:
    await world.rename("api", "web")
    await world.there("web")
    assert world.table.find("api") is None
    assert len(world.table) == 1


async def test_a_name_that_is_passed_on_leads_to_the_one_that_has_it(database_url: str) -> None:
    async with following(database_url, awake("a", 1), awake("b", 2)) as world:
        async with world.conn.transaction():
            await world.rename("b", "c")
            await world.rename("a", "b")
        await world.there("c")
        await until(lambda: getattr(world.table.find("b"), "id", None) == UUID(int=1))
        assert getattr(world.table.find("c"), "id", None) == UUID(int=2)
        assert world.table.find("a") is None


async def test_a_namesake_of_one_that_was_deleted_is_found(world: World) -> None:
    async with world.conn.transaction():
        await world.change(phase="DELETED", deleted_at="2026-11-01T12:00:00Z")
        await insert(world.conn, awake("api", 2, upstream=Upstream("127.0.0.1", 5001)))
    await until(lambda: getattr(world.table.find("api"), "id", None) == UUID(int=2))
    assert len(world.table) == 1


async def test_what_was_told_nonsense_about_goes_on(world: World) -> None:
    for nonsense in ("", "no json", "[]", "{}", '{"id": 7}', '{"id": "x"}', "null"):
        await world.conn.execute("SELECT pg_notify('ws_sse', %s)", (nonsense,))
    await world.change(upstream_port=5000)
    await until(lambda: world.table.find("api").upstream.port == 5000)  # type: ignore[union-attr]


async def test_what_is_doubted_is_looked_at_again(world: World) -> None:
    world.table.reads.clear()
    world.table.doubt(API)
    await until(lambda: frozenset({API}) in world.table.reads)
    assert world.table.find("api") is not None


async def test_somebody_in_a_hurry_can_look(database_url: str) -> None:
    async with await connect(database_url) as conn, Pool(database_url) as pool:
        await insert(conn, awake())
        table = HeardTable(pool, database_url)
        assert table.find("api") is None
        route = await table.look(API)
        assert route is not None
        assert table.find("api") is route
        await change(conn, "api", phase="STANDBY")
        assert await table.look(API) is None
        assert table.find("api") is None


async def test_a_look_that_is_older_than_a_change_does_not_undo_it(world: World) -> None:
    """What it read is put in last, and nobody tells of the change once more."""
    table, read = world.table, world.table._read
    has_read, goes_on = asyncio.Event(), asyncio.Event()

    async def late(ids: Iterable[UUID] | None) -> list[Route]:
        table._read = read  # type: ignore[method-assign]
        found = await read(ids)
        has_read.set()
        await goes_on.wait()
        return found

    table._read = late  # type: ignore[method-assign]
    looking = asyncio.create_task(table.look(API))
    await has_read.wait()
    await world.change(upstream_port=5000)
    await until(lambda: table.find("api").upstream.port == 5000)  # type: ignore[union-attr]
    goes_on.set()
    await looking
    await until(lambda: table.find("api").upstream.port == 5000)  # type: ignore[union-attr]


async def test_what_nobody_tells_is_read_in_time_however_much_else_is_told(
    database_url: str,
) -> None:
    async with following(database_url, awake(), interval=0.05) as world:
        await world.conn.execute("ALTER TABLE workspaces DISABLE TRIGGER USER")
        await world.change(upstream_port=5000)
        async with asyncio.timeout(PATIENCE):
            while world.table.find("api").upstream.port != 5000:  # type: ignore[union-attr]
                world.table.doubt(UUID(int=99))
                await asyncio.sleep(0)


# While the database is away


async def test_while_the_database_is_away_the_last_ways_hold(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "PATIENCE", 1.0)
    async with (
        Relay(database_url) as relay,
        following(database_url, awake("api", 1), awake("web", 2), through=relay.url) as world,
    ):
        await relay.stop()
        await world.change("api", upstream_port=5000)
        await world.change("web", phase="STANDBY")
        await insert(world.conn, awake("new", 3))
        world.table.doubt(API)
        with pytest.raises(CodeHubError):
            await world.table.look(API)
        with pytest.raises(CodeHubError):
            await world.table.refresh()
        assert world.table.find("api") is not None
        assert world.table.find("web") is not None
        assert world.table.find("new") is None
        await relay.start()
        await world.there("new")
        await world.gone("web")
        await until(lambda: world.table.find("api").upstream.port == 5000)  # type: ignore[union-attr]
        await world.table.hears(world.conn)
        await world.change("new", phase="STANDBY")
        await world.gone("new")


async def test_what_happened_while_nobody_was_told_is_read(world: World) -> None:
    """Only the connection that is told on breaks, and nobody says so."""
    world.table.reads.clear()
    await world.conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')"
    )
    await world.change(upstream_port=5000)
    await until(lambda: world.table.find("api").upstream.port == 5000)  # type: ignore[union-attr]
