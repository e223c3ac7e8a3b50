"""What is under way when something strikes: one scenario for each operation, and some around."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from codehub.config import Settings
from codehub.coordinator.closing import put_to_sleep
from codehub.coordinator.gc import GcRunner
from codehub.coordinator.pace import attempt
from codehub.coordinator.ttl import TtlRunner
from codehub.core.keys import meta_key
from codehub.model.decision import DISCARD_DATA
from codehub.model.runtime import ContainerSeen, VolumeRef
from codehub.model.states import DesiredState, ErrorReason, Phase, RecoverMode
from tests.chaos.invariants import is_tidy, told
from tests.chaos.script import Crash, Fault, Script
from tests.chaos.stage import ARCHIVES, FILE
from tests.coordination.hub import Term

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.chaos.stage import Stage

    Step = Callable[[Stage], Awaitable[None]]

WORK = "what somebody typed"
MOST_PASSES = 30
IMPATIENT = Settings(gc_orphan_seconds=0, coordinator_ttl_interval=3600)
DAY_LATER = """
UPDATE activity_sync SET blind_until = blind_until - interval '1 day'
WHERE blind_until > now() - interval '1 hour'
"""


@dataclass(frozen=True)
class Scenario:
    """`prepare` comes to rest without faults, `begin` asks for what a leader then carries out.

    `step` is what a leader does again and again until it is over, `meanwhile` what happens in the
    world after each; `act`, where there is one, what the first leader does instead, until something
    strikes.
    """

    name: str
    prepare: Step
    begin: Step
    ends_in: Phase
    step: Callable[[Term], Awaitable[None]] = Term.pass_once
    act: Callable[[Term], Awaitable[object]] | None = None
    also: Callable[[Stage], bool] = lambda _: True
    meanwhile: Step | None = None

    async def lead(self, stage: Stage, term: Term) -> None:
        """What the first leader does."""
        if self.act is None:
            await self.play(stage, term)
        else:
            await attempt(self.name, partial(self.act, term), term.failures)

    async def play(self, stage: Stage, term: Term) -> None:
        """What a leader does until it is where it should be."""
        for _ in range(MOST_PASSES):
            await self.go_on(stage, term)
            if await self.is_over(stage):
                return
        raise AssertionError(f"it does not get to {self.ends_in}: {told(await stage.look())}")

    async def go_on(self, stage: Stage, term: Term) -> None:
        await self.step(term)
        if self.meanwhile is not None:
            await self.meanwhile(stage)

    async def is_over(self, stage: Stage) -> bool:
        row = await stage.look()
        return row["phase"] == self.ends_in and is_tidy(stage, row) and self.also(stage)


async def _declared(stage: Stage) -> None:
    """It is declared, and that is all."""


async def _asleep(stage: Stage) -> None:
    await stage.rest_in(DesiredState.STANDBY)
    await stage.type(WORK)


async def _awake(stage: Stage) -> None:
    await _asleep(stage)
    await stage.rest_in(DesiredState.RUNNING)


async def _archived(stage: Stage) -> None:
    await _asleep(stage)
    await stage.rest_in(DesiredState.ARCHIVED)


async def _restored(stage: Stage) -> None:
    """There is an archive, and the home holds more than it."""
    await _archived(stage)
    await stage.rest_in(DesiredState.STANDBY)
    await stage.type("typed after the restore")


async def _failed(stage: Stage) -> None:
    await _asleep(stage)
    row = await stage.row()
    stage.runtime.failing[row.id] = "broken"
    await stage.rest_in(DesiredState.RUNNING)
    stage.runtime.failing.clear()
    assert (await stage.row()).status.phase is Phase.ERROR


async def _lost(stage: Stage) -> None:
    """The home is gone by somebody's hand, and an older archive is there."""
    await _restored(stage)
    row = await stage.row()
    assert row.status.home_store_key is not None
    shutil.rmtree(stage.runtime.root / row.status.home_store_key)
    await stage.settle()
    assert (await stage.row()).status.error_reason is ErrorReason.DATA_LOST
    stage.work = WORK


async def _away(stage: Stage) -> None:
    """The home is out of sight, and there is nothing else."""
    await _asleep(stage)
    home = (await stage.look())["home_store_key"]
    stage.hide(home)
    await stage.settle()
    assert (await stage.row()).status.error_reason is ErrorReason.DATA_LOST
    stage.work = None


async def _crashed(stage: Stage) -> None:
    """It ran, and ended by itself."""
    await _awake(stage)
    stage.runtime.crash((await stage.row()).id)


async def _half_restored(stage: Stage) -> None:
    """A leader died in the middle of a restore, and a home of the past lies beside."""
    await _archived(stage)
    await stage.want(DesiredState.STANDBY)
    await _die_before(stage, "job.finish")
    row = await stage.row()
    stray = stage.runtime.path(VolumeRef(row.id, 1))
    assert row.status.home_store_key not in (None, stray.name)
    stray.mkdir()
    (stray / FILE).write_text("what a home held long ago")


async def _container_came_back(stage: Stage) -> None:
    """A leader died with its archive committed and unrecorded, and somebody works there again."""
    await _asleep(stage)
    await stage.want(DesiredState.ARCHIVED)
    await _die_before(stage, "database.status.ARCHIVED")
    assert _commits(stage)
    row = await stage.row()
    stage.runtime.containers[row.id] = ContainerSeen(
        row.id, running=True, op_id=uuid4(), volume=row.status.home_store_key
    )
    await stage.type("typed after it was archived")


async def _stranger_comes(stage: Stage) -> None:
    """Somebody mounts the home by hand when its copy is made, before that is recorded."""
    await _asleep(stage)
    stage.expect_stranger()


async def _leave(stage: Stage) -> None:
    """The stranger goes as soon as the hub has said that they are in its way."""
    if (await stage.look())["retry_at"] is not None:
        stage.runtime.strangers.clear()


def _commits(stage: Stage) -> list[str]:
    """The archives that count, recorded or not."""
    found = stage.root / ARCHIVES
    keys = [str(each.relative_to(found)) for each in found.rglob("*.zst")]
    return [each for each in keys if (found / meta_key(each)).exists()]


async def _die_before(stage: Stage, call: str) -> None:
    script = Script()
    script.named[call] = Fault.BEFORE
    with suppress(Crash):
        async with stage.term(script) as term:
            await term.settle()
    assert script.struck


async def _discard(stage: Stage) -> None:
    await stage.want(DesiredState.DELETED)
    await stage.conn.execute("UPDATE workspaces SET recover_requested = %s", (DISCARD_DATA,))


async def _bring_back(stage: Stage) -> None:
    """The home comes back as soon as it was given up."""
    row = await stage.look()
    for home in stage.hidden():
        if home != row["home_store_key"]:
            stage.bring_back(home)


def _is_kept(stage: Stage) -> bool:
    """What was typed before is there, in the home that came back."""
    return WORK in [each.read_text() for each in stage.runtime.root.glob(f"*/{FILE}")]


async def _archived_twice(stage: Stage) -> None:
    """Nothing needs the first archive any more, and a collection has seen that."""
    await _archived(stage)
    first = (await stage.look())["archive_key"]
    await stage.rest_in(DesiredState.STANDBY)
    await stage.type("typed after the restore")
    await stage.rest_in(DesiredState.ARCHIVED)
    for key in (first, meta_key(first)):
        path = stage.root / ARCHIVES / key
        os.utime(path, (path.stat().st_mtime - 3600, path.stat().st_mtime - 3600))
    async with stage.term() as term:
        await collect(term)


async def _deleted(stage: Stage) -> None:
    await _asleep(stage)
    await stage.rest_in(DesiredState.DELETED)
    assert (await stage.row()).status.phase is Phase.DELETED


def _want(state: DesiredState) -> Step:
    async def begin(stage: Stage) -> None:
        await stage.want(state)

    return begin


def _recover(mode: RecoverMode) -> Step:
    async def begin(stage: Stage) -> None:
        await stage.conn.execute("UPDATE workspaces SET recover_requested = %s", (mode,))

    return begin


async def _wanted_again(stage: Stage) -> None:
    await stage.conn.execute("UPDATE workspaces SET desired_state = 'RUNNING'")


async def _go_on(stage: Stage) -> None:
    """Nobody asks for anything."""


async def collect(term: Term) -> None:
    """A collection of archives for which no orphan is too young."""
    collector = GcRunner(term.lead, term.store, IMPATIENT, term.failures)
    await attempt("gc", collector.tick, term.failures)


async def _collect_and_look(term: Term) -> None:
    await term.pass_once()
    await collect(term)


def _one_archive(stage: Stage) -> bool:
    return len([*(stage.root / ARCHIVES).rglob("*.zst")]) == 1


async def _idle(stage: Stage) -> None:
    """Nobody has worked in it for a day, and the hub has watched all the time."""
    await _awake(stage)
    async with stage.term() as term:
        await _look_for_idleness(term)
    await stage.conn.execute(
        "UPDATE workspaces SET busy_cpu = 0, phase_changed_at = now() - interval '1 day',"
        " desired_at = now() - interval '1 day'"
    )
    await stage.conn.execute(DAY_LATER)


async def _idle_and_flushed(stage: Stage) -> None:
    """Redis has lost its mark, and knows again who worked yesterday; work without them counts."""
    await _idle(stage)
    await stage.conn.execute("UPDATE workspaces SET busy_cpu = 25")
    stage.signals.flush()
    seen = {((await stage.row()).id, "input"): timedelta(days=1)}
    await stage.signals.record_activity(seen)


async def _look_for_idleness(term: Term) -> None:
    if term.idleness is None:
        assert term.signals is not None
        args = (term.signals, term.world.runtimes, IMPATIENT, term.failures, term.hints)
        term.idleness = TtlRunner(term.lead, *args)
    await attempt("ttl", term.idleness.tick, term.failures)


async def _an_hour_passes(stage: Stage) -> None:
    """For the runtime: so long after a look at its work comes the next."""
    stage.runtime.ahead += timedelta(hours=1)


async def _watch_idleness(term: Term) -> None:
    """A blind time does not last for ever."""
    await term.conn.execute(DAY_LATER)
    await _look_for_idleness(term)
    await term.pass_once()


async def _put_to_sleep(term: Term) -> None:
    await put_to_sleep(term.lead, term.world)


SCENARIOS = (
    Scenario("provision", _declared, _want(DesiredState.STANDBY), Phase.STANDBY),
    Scenario("archive nothing", _declared, _want(DesiredState.ARCHIVED), Phase.ARCHIVED),
    Scenario("start", _asleep, _want(DesiredState.RUNNING), Phase.RUNNING),
    Scenario("start after a crash", _crashed, _go_on, Phase.RUNNING),
    Scenario("stop", _awake, _want(DesiredState.STANDBY), Phase.STANDBY),
    Scenario("archive", _asleep, _want(DesiredState.ARCHIVED), Phase.ARCHIVED),
    Scenario("archive again", _restored, _want(DesiredState.ARCHIVED), Phase.ARCHIVED),
    Scenario("archive what is used again", _container_came_back, _go_on, Phase.ARCHIVED),
    Scenario(
        "archive beside a stranger",
        _stranger_comes,
        _want(DesiredState.ARCHIVED),
        Phase.ARCHIVED,
        meanwhile=_leave,
    ),
    Scenario("restore", _archived, _want(DesiredState.STANDBY), Phase.STANDBY),
    Scenario("restore beside a stray", _half_restored, _go_on, Phase.STANDBY),
    Scenario("delete", _asleep, _want(DesiredState.DELETED), Phase.DELETED),
    Scenario("undelete", _deleted, _wanted_again, Phase.RUNNING),
    Scenario("recover", _failed, _recover(RecoverMode.PLAIN), Phase.RUNNING),
    Scenario("recover from archive", _lost, _recover(RecoverMode.FROM_ARCHIVE), Phase.STANDBY),
    Scenario(
        "accept empty",
        _away,
        _recover(RecoverMode.ACCEPT_EMPTY),
        Phase.STANDBY,
        also=_is_kept,
        meanwhile=_bring_back,
    ),
    Scenario("discard data", _away, _discard, Phase.DELETED, also=_is_kept, meanwhile=_bring_back),
    Scenario("shut down", _awake, _go_on, Phase.RUNNING, act=_put_to_sleep),
    Scenario("fall asleep", _idle, _go_on, Phase.STANDBY, _watch_idleness),
    Scenario(
        "fall asleep after a flush",
        _idle_and_flushed,
        _go_on,
        Phase.STANDBY,
        _watch_idleness,
        meanwhile=_an_hour_passes,
    ),
    Scenario(
        "collect", _archived_twice, _go_on, Phase.ARCHIVED, _collect_and_look, also=_one_archive
    ),
)
BY_NAME = {each.name: each for each in SCENARIOS}
