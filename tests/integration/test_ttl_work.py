"""Work without a person keeps a workspace awake, and what cannot be measured does so too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from codehub.errors import ActionFailed, Unreachable
from codehub.model.runtime import Stats
from codehub.model.workspace import Runtime, Ttl
from tests.integration.stored import number
from tests.integration.ttl_world import awake, ttl_world

if TYPE_CHECKING:
    from tests.integration.ttl_world import TtlWorld

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)
ONE = number(1)
START = datetime(2026, 11, 1, tzinfo=UTC)
COUNTS_WORK = Ttl(standby=600, busy_cpu=25)


class Work:
    """A workspace that takes so many percent of a core from one minute to the next."""

    def __init__(self, world: TtlWorld) -> None:
        self.world = world
        self.minute = 0
        self.spent = 50.0

    async def go_on(self, percent: float, minutes: int = 1) -> None:
        for _ in range(minutes):
            self.minute += 1
            self.spent += percent * 0.6
            self.world.meter.answers[ONE] = Stats(self.spent, 0, START + self.minute * MINUTE)
            await self.world.watch(MINUTE)


async def nearly_due(world: TtlWorld, name: str = "api") -> None:
    """Ten minutes of idleness are almost over; nobody has looked at its work yet."""
    await world.tick()
    await world.watch(7 * MINUTE)
    assert world.meter.asked == []
    assert await world.desired(name) == "RUNNING"


async def test_what_works_stays_awake_and_the_work_is_its_last_activity(database_url: str) -> None:
    async with ttl_world(database_url, awake(ttl=COUNTS_WORK)) as world:
        await nearly_due(world)
        await Work(world).go_on(30, minutes=5)
        row = await world.row()
        assert (row["desired_state"], row["last_access_source"]) == ("RUNNING", "cpu")
        assert row["last_access_at"] > await world.now() - 5 * MINUTE


async def test_what_does_nothing_falls_asleep_on_time(database_url: str) -> None:
    async with ttl_world(database_url, awake(ttl=COUNTS_WORK)) as world:
        await nearly_due(world)
        await Work(world).go_on(20, minutes=4)
        row = await world.row()
        assert (row["desired_state"], row["last_access_at"]) == ("STANDBY", None)


async def test_work_that_ends_is_followed_by_a_whole_ttl(database_url: str) -> None:
    async with ttl_world(database_url, awake(ttl=COUNTS_WORK)) as world:
        await nearly_due(world)
        work = Work(world)
        await work.go_on(90, minutes=3)
        await work.go_on(0, minutes=8)
        assert await world.desired() == "RUNNING"
        await work.go_on(0, minutes=5)
        assert await world.desired() == "STANDBY"


async def test_a_due_workspace_is_looked_at_twice(database_url: str) -> None:
    """A leader that has just come, and a workspace that is long due."""
    async with ttl_world(database_url, awake(ttl=COUNTS_WORK)) as world:
        await nearly_due(world)
        work = Work(world)
        await world.watch(4 * MINUTE)
        assert await world.desired() == "RUNNING"
        await work.go_on(0)
        assert await world.desired() == "RUNNING"
        await world.tick()
        assert await world.desired() == "RUNNING", "a second look at the same moment says nothing"
        await work.go_on(0)
        assert await world.desired() == "STANDBY"


@pytest.mark.parametrize(
    "answer",
    [None, Unreachable("no engine"), TimeoutError(), ActionFailed("no"), RuntimeError("a fault")],
    ids=["not running", "unreachable", "too slow", "refused", "fault"],
)
async def test_what_cannot_be_measured_is_left_and_holds_up_no_other(
    database_url: str, answer: Exception | None
) -> None:
    rows = (awake(ttl=COUNTS_WORK), awake("other", 2), awake("third", 3, ttl=COUNTS_WORK))
    async with ttl_world(database_url, *rows) as world:
        await nearly_due(world)
        for minute in range(5):
            world.meter.answers[ONE] = answer
            world.meter.answers[number(3)] = Stats(7.0, 0, START + minute * MINUTE)
            await world.watch(MINUTE)
        assert ONE in world.meter.asked
        assert await world.desired("api") == "RUNNING"
        assert await world.desired("other") == "STANDBY"
        assert await world.desired("third") == "STANDBY"


async def test_a_restart_in_between_says_nothing(database_url: str) -> None:
    async with ttl_world(database_url, awake(ttl=COUNTS_WORK)) as world:
        await nearly_due(world)
        work = Work(world)
        for _ in range(4):
            work.spent -= 10
            await work.go_on(0)
        assert await world.desired() == "RUNNING"
        await work.go_on(0)
        assert await world.desired() == "STANDBY"


async def test_a_runtime_that_is_not_there_measures_nothing(database_url: str) -> None:
    row = awake(ttl=COUNTS_WORK, runtime=Runtime.DOCKER, image="x")
    async with ttl_world(database_url, row) as world:
        await nearly_due(world)
        await Work(world).go_on(0, minutes=5)
        assert world.meter.asked == []
        assert await world.desired() == "RUNNING"


async def test_only_what_falls_soon_is_looked_at(database_url: str) -> None:
    rows = (
        awake("far", 1, ttl=Ttl(standby=3600, busy_cpu=25)),
        awake("off", 2, ttl=Ttl(standby=600, busy_cpu=0)),
        awake("pinned", 3, ttl=COUNTS_WORK, pinned=True),
        awake("soon", 4, ttl=COUNTS_WORK),
    )
    async with ttl_world(database_url, *rows) as world:
        await nearly_due(world, "soon")
        await world.watch(3 * MINUTE)
        assert set(world.meter.asked) == {number(4)}
