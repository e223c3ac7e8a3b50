"""A hub whose people, proxies, Redis and time a test moves at will; Postgres is real.

Time passes by moving every stored moment into the past: the clock is Postgres's and stays.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from codehub.config import Settings
from codehub.coordinator.hints import Hints
from codehub.coordinator.lead import Lead
from codehub.coordinator.pace import Failures
from codehub.coordinator.ttl import TtlRunner
from codehub.errors import Unreachable
from codehub.model.signals import ActivityRead, Sighting
from codehub.model.states import Phase
from codehub.model.workspace import Activity, Intent, Runtime, Status, Ttl
from codehub.store.connect import connect
from codehub.store.fence import take_epoch
from codehub.store.pool import Pool
from tests.integration.stored import insert
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub import ports
    from codehub.model.runtime import Stats
    from codehub.model.states import DesiredState
    from codehub.model.workspace import Workspace

SHIFT = (
    "UPDATE workspaces SET last_access_at = last_access_at - %(by)s,"
    " phase_changed_at = phase_changed_at - %(by)s, desired_at = desired_at - %(by)s,"
    " override_until = override_until - %(by)s",
    "UPDATE activity_sync SET drained_at = drained_at - %(by)s, blind_until = blind_until - %(by)s",
    "UPDATE system_locks SET acquired_at = acquired_at - %(by)s",
    "UPDATE workspace_events SET at = at - %(by)s",
)


class MemorySignals:
    """`codehub.ports.Signals` that forgets, goes back to an old state or away when a test says so.

    `ahead` is how far its clock is from ours: nobody may rely on that.
    """

    def __init__(self, ahead: timedelta = timedelta(0)) -> None:
        self.ahead = ahead
        self.members: dict[tuple[UUID, str], datetime] = {}
        self.sentinel: str | None = None
        self.run = 1
        self.down = False
        self._saved: tuple[dict[tuple[UUID, str], datetime], str | None] = ({}, None)

    # What Redis does by itself

    def flush(self) -> None:
        self.members, self.sentinel = {}, None

    def save(self) -> None:
        self._saved = (dict(self.members), self.sentinel)

    def restart(self) -> None:
        """Back to what was last saved, sentinel and all."""
        self.members, self.sentinel = dict(self._saved[0]), self._saved[1]
        self.run += 1

    def begin_with(
        self, sentinel: str | None, members: Mapping[tuple[UUID, str], datetime]
    ) -> None:
        """Another story: it answers, and knows its mark and who was seen."""
        self.members, self.sentinel, self.down = dict(members), sentinel, False
        self.save()

    def pass_time(self, by: timedelta) -> None:
        self.members = {key: at - by for key, at in self.members.items()}
        members = {key: at - by for key, at in self._saved[0].items()}
        self._saved = (members, self._saved[1])

    # What the hub asks of it

    async def record_activity(self, ages: Mapping[tuple[UUID, str], timedelta]) -> None:
        self._require_answer()
        for key, age in ages.items():
            at = self._now() - age
            self.members[key] = max(at, self.members.get(key, at))

    async def read_activity(self) -> ActivityRead:
        self._require_answer()
        found = tuple(Sighting(key[0], key[1], at) for key, at in self.members.items())
        return ActivityRead(self._now(), self.sentinel, f"run-{self.run}", found)

    async def forget_activity(self, seen: Iterable[Sighting]) -> None:
        self._require_answer()
        for each in seen:
            key = (each.workspace_id, each.source)
            if self.members.get(key) == each.at:
                del self.members[key]

    async def write_sentinel(self, text: str) -> None:
        self._require_answer()
        self.sentinel = text

    async def publish(self, channel: str, message: str) -> None:
        raise AssertionError("a look for idle workspaces has nothing to say there")

    async def subscribe(self, channel: str) -> AsyncIterator[str]:
        raise AssertionError("a look for idle workspaces has nothing to say there")
        yield ""

    async def follow(self, patterns: Sequence[str]) -> AsyncIterator[str | None]:
        raise AssertionError("a look for idle workspaces has nothing to hear there")
        yield None

    async def close(self) -> None: ...

    def _now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def _require_answer(self) -> None:
        if self.down:
            raise Unreachable("Redis gives no answer")


class Meter:
    """The part of a runtime that measures; `answers` may hold an error to raise."""

    def __init__(self) -> None:
        self.answers: dict[UUID, Stats | Exception | None] = {}
        self.asked: list[UUID] = []

    async def stats(self, workspace_id: UUID) -> Stats | None:
        self.asked.append(workspace_id)
        answer = self.answers.get(workspace_id)
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class TtlWorld:
    """One hub in one term of leadership; `lead_anew` begins the next one."""

    conn: AsyncConnection[DictRow]
    pool: Pool
    signals: MemorySignals
    settings: Settings
    runner: TtlRunner
    meter: Meter = field(default_factory=Meter)
    hints: Hints = field(default_factory=Hints)
    failures: Failures = field(default_factory=Failures)

    async def lead_anew(self, signals: ports.Signals | None = None) -> TtlRunner:
        """A new leader; returns the one before it."""
        before = self.runner
        lead = Lead(UUID(int=0), await take_epoch(self.conn, "coordinator", "test"), self.pool)
        runtimes = {Runtime.PROCESS: cast("ports.Runtime", self.meter)}
        self.runner = TtlRunner(
            lead, signals or self.signals, runtimes, self.settings, self.failures, self.hints
        )
        return before

    async def tick(self) -> None:
        await self.runner.tick()

    async def pass_time(self, by: timedelta) -> None:
        """Everything that is stored happened so much longer ago."""
        async with self.conn.transaction():
            # The audit is append-only for everybody but time.
            await self.conn.execute("SET LOCAL session_replication_role = replica")
            for each in SHIFT:
                await self.conn.execute(each, {"by": by})
        self.signals.pass_time(by)

    async def watch(self, lasts: timedelta) -> None:
        """Time passes, and ticks happen often enough."""
        step = 2 * timedelta(seconds=self.settings.coordinator_ttl_interval)
        while lasts > timedelta(0):
            await self.pass_time(min(step, lasts))
            await self.tick()
            lasts -= step

    async def row(self, name: str = "api") -> dict[str, Any]:
        found = await self.conn.execute("SELECT * FROM workspaces WHERE name = %s", (name,))
        row = await found.fetchone()
        assert row is not None
        return row

    async def desired(self, name: str = "api") -> str:
        return str((await self.row(name))["desired_state"])

    async def now(self) -> datetime:
        row = await (await self.conn.execute("SELECT now() AS now")).fetchone()
        assert row is not None
        moment: datetime = row["now"]
        return moment


@asynccontextmanager
async def ttl_world(
    url: str, *workspaces: Workspace, signals: MemorySignals | None = None, **settings: Any
) -> AsyncIterator[TtlWorld]:
    """A hub with these workspaces, whose first leader has not looked yet."""
    async with await connect(url) as conn, Pool(url) as pool:
        await insert(conn, *workspaces)
        world = TtlWorld(
            conn, pool, signals or MemorySignals(), Settings(**settings), cast("TtlRunner", None)
        )
        await world.lead_anew()
        yield world


def awake(
    name: str = "api", number: int = 1, *, since: datetime | None = None, **fields: Any
) -> Workspace:
    """Running and desired so since long ago; nobody was ever seen in it."""
    since = since or datetime.now(UTC) - timedelta(days=365)
    fields.setdefault("ttl", Ttl(busy_cpu=0))
    fields.setdefault("status", Status(Phase.RUNNING, phase_changed_at=since))
    return workspace(name, number=number, **fields)


def asleep(
    name: str = "api",
    number: int = 1,
    *,
    desired: DesiredState,
    since: datetime | None = None,
    **fields: Any,
) -> Workspace:
    since = since or datetime.now(UTC) - timedelta(days=365)
    fields.setdefault("intent", Intent(desired))
    fields.setdefault("activity", Activity())
    status = Status(Phase.STANDBY, phase_changed_at=since)
    return workspace(name, number=number, status=status, **fields)
