"""Between being asked to sleep and being stopped: expiry is tested once more, and people return."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.store.events import events
from codehub.store.ttl import STILL_IDLE
from tests.integration.stored import change, number
from tests.integration.ttl_world import awake, ttl_world

if TYPE_CHECKING:
    from tests.integration.ttl_world import TtlWorld

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)
QUERY = f"SELECT {STILL_IDLE} AS idle FROM workspaces w WHERE name = 'api'"


async def still_idle(world: TtlWorld) -> bool:
    values = {
        "hub_standby_ttl": world.settings.ttl_standby_seconds,
        "flush": world.settings.activity_flush_interval,
        "slack": world.settings.activity_slack_seconds,
        "fence_name": "coordinator",
    }
    row = await (await world.conn.execute(QUERY, values)).fetchone()
    assert row is not None
    assert row["idle"] in (True, False)
    return bool(row["idle"])


async def told_to_sleep(world: TtlWorld) -> None:
    await world.tick()
    await world.watch(12 * MINUTE)
    assert await world.desired() == "STANDBY"


async def reasons(world: TtlWorld) -> list[tuple[str, str]]:
    found = [each for each in await events(world.conn, "api") if each.kind == "desired"]
    return [(each.new, each.reason) for each in found]


# What the claim asks


async def test_what_was_told_to_sleep_may_be_stopped(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        await told_to_sleep(world)
        assert await still_idle(world)


async def test_who_was_active_since_is_not_stopped(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        await told_to_sleep(world)
        await change(world.conn, "api", last_access_at=await world.now())
        assert not await still_idle(world)


async def test_activity_from_before_the_lowering_that_came_late_counts(database_url: str) -> None:
    """They came back while their report was still under way."""
    async with ttl_world(database_url, awake()) as world:
        await told_to_sleep(world)
        lowered = (await world.row())["desired_at"]
        await change(world.conn, "api", last_access_at=lowered - timedelta(seconds=20))
        assert not await still_idle(world)


@pytest.mark.parametrize("ttl", [0, 3600])
async def test_another_ttl_counts_at_once(database_url: str, ttl: int) -> None:
    async with ttl_world(database_url, awake()) as world:
        await told_to_sleep(world)
        await change(world.conn, "api", standby_ttl_seconds=ttl)
        assert not await still_idle(world)


async def test_without_an_answer_of_redis_nobody_is_surely_idle(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        await told_to_sleep(world)
        await world.conn.execute("UPDATE activity_sync SET sentinel = ''")
        assert not await still_idle(world)
        await world.conn.execute("DELETE FROM activity_sync")
        assert not await still_idle(world)


async def test_a_new_leader_reads_activity_before_it_stops_anybody(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        await told_to_sleep(world)
        await world.signals.record_activity({(number(1), "input"): timedelta(seconds=1)})
        await world.lead_anew()
        assert not await still_idle(world)
        await world.tick()
        assert await world.desired() == "RUNNING"


async def test_what_came_up_after_it_was_told_to_sleep_is_not_protected(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        await told_to_sleep(world)
        await change(world.conn, "api", phase_changed_at=await world.now())
        assert await still_idle(world)
        await world.tick()
        assert await world.desired() == "STANDBY"


async def test_a_stop_that_no_ttl_asks_for_is_not_its_matter(database_url: str) -> None:
    """Desired RUNNING again by the TTL's own word, under a ceiling that is lower."""
    async with ttl_world(database_url, awake()) as world:
        await world.tick()
        now = await world.now()
        await change(world.conn, "api", desired_source="ttl", desired_at=now, last_access_at=now)
        assert await still_idle(world)


# Who comes back


async def test_who_comes_back_before_the_stop_is_asked_to_run_again(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        await told_to_sleep(world)
        world.hints.take()
        await world.signals.record_activity({(number(1), "input"): timedelta(seconds=20)})
        await world.watch(MINUTE)

        row = await world.row()
        assert (row["desired_state"], row["desired_source"]) == ("RUNNING", "ttl")
        assert (await reasons(world))[-1] == ("RUNNING", "active again")
        assert world.hints.take().ids == {number(1)}
        await world.watch(8 * MINUTE)
        assert await world.desired() == "RUNNING"
        await world.watch(4 * MINUTE)
        assert await world.desired() == "STANDBY"


@pytest.mark.parametrize("trouble", ["down", "flushed"])
async def test_nobody_stays_told_to_sleep_through_a_blindness(
    database_url: str, trouble: str
) -> None:
    async with ttl_world(database_url, awake()) as world:
        await told_to_sleep(world)
        if trouble == "down":
            world.signals.down = True
        else:
            world.signals.flush()
        await world.watch(MINUTE)
        assert (await reasons(world))[-1] == ("RUNNING", "not surely idle any more")


async def test_who_stays_away_stays_told_to_sleep(database_url: str) -> None:
    async with ttl_world(database_url, awake()) as world:
        await told_to_sleep(world)
        asked = (await world.row())["desired_at"]
        await world.watch(5 * MINUTE)
        assert (await world.row())["desired_at"] == asked - 5 * MINUTE
        assert len(await reasons(world)) == 1


@pytest.mark.parametrize(
    "columns",
    [
        {"desired_source": "cli"},
        {"suspend": True},
        {"phase": "STANDBY"},
        {
            "operation": "STOPPING",
            "op_id": number(7),
            "op_started_at": "2026-11-01",
        },
    ],
    ids=["a person asked", "suspended", "asleep", "being stopped"],
)
async def test_only_what_a_ttl_lowered_and_still_runs_comes_back(
    database_url: str, columns: dict[str, object]
) -> None:
    async with ttl_world(database_url, awake()) as world:
        await told_to_sleep(world)
        await change(world.conn, "api", last_access_at=await world.now(), **columns)
        await world.tick()
        assert await world.desired() == "STANDBY"
