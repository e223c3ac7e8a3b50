"""A leader stopped in the middle of any call, another in its place, and then it wakes up.

It runs into the fence wherever it writes, and what it still does in the world is harmless: all it
can hit are names that nobody uses any more.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.chaos.scenarios import SCENARIOS
from tests.chaos.script import Fault, Script, telling
from tests.chaos.second_leader import is_paused, lead_until_it_wakes, take_over, wake_up
from tests.chaos.theatre import changes_nothing

if TYPE_CHECKING:
    from tests.chaos.scenarios import Scenario
    from tests.chaos.second_leader import Kept
    from tests.chaos.theatre import Theatre

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("late", [False, True], ids=["at once", "a round later"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
async def test_a_leader_that_slept_does_no_harm(
    theatre: Theatre, scenario: Scenario, late: bool
) -> None:
    kept: Kept = {}
    async with theatre.stage() as stage:
        calls = await theatre.calls(stage, scenario)
        for number in count():
            if not late and changes_nothing(calls, number):
                continue  # it will read what the other left, sooner or later
            await theatre.set_up(stage, scenario)
            script = Script({number: Fault.PAUSE})
            old = asyncio.create_task(lead_until_it_wakes(stage, scenario, script))
            if not await is_paused(script, old):
                break
            with telling(script.struck):
                await take_over(stage, scenario, kept, late=late)
                await wake_up(stage, scenario, script, old)
        assert number > 10, "a scenario has more calls than that"
