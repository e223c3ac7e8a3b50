"""Another leader in the place of one that sleeps, and what happens when that one wakes up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from codehub.errors import FenceLost
from codehub.model.states import DesiredState
from tests.chaos import picture
from tests.chaos.invariants import check, check_epoch

if TYPE_CHECKING:
    from tests.chaos.picture import Picture
    from tests.chaos.scenarios import Scenario
    from tests.chaos.script import Script
    from tests.chaos.stage import Stage
    from tests.coordination.hub import Term

    Kept = dict[str, tuple[Picture, str | None]]

ACTS = {"runtime.create_volume", "runtime.launch", "runtime.stop", "runtime.delete_volume"}
"""What a leader must not begin without asking whether it still leads."""


async def lead_until_it_wakes(stage: Stage, scenario: Scenario, script: Script) -> None:
    """Until it has done its work, or for one more pass after it woke up."""
    with suppress(FenceLost):
        async with stage.term(script) as term:
            if scenario.act is not None:
                await scenario.lead(stage, term)
                return
            slept = False
            while not slept and not await scenario.is_over(stage):
                slept = script.paused.is_set()
                await scenario.go_on(stage, term)


async def is_paused(script: Script, old: asyncio.Task[None]) -> bool:
    """False when it ended before, for want of such a call."""
    paused = asyncio.create_task(script.paused.wait())
    await asyncio.wait({paused, old}, return_when=asyncio.FIRST_COMPLETED)
    paused.cancel()
    if not script.paused.is_set():
        await old
    return script.paused.is_set()


async def take_over(stage: Stage, scenario: Scenario, kept: Kept, *, late: bool) -> None:
    """Another leader brings it to its end, and where it is late, once around and there again.

    From a situation in which that was done before, the outcome is put in place: nothing of it
    depends on the leader that sleeps.
    """
    await stage.time_out_transactions()
    situation = (await check(stage)).situation
    if situation in kept:
        outcome, work = kept[situation]
        await stage.put_back(outcome, work, keep_uploads=True)
    else:
        async with stage.term() as new:
            await scenario.play(stage, new)
            if late:
                await _go_round(stage, new)
            await scenario.play(stage, new)
        kept[situation] = (await check(stage), stage.work)
    if (await stage.look())["home_store_key"] is not None:
        await stage.type("typed since")


async def _go_round(stage: Stage, new: Term) -> None:
    """Archived, restored, typed into, and where it was before."""
    desired = DesiredState((await stage.look())["desired_state"])
    for state in (DesiredState.ARCHIVED, DesiredState.STANDBY):
        await stage.conn.execute("UPDATE workspaces SET desired_state = %s", (state,))
        await new.settle()
    await stage.type("typed under the second leader")
    await stage.want(desired)
    await new.settle()


async def wake_up(
    stage: Stage, scenario: Scenario, script: Script, old: asyncio.Task[None]
) -> None:
    """It writes nothing (I6), and begins nothing; then everything is as it was."""
    async with stage.term() as new:
        before, asked = await picture.versions(stage.conn), len(script.calls)
        script.resume()
        await old
        await check_epoch(stage.conn, before)
        assert not ACTS & {*script.calls[asked:]}, f"it acted unasked: {script.calls[asked:]}"
        await check(stage)
        await scenario.play(stage, new)
        await check(stage)
