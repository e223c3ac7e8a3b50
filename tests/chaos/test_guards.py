"""Each guard is there for a reason: without it, what the other tests check does not hold.

Every test here does the same twice, with the guard and without. If the second time nothing fails,
either the guard is not needed or nothing would notice its loss.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from codehub.coordinator import case, observe, seen, steps
from codehub.coordinator.lead import Lead
from codehub.coordinator.steps import STEPS
from codehub.core import collect as core_collect
from codehub.core import record
from codehub.errors import CodeHubError
from codehub.jobs import upload
from codehub.model.collection import Why
from codehub.model.runtime import Listing
from codehub.model.states import Operation
from codehub.store import fence, status
from tests.chaos.actor import Actor
from tests.chaos.connection import forget_names
from tests.chaos.invariants import check, told
from tests.chaos.scenarios import BY_NAME, collect
from tests.chaos.script import Fault, Script
from tests.chaos.second_leader import is_paused, lead_until_it_wakes, take_over, wake_up
from tests.chaos.test_restored_database import NEWER, go_back
from tests.coordination.fast_runtime import FastRuntime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codehub.coordinator.seen import Things
    from codehub.coordinator.steps import Job, Tools
    from codehub.model.runtime import VolumeSeen
    from codehub.model.workspace import Workspace
    from codehub.ports import ObjectWriter, Runtime
    from tests.chaos.scenarios import Scenario
    from tests.chaos.stage import Stage
    from tests.chaos.theatre import Theatre

    Story = Callable[[Theatre, Stage], Awaitable[None]]

pytestmark = pytest.mark.anyio


async def holds_and_then_fails(
    theatre: Theatre, stage: Stage, story: Story, remove: Callable[[], None], complaint: str
) -> None:
    """The story ends well; with the guard removed, this check of it fails."""
    await story(theatre, stage)
    remove()
    with pytest.raises(AssertionError, match=complaint):
        await story(theatre, stage)


# Archives


class Careless:
    """A store that keeps one bit of what it is given the wrong way round."""

    def __init__(self, real: ObjectWriter) -> None:
        self._real = real

    def write(self, data: bytes) -> None:
        self._real.write(data[:-1] + bytes([data[-1] ^ 1]))

    def commit(self) -> None:
        self._real.commit()

    def abort(self) -> None:
        self._real.abort()


async def archive_into_a_careless_store(theatre: Theatre, stage: Stage) -> None:
    await theatre.set_up(stage, BY_NAME["archive"])
    writer = stage.store.open_writer

    def open_writer(key: str) -> Any:
        return Careless(writer(key)) if key.endswith(".zst") else writer(key)

    stage.store.open_writer = open_writer  # type: ignore[method-assign]
    try:
        async with stage.term() as term:
            for _ in range(6):
                await term.pass_once()
    finally:
        stage.store.open_writer = writer  # type: ignore[method-assign]
    await check(stage)


async def test_reading_back_what_was_uploaded(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove() -> None:
        monkeypatch.setattr(upload, "_verify", lambda *_: None)

    await holds_and_then_fails(
        theatre,
        stage,
        archive_into_a_careless_store,
        remove,
        "I5: the archive that is recorded is not there",
    )


async def archive_with_a_crash(theatre: Theatre, stage: Stage) -> None:
    """At every write of the act itself."""
    for name in ("database.status.ARCHIVED", "runtime.delete_volume"):
        for fault in (Fault.BEFORE, Fault.AFTER):
            await theatre.set_up(stage, BY_NAME["archive"])
            script = Script()
            script.named[name] = fault
            await theatre.lead(stage, BY_NAME["archive"], script)
            await check(stage)


async def _delete_first(tools: Tools, job: Job) -> None:
    """Archiving as it must not be: the volume goes before anything leads to the archive."""
    if job.workspace.status.home_store_key is not None:
        meta = await steps._archive_home(tools, job)
        await steps.delete(tools, job)
        async with tools.lead.pool.connection() as conn:
            await status.save_archive(conn, tools.lead.fence, job.workspace, meta)


async def test_recording_an_archive_before_the_volume_goes(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove() -> None:
        monkeypatch.setitem(STEPS, Operation.ARCHIVING, _delete_first)

    await holds_and_then_fails(
        theatre, stage, archive_with_a_crash, remove, "I1, I7: not in the home"
    )


async def work_between_two_tries(theatre: Theatre, stage: Stage) -> None:
    """A leader dies with its archive unrecorded; somebody mounts the home by hand, and goes."""
    await theatre.set_up(stage, BY_NAME["archive"])
    script = Script()
    script.named["database.status.ARCHIVED"] = Fault.BEFORE
    await theatre.lead(stage, BY_NAME["archive"], script)
    await stage.type("typed while nobody led")
    await stage.settle()
    await check(stage)


async def test_taking_over_no_archive_of_an_earlier_try(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive_home = steps._archive_home

    async def take_over(tools: Tools, job: Job) -> Any:
        found = await tools.shelf.committed(job.workspace.id, job.op_id)
        return found or await archive_home(tools, job)

    def remove() -> None:
        monkeypatch.setattr(steps, "_archive_home", take_over)

    await holds_and_then_fails(
        theatre, stage, work_between_two_tries, remove, "I1, I7: not in the archive"
    )


# Two leaders


def sleeping(scenario: str, at: str, fault: Fault = Fault.PAUSE) -> Story:
    """A leader stopped at a call, another in its place, and then it wakes up."""

    async def story(theatre: Theatre, stage: Stage) -> None:
        chosen: Scenario = BY_NAME[scenario]
        await theatre.set_up(stage, chosen)
        script = Script()
        script.named[at] = fault
        old = asyncio.create_task(lead_until_it_wakes(stage, chosen, script))
        assert await is_paused(script, old)
        try:
            await take_over(stage, chosen, {}, late=False)
            await wake_up(stage, chosen, script, old)
        finally:
            script.kill()
            await asyncio.wait({old})

    return story


async def test_the_epoch_in_every_write(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove() -> None:
        monkeypatch.setattr(fence, "_LOCKED", "SELECT 1")

    story = sleeping("start", "database.status.SAVE")
    await holds_and_then_fails(theatre, stage, story, remove, "I6: a stale epoch wrote")


async def test_confirming_before_something_is_removed(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def confirm(_: Lead) -> None: ...

    def remove() -> None:
        monkeypatch.setattr(Lead, "confirm", confirm)

    story = sleeping("stop", "database.status.SAVE", Fault.PAUSE_AFTER)
    await holds_and_then_fails(theatre, stage, story, remove, "it acted unasked")


async def test_a_new_generation_for_every_try_to_restore(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def renew(tools: Tools, job: Job) -> Job:
        return replace(job, things=seen.Things())

    def remove() -> None:
        monkeypatch.setattr(steps, "_renew", renew)

    story = sleeping("restore", "job.write")
    await holds_and_then_fails(theatre, stage, story, remove, "I1, I7: not in the home")


# Two containers


async def start_and_hear_nothing(theatre: Theatre, stage: Stage) -> None:
    """It was started, and nobody was told: so it is started again."""
    await theatre.set_up(stage, BY_NAME["start"])
    script = Script()
    script.named["runtime.start"] = Fault.LATE
    async with stage.term(script) as term:
        while script.calls.count("runtime.start") < 2:
            await term.pass_once()
    await check(stage)


async def test_a_start_that_was_made_is_found_again(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime's part, as `tests/contract` asks it of every real one."""

    def remove() -> None:
        monkeypatch.setattr(FastRuntime, "_runs_already", lambda *_: False)

    story = start_and_hear_nothing
    await holds_and_then_fails(theatre, stage, story, remove, "I2: one volume, two containers")


async def test_a_late_start_is_not_anybodys_any_more(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader confirmed, slept, and launches when another has long started it: a runtime's too."""

    def remove() -> None:
        monkeypatch.setattr(FastRuntime, "_require_reserved", lambda *_: None)

    story = sleeping("start", "runtime.launch")
    await holds_and_then_fails(theatre, stage, story, remove, "I2: one volume, two containers")


# Archives that nobody needs


async def collect_twice(theatre: Theatre, stage: Stage) -> None:
    """The archive in use stays, however long ago it was made."""
    await theatre.set_up(stage, BY_NAME["collect"])
    async with stage.term() as term:
        for _ in range(2):
            await stage.pass_time(timedelta(hours=3))
            await collect(term)
    await check(stage)


async def test_the_archive_in_use_is_no_orphan(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove() -> None:
        older = {Why.CURRENT, Why.OPERATION, Why.NEWER}
        monkeypatch.setattr(core_collect, "ORPHANED", core_collect.ORPHANED | older)

    await holds_and_then_fails(theatre, stage, collect_twice, remove, "I5: ")


# What is seen, and what follows


async def look_while_the_runtime_is_away(theatre: Theatre, stage: Stage) -> None:
    await theatre.set_up(stage, BY_NAME["shut down"])
    async with stage.term() as term:
        await term.settle()
        stage.runtime.away = True
        await term.pass_once()
        row = await stage.look()
        assert row["phase"] == "RUNNING", told(row)
        stage.runtime.away = False
        await term.settle()
    await check(stage)


async def test_unknown_is_not_absent(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lists(runtime: Runtime) -> Listing | str:
        try:
            return await runtime.list()
        except CodeHubError:
            return Listing()

    def remove() -> None:
        monkeypatch.setattr(observe, "_list", lists)

    await holds_and_then_fails(
        theatre, stage, look_while_the_runtime_is_away, remove, "phase=ERROR"
    )


async def look_at_a_newer_home(theatre: Theatre, stage: Stage) -> None:
    newer = await go_back(theatre, stage)
    await stage.settle()
    assert newer.is_file(), "a home that this database does not know was removed"
    assert newer.read_text() == NEWER


async def test_only_generations_that_were_given_out_are_strays(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strays(workspace: Workspace, things: Things) -> tuple[VolumeSeen, ...]:
        home = workspace.status.home_store_key
        return tuple(each for each in things.volumes if each.name != home)

    def remove() -> None:
        for module in (seen, case, steps):
            monkeypatch.setattr(module, "stray_volumes", strays)

    await holds_and_then_fails(theatre, stage, look_at_a_newer_home, remove, "was removed")


async def give_up_a_home_that_comes_back(theatre: Theatre, stage: Stage) -> None:
    scenario = BY_NAME["accept empty"]
    await theatre.set_up(stage, scenario)
    async with stage.term() as term:
        await scenario.play(stage, term)
        await term.settle()
    assert scenario.also(stage), "what came back is gone"


async def test_homes_that_nobody_found_are_not_retired(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove() -> None:
        monkeypatch.setattr(record, "give_up_home", record.retire_home)

    complaint = "does not get to STANDBY"
    await holds_and_then_fails(theatre, stage, give_up_a_home_that_comes_back, remove, complaint)


async def store_what_was_seen_before(theatre: Theatre, stage: Stage) -> None:
    """A pass that could see nothing stores that late, after the act has recorded its archive."""
    await theatre.set_up(stage, BY_NAME["archive"])
    leader = await Actor.begin(stage)
    leader.script.named["database.status.ARCHIVED"] = Fault.HOLD
    await leader.tick()
    stage.runtime.away = True
    leader.script.named["database.status.SAVE"] = Fault.HOLD
    await leader.tick()
    stage.runtime.away = False
    assert leader.script.holding == 2, leader.script.calls
    await leader.act()
    await leader.release()
    await leader.end()
    await check(stage)


async def test_storing_only_upon_the_row_as_it_was_read(
    theatre: Theatre, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove() -> None:
        monkeypatch.setattr(status, "SAVE", status.SAVE.replace(status._AS_READ, " true "))
        forget_names()

    await holds_and_then_fails(
        theatre, stage, store_what_was_seen_before, remove, "I1, I7: not in the home"
    )
