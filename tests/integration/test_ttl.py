"""Whom idleness lowers: the two checks against real rows, their audit, their plans and races."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from codehub.core.express import seconds as exact_words
from codehub.core.express import short as short_words
from codehub.errors import FenceLost
from codehub.model.states import DesiredState, IntentSource, Operation, Phase
from codehub.model.workspace import NEVER, Activity, Intent, Override, Status, Ttl
from codehub.store import ttl
from codehub.store.connect import connect, transaction
from codehub.store.events import events
from codehub.store.fence import take_epoch
from codehub.store.spans import exact, short
from tests.integration.stored import change, number, versions
from tests.integration.ttl_world import asleep, awake, ttl_world

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from codehub.model.workspace import Workspace
    from tests.integration.ttl_world import TtlWorld

pytestmark = pytest.mark.anyio

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
RUNNING, STANDBY = DesiredState.RUNNING, DesiredState.STANDBY
LONG_AGO = datetime.now(UTC) - timedelta(days=365)
TOMORROW = datetime.now(UTC) + timedelta(days=1)
HOUR_TTL = Ttl(standby=3600, archive=7200, busy_cpu=0, policy="short")
PLACES = ("workspaces", "workspace_events", "activity_sync")


async def watched(world: TtlWorld, lasts: timedelta = 12 * MINUTE) -> None:
    """The hub knows all activity of this last time, so the hub's TTL of ten minutes has passed."""
    await world.tick()
    await world.watch(lasts)


async def lowered(url: str, *workspaces: Workspace, **settings: Any) -> dict[str, str]:
    """What each is desired to be after the hub watched for so long that a TTL of it has passed."""
    async with ttl_world(url, *workspaces, **settings) as world:
        await watched(world)
        return {each.name: await world.desired(each.name) for each in workspaces}


# Lowering


async def test_an_idle_workspace_is_asked_to_sleep_and_the_audit_says_why(
    database_url: str,
) -> None:
    async with ttl_world(database_url, awake(ttl=Ttl(standby=60, busy_cpu=0, policy="short"))) as w:
        await watched(w, 4 * MINUTE)

        row = await w.row()
        assert (row["desired_state"], row["desired_source"], row["desired_by"]) == (
            "STANDBY",
            "ttl",
            "ttl",
        )
        assert LONG_AGO < row["desired_at"] <= await w.now()
        (told,) = [each for each in await events(w.conn, "api") if each.kind == "desired"]
        assert (told.old, told.new, told.source, told.by) == ("RUNNING", "STANDBY", "ttl", "ttl")
        assert told.reason.startswith("idle ")
        assert told.reason.endswith(", ttl short.standby=1m")
        assert w.hints.take().ids == {number(1)}


async def test_a_sleeping_workspace_is_asked_to_be_archived(database_url: str) -> None:
    sleeping = asleep(desired=STANDBY)
    async with ttl_world(database_url, sleeping, ttl_archive_seconds=300) as world:
        await watched(world)

        assert await world.desired() == "ARCHIVED"
        (told,) = [each for each in await events(world.conn, "api") if each.kind == "desired"]
        assert (told.old, told.new) == ("STANDBY", "ARCHIVED")
        assert told.reason.startswith("asleep ")
        assert told.reason.endswith(", ttl archive=5m (the hub's setting)")


async def test_only_one_level_at_a_time(database_url: str) -> None:
    """Two expired TTLs do not make one fall of two levels: the second counts from the first."""
    async with ttl_world(
        database_url, awake(), ttl_standby_seconds=60, ttl_archive_seconds=60
    ) as world:
        await watched(world)
        assert await world.desired() == "STANDBY"
        assert (await world.row())["phase"] == "RUNNING"


async def test_a_ttl_of_its_own_goes_before_the_hubs(database_url: str) -> None:
    assert await lowered(
        database_url,
        awake("hubs", 1),
        awake("longer", 2, ttl=HOUR_TTL),
        awake("shorter", 3, ttl=Ttl(standby=30, busy_cpu=0)),
        awake("never", 4, ttl=Ttl(standby=NEVER, archive=NEVER, busy_cpu=0)),
    ) == {"hubs": "STANDBY", "longer": "RUNNING", "shorter": "STANDBY", "never": "RUNNING"}


@pytest.mark.parametrize(
    "fields",
    [
        {"pinned": True},
        {"suspend": True},
        {"declared_state": STANDBY},
        {"intent": Intent(RUNNING, override=Override(STANDBY, TOMORROW, "x"))},
        {"intent": Intent(STANDBY, IntentSource.CLI, LONG_AGO, "alice")},
        {
            "status": Status(
                Phase.RUNNING,
                LONG_AGO,
                operation=Operation.STOPPING,
                op_id=number(9),
                op_started_at=LONG_AGO,
            )
        },
        {"status": Status(Phase.ERROR, LONG_AGO)},
        {"status": Status(Phase.STANDBY, LONG_AGO)},
        {"status": Status(Phase.RUNNING, None)},
        {"status": Status(Phase.RUNNING, LONG_AGO, deleted_at=LONG_AGO)},
        {"ttl": Ttl(standby=NEVER, archive=NEVER, busy_cpu=0)},
    ],
    ids=[
        "pinned",
        "suspended",
        "ceiling",
        "overridden",
        "lowered already",
        "operation",
        "error",
        "waking",
        "never seen",
        "deleted",
        "never",
    ],
)
async def test_a_ttl_leaves_alone_what_is_not_its_to_lower(
    database_url: str, fields: dict[str, Any]
) -> None:
    async with ttl_world(database_url, awake(**fields)) as world:
        before = await versions(world.conn, "workspace_events")
        desired = await world.desired()
        await watched(world)
        assert await world.desired() == desired
        assert await versions(world.conn, "workspace_events") == before


async def test_an_override_that_ended_is_no_ceiling(database_url: str) -> None:
    intent = Intent(RUNNING, override=Override(STANDBY, LONG_AGO, "over"))
    assert await lowered(database_url, awake(intent=intent)) == {"api": "STANDBY"}


async def test_a_ceiling_of_archived_makes_the_archive_ttl_moot(database_url: str) -> None:
    rows = asleep(desired=STANDBY, declared_state=DesiredState.ARCHIVED)
    assert await lowered(database_url, rows, ttl_archive_seconds=60) == {"api": "STANDBY"}


# From when on it counts


async def test_idleness_counts_from_the_later_of_access_and_start(database_url: str) -> None:
    recently = datetime.now(UTC) - 10 * MINUTE
    rows = (
        awake("started", 1, since=recently, ttl=HOUR_TTL, activity=Activity(LONG_AGO)),
        awake("used", 2, ttl=HOUR_TTL, activity=Activity(recently, "input")),
        awake("idle", 3, ttl=HOUR_TTL, activity=Activity(LONG_AGO, "input")),
    )
    async with ttl_world(database_url, *rows) as world:
        await world.tick()
        # The blindness of the first look is long over.
        await world.conn.execute("UPDATE activity_sync SET blind_until = now() - interval '1 day'")
        await world.watch(2 * MINUTE)
        assert {name: await world.desired(name) for name in ("started", "used", "idle")} == {
            "started": "RUNNING",
            "used": "RUNNING",
            "idle": "STANDBY",
        }


@pytest.mark.parametrize(("idle", "desired"), [(39 * MINUTE, "RUNNING"), (42 * MINUTE, "STANDBY")])
async def test_silence_counts_up_to_the_horizon_only(
    database_url: str, idle: timedelta, desired: str
) -> None:
    """A TTL of ten minutes, activity that may be half an hour late: nobody falls after ten."""
    async with ttl_world(
        database_url,
        awake(),
        activity_flush_interval=1500,
        activity_slack_seconds=300,
        coordinator_ttl_interval=600,
    ) as world:
        await world.tick()
        await change(world.conn, "api", last_access_at=await world.now())
        await world.pass_time(idle)
        await world.tick()
        assert await world.desired() == desired


@pytest.mark.parametrize("source", [IntentSource.VISIT, IntentSource.API, IntentSource.CLI])
async def test_a_persons_word_is_a_sign_of_life(database_url: str, source: IntentSource) -> None:
    """Their visit reaches the activity column later than what they asked for."""
    async with ttl_world(database_url, awake()) as world:
        await watched(world, 8 * MINUTE)
        await change(world.conn, "api", desired_source=source.value, desired_at=await world.now())
        await world.watch(6 * MINUTE)
        assert await world.desired() == "RUNNING"
        await world.watch(6 * MINUTE)
        assert await world.desired() == "STANDBY"


async def test_a_touch_is_a_sign_of_life(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        await watched(world, 8 * MINUTE)
        await change(world.conn, "api", last_access_at=await world.now())
        await world.watch(6 * MINUTE)
        assert await world.desired() == "RUNNING"


# Writing


async def test_a_tick_that_lowers_nobody_writes_no_workspace(database_url: str) -> None:
    async with ttl_world(database_url, awake(), asleep("zzz", 2, desired=STANDBY)) as world:
        await world.tick()
        before = await versions(world.conn, "workspaces", "workspace_events")
        await world.tick()
        assert await versions(world.conn, "workspaces", "workspace_events") == before


async def test_a_leader_that_was_replaced_writes_nothing(database_url: str) -> None:
    async with ttl_world(database_url, awake(), asleep("zzz", 2, desired=STANDBY)) as world:
        await watched(world, 9 * MINUTE)
        await world.pass_time(3 * MINUTE)
        await world.signals.record_activity({(number(1), "input"): SECOND})
        old = await world.lead_anew()
        before = await versions(world.conn, *PLACES)
        sentinel, members = world.signals.sentinel, dict(world.signals.members)

        with pytest.raises(FenceLost):
            await old.tick()

        assert await versions(world.conn, *PLACES) == before
        assert (world.signals.sentinel, world.signals.members) == (sentinel, members)


@pytest.mark.parametrize("place", ["read", "forget"])
async def test_a_leader_replaced_in_the_middle_of_a_tick_writes_nothing_more(
    database_url: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ttl_world(database_url, awake()) as world:
        await watched(world, 9 * MINUTE)
        await world.pass_time(3 * MINUTE)
        await world.signals.record_activity({(number(99), "input"): SECOND})
        before = await versions(world.conn, "workspaces", "workspace_events")
        signals, call = world.signals, f"{place}_activity"
        original = getattr(signals, call)

        async def replaced(*arguments: Any) -> Any:
            await take_epoch(world.conn, "coordinator", "other")
            return await original(*arguments)

        monkeypatch.setattr(signals, call, replaced)
        with pytest.raises(FenceLost):
            await world.tick()
        assert await versions(world.conn, "workspaces", "workspace_events") == before


async def test_activity_that_comes_while_the_check_waits_is_seen(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world, await connect(database_url) as other:
        await watched(world, 9 * MINUTE)
        await world.pass_time(3 * MINUTE)
        async with transaction(other):
            await other.execute("UPDATE workspaces SET last_access_at = now()")
            tick = asyncio.create_task(world.tick())
            await until_somebody_waits(world.conn)
        await tick
        assert await world.desired() == "RUNNING"


async def until_somebody_waits(conn: AsyncConnection[Any]) -> None:
    query = (
        "SELECT count(*) AS n FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with asyncio.timeout(60):
        while True:
            row = await (await conn.execute(query)).fetchone()
            if row and row["n"]:
                return


# Plans and words


MANY = (
    "INSERT INTO workspaces (name, owner_user_id, instance_backend, storage_backend, phase,"
    " desired_state, phase_changed_at, last_access_at, standby_ttl_seconds, archive_ttl_seconds)"
    " SELECT at.phase || n, owner_user_id, 'process', 'directory', at.phase, at.phase, now(),"
    " now() - make_interval(secs => n), CASE WHEN n % 2 = 0 THEN 6000 END,"
    " CASE WHEN n % 2 = 0 THEN 6000 END"
    " FROM workspaces, generate_series(1, 3000) AS n,"
    " (VALUES ('RUNNING'), ('STANDBY'), ('ARCHIVED')) AS at (phase)"
    " WHERE name = 'api'"
)


@pytest.mark.parametrize(
    ("statement", "indexes"),
    [
        (ttl.LOWER_TO_STANDBY, {"workspaces_standby_due", "workspaces_standby_due_by_hub"}),
        (ttl.LOWER_TO_ARCHIVED, {"workspaces_archive_due", "workspaces_archive_due_by_hub"}),
        (ttl.WATCHED, {"workspaces_standby_due", "workspaces_standby_due_by_hub"}),
        (ttl.BRING_BACK, {"workspaces_reconcile"}),
        (
            ttl.REMIND,
            {
                "workspaces_standby_due",
                "workspaces_standby_due_by_hub",
                "workspaces_archive_due",
                "workspaces_archive_due_by_hub",
            },
        ),
    ],
    ids=["standby", "archive", "watched", "bring back", "remind"],
)
async def test_with_nothing_due_no_workspace_is_read(
    database_url: str, statement: str, indexes: set[str]
) -> None:
    values = {
        "horizon": datetime.now(UTC) - 2 * HOUR,
        "soon": datetime.now(UTC) - 2 * HOUR,
        "blind_until": LONG_AGO,
        "hub_standby_ttl": 6000,
        "hub_archive_ttl": 6000,
        "quiet": [],
        "reminder": 5 * MINUTE,
        "flush": 30.0,
        "slack": 10.0,
        "fence_name": "coordinator",
    }
    async with ttl_world(database_url, awake()) as world:
        await world.conn.execute(MANY)
        await world.conn.execute("ANALYZE workspaces")
        fence = "WITH fence AS (SELECT 1)" if statement.strip().startswith(",") else ""
        found = await world.conn.execute(f"EXPLAIN {fence} {statement}", values)
        plan = "\n".join(row["QUERY PLAN"] for row in await found.fetchall())

    assert "Seq Scan on workspaces" not in plan
    assert {each for each in indexes if f"{each} " not in plan} == set()


async def test_a_statement_speaks_of_time_as_everything_else_does(database_url: str) -> None:
    spans = [-5, 0, 1, 59, 60, 61, 90, 119, 120, 3599, 3600, 3601, 3660, 5400, 7200, 86_399]
    spans += [86_400, 86_401, 90_000, 90_061, 172_800, 172_801, 176_400, 604_800, 31_536_000]
    query = f"SELECT {short('%(span)s::interval')} AS short, {exact('%(span)s::interval')} AS exact"
    async with await connect(database_url) as conn:
        for each in spans:
            span = timedelta(seconds=each)
            row = await (await conn.execute(query, {"span": span})).fetchone()
            assert row == {"short": short_words(span), "exact": exact_words(max(0, each))}
