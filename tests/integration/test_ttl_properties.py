"""Whatever Redis does, nobody is stopped who was there inside their TTL; and who is gone, falls.

People work, proxies report late and again, Redis is flushed, restarted or away, leaders die and
others lead. Nothing is asked of the code but what it writes: each lowering and each stop is held
against the list of what people really did.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from codehub.errors import FenceLost, Unreachable
from codehub.model.workspace import Ttl
from codehub.store.activity import record_activity
from codehub.store.connect import connect
from codehub.store.fence import HOLDS, fenced
from codehub.store.ttl import STILL_IDLE
from tests.integration.ttl_world import awake, ttl_world

if TYPE_CHECKING:
    from codehub.coordinator.ttl import TtlRunner
    from tests.integration.ttl_world import TtlWorld

SECOND = timedelta(seconds=1)
FLUSH, SLACK, INTERVAL = 60 * SECOND, 120 * SECOND, 300 * SECOND
LAG, RESENT = FLUSH + SLACK, 180 * SECOND
STANDBY, ARCHIVE = 1800 * SECOND, 3600 * SECOND
SETTINGS: dict[str, Any] = {
    "coordinator_ttl_interval": INTERVAL.total_seconds(),
    "activity_flush_interval": FLUSH.total_seconds(),
    "activity_slack_seconds": SLACK.total_seconds(),
    "ttl_standby_seconds": int(STANDBY.total_seconds()),
    "ttl_archive_seconds": int(ARCHIVE.total_seconds()),
    "ttl_reminder_seconds": 0,
}
NAMES = ("hubs", "own")

# What the controller does with desired states, as far as it matters here.
STOP = f"""
UPDATE workspaces w SET phase = 'STANDBY', phase_changed_at = now()
WHERE w.phase = 'RUNNING' AND w.desired_state = 'STANDBY' AND w.operation = 'NONE'
    AND (w.desired_source <> 'ttl' OR {STILL_IDLE}) AND {HOLDS}
RETURNING w.name, now() AS at
"""
SHELVE = """
UPDATE workspaces SET phase = 'ARCHIVED', phase_changed_at = now()
WHERE phase = 'STANDBY' AND desired_state = 'ARCHIVED'
"""
WAKE = """
UPDATE workspaces SET phase = 'RUNNING', phase_changed_at = now(), desired_state = 'RUNNING',
    desired_source = 'visit', desired_at = now()
WHERE name = %(name)s AND phase <> 'RUNNING'
"""
LOWERED = """
SELECT name, desired_state AS state, desired_at AS at, phase_changed_at FROM workspaces
WHERE desired_source = 'ttl' AND desired_state <> 'RUNNING' AND desired_at >= %(since)s
"""


@dataclass
class Story:
    """What really happened, and the hub it happened to.

    `later` is how much time has passed by moving the past; `owed` what of it the database does not
    know yet. A moment of the story is a moment of the clock plus `later`.
    """

    world: TtlWorld
    ids: dict[str, UUID]
    later: timedelta = timedelta(0)
    owed: timedelta = timedelta(0)
    work: dict[str, list[datetime]] = field(default_factory=dict)
    lost_sight: datetime | None = None
    drained: datetime | None = None
    leads: bool = True
    former: TtlRunner | None = None
    _reported: datetime | None = None

    def now(self) -> datetime:
        return datetime.now(UTC) + self.later

    # People and proxies

    async def works(self, name: str) -> None:
        """Somebody is there; where it sleeps, the visit wakes it first."""
        await self._settle()
        await self.world.conn.execute(WAKE, {"name": name})
        self.work.setdefault(name, []).append(self.now())

    async def report(self) -> None:
        """A proxy's flush: all of the last minutes, by its age; straight to Postgres if need be."""
        now = self.now()
        since = max(RESENT, now - self._reported if self._reported else RESENT)
        self._reported = now
        last = {name: max(times) for name, times in self.work.items() if times}
        ages = {self.ids[name]: now - at for name, at in last.items() if now - at <= since}
        try:
            await self.world.signals.record_activity(
                {(key, "input"): age for key, age in ages.items()}
            )
        except Unreachable:
            await self._settle()
            clock = datetime.now(UTC)
            seen = {key: clock - age for key, age in ages.items()}
            await record_activity(self.world.conn, seen, "input")

    # Time

    async def wait(self, lasts: timedelta) -> None:
        """Proxies report in time, and whoever leads ticks in time."""
        ticked = timedelta(0)
        while lasts > timedelta(0):
            step = min(max(SECOND, self._until_report()), lasts)
            await self.skip(step)
            await self.report()
            lasts, ticked = lasts - step, ticked + step
            if ticked >= INTERVAL:
                await self.tick()
                ticked = timedelta(0)

    async def pause(self, lasts: timedelta) -> None:
        """So short that no proxy needs to report."""
        await self.skip(max(timedelta(0), min(lasts, self._until_report())))

    def _until_report(self) -> timedelta:
        return FLUSH if self._reported is None else FLUSH - (self.now() - self._reported)

    async def skip(self, by: timedelta) -> None:
        self.later += by
        self.owed += by
        self.world.signals.pass_time(by)

    async def _settle(self) -> None:
        """What passed for people and Redis passes for the database too."""
        if self.owed:
            by, self.owed = self.owed, timedelta(0)
            self.world.signals.pass_time(-by)
            await self.world.pass_time(by)

    # The coordinator

    async def tick(self) -> None:
        if not self.leads:
            return
        await self._settle()
        began, real = self.now(), await self.world.now()
        failed = self.world.failures.counts["ttl"]
        await self.world.tick()
        good = self.world.failures.counts["ttl"] == failed
        self.drained = began if good else None
        if not good:
            self.lost_sight = began
        found = await self.world.conn.execute(LOWERED, {"since": real})
        for row in await found.fetchall():
            assert good, "lowered without having read activity"
            self._judge(row["name"], row["state"], row["at"], row["phase_changed_at"])

    async def control(self) -> None:
        """The controller stops and archives what is asked for."""
        if not self.leads:
            return
        await self._settle()
        values = {
            "hub_standby_ttl": STANDBY.total_seconds(),
            "flush": FLUSH.total_seconds(),
            "slack": SLACK.total_seconds(),
        }
        fence = self.world.runner._lead.fence
        stopped = await (await fenced(self.world.conn, fence, STOP, values)).fetchall()
        for row in stopped:
            assert self.drained, "stopped by a leader that has not read activity"
            self._was_away(row["name"], row["at"] + self.later)
        await self.world.conn.execute(SHELVE)

    async def lead(self) -> None:
        await self._settle()
        self.former = await self.world.lead_anew()
        self.leads, self.drained = True, None

    async def wake_former(self) -> None:
        """Who led before comes to, and believes to lead."""
        if self.former is not None:
            await self._settle()
            with pytest.raises(FenceLost):
                await self.former.tick()

    # What must hold

    def _judge(self, name: str, state: str, at: datetime, since: datetime) -> None:
        if state == "STANDBY":
            self._was_away(name, at + self.later)
        else:
            assert at - since > ARCHIVE, f"{name} was archived too early"
        if self.lost_sight is not None:
            limit = STANDBY if state == "STANDBY" else ARCHIVE
            assert at + self.later - self.lost_sight > limit, f"{name} fell for a blind time"

    def _was_away(self, name: str, at: datetime) -> None:
        """Nobody was there inside the TTL.

        But for those who came back after it had run out, too lately for a proxy to have told.
        """
        assert self.drained is not None
        known = self.drained - LAG
        before = [each for each in self.work.get(name, []) if each < at - STANDBY]
        for each in self.work.get(name, []):
            if each >= at - STANDBY:
                assert each > known, f"{name} fell though somebody was there {at - each} before"
                left = before[-1] if before else each - 2 * STANDBY
                assert each - left > STANDBY, f"{name} fell though somebody never left it"

    # Redis

    def flush(self) -> None:
        self.world.signals.flush()
        self.lost_sight = self.now()

    def restart(self) -> None:
        self.world.signals.restart()
        self.lost_sight = self.now()

    def come_back(self) -> None:
        self.world.signals.down = False


async def begin(story: Story) -> None:
    await story.report()
    await story.tick()
    story.lost_sight = story.now()


async def act(story: Story, step: tuple[Any, ...]) -> None:
    match step:
        case ("work", name):
            await story.works(name)
        case ("wait", seconds):
            await story.wait(seconds * SECOND)
        case ("pause", seconds):
            await story.pause(seconds * SECOND)
        case ("report",):
            await story.report()
        case ("tick",):
            await story.tick()
        case ("control",):
            await story.control()
        case ("flush",):
            story.flush()
        case ("save",):
            story.world.signals.save()
        case ("restart",):
            story.restart()
        case ("down",):
            story.world.signals.down = True
        case ("up",):
            story.come_back()
        case ("die",):
            story.leads = False
        case ("lead",):
            await story.lead()
        case ("former",):
            await story.wake_former()


async def all_is_well_again(story: Story) -> None:
    """Nobody comes any more, and nothing is in the way."""
    story.come_back()
    if not story.leads:
        await story.lead()


async def phases(story: Story) -> set[str]:
    rows = await (await story.world.conn.execute("SELECT phase FROM workspaces")).fetchall()
    return {row["phase"] for row in rows}


async def quiet(story: Story, lasts: timedelta) -> None:
    await story.wait(FLUSH)
    while lasts > timedelta(0):
        await story.skip(2.5 * INTERVAL)
        await story.tick()
        await story.control()
        lasts -= 2.5 * INTERVAL


async def live_through(url: str, steps: list[tuple[Any, ...]]) -> None:
    rows = (awake("hubs", 1), awake("own", 2, ttl=Ttl(1800, 3600, busy_cpu=0)))
    async with await connect(url) as conn:
        await conn.execute("TRUNCATE workspaces, activity_sync, system_locks")
    async with ttl_world(url, *rows, **SETTINGS) as world:
        story = Story(world, {name: UUID(int=n) for n, name in enumerate(NAMES, 1)})
        await begin(story)
        for step in steps:
            await act(story, step)
        await all_is_well_again(story)
        await quiet(story, STANDBY + LAG + 4 * INTERVAL)
        assert await phases(story) <= {"STANDBY", "ARCHIVED"}, "somebody gone is kept awake"
        await quiet(story, ARCHIVE + LAG + 2 * INTERVAL)
        assert await phases(story) == {"ARCHIVED"}, "somebody gone is not archived"


NAMED = st.sampled_from(NAMES)
STEPS = st.one_of(
    st.tuples(st.just("work"), NAMED),
    st.tuples(st.just("wait"), st.sampled_from([20, 59, 61, 300, 900, 1500, 1790, 2100])),
    st.tuples(st.just("pause"), st.sampled_from([10, 40])),
    st.sampled_from([("tick",), ("control",), ("report",)]),
    st.sampled_from([("flush",), ("save",), ("restart",), ("down",), ("up",)]),
    st.sampled_from([("die",), ("lead",), ("former",)]),
)
HOUR_AWAY = [("work", "own"), ("down",), ("wait", 2100), ("work", "hubs"), ("wait", 1500), ("up",)]
LOST = [("work", "own"), ("wait", 1500), ("work", "hubs"), ("wait", 60), ("flush",), ("tick",)]
OLD_STATE = [("save",), ("wait", 900), ("work", "own"), ("wait", 61), ("restart",), ("wait", 1790)]
HICCUP = [("wait", 1500), ("down",), ("tick",), ("up",), ("wait", 900)]
UNTOLD = [("work", "own"), ("wait", 1790), ("work", "own"), ("pause", 15), ("tick",)]
LATE_STOP = [("wait", 2100), ("work", "own"), ("wait", 60), ("die",), ("lead",), ("control",)]


@settings(
    max_examples=120,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(STEPS, max_size=12))
@example(HOUR_AWAY)
@example(LOST)
@example(OLD_STATE)
@example(LATE_STOP)
@example(HICCUP)
@example(UNTOLD)
def test_nobody_falls_who_was_there_and_everybody_falls_who_is_gone(
    database_url: str, steps: list[tuple[Any, ...]]
) -> None:
    asyncio.run(live_through(database_url, steps))
