"""Every operation × every call to the outside × every fault: nothing lost, and it converges."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.chaos.scenarios import SCENARIOS
from tests.chaos.script import AFTERWARDS, FAULTS, Fault, Script, telling
from tests.chaos.theatre import changes_nothing

if TYPE_CHECKING:
    from tests.chaos.scenarios import Scenario
    from tests.chaos.theatre import Theatre

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
async def test_nothing_is_lost_whatever_strikes(
    theatre: Theatre, scenario: Scenario, fault: Fault
) -> None:
    async with theatre.stage() as stage:
        calls = await theatre.calls(stage, scenario)
        for number in count():
            if fault in AFTERWARDS and changes_nothing(calls, number):
                continue  # the same as BEFORE or FAILED at this call
            await theatre.set_up(stage, scenario)
            script = Script({number: fault})
            with telling(script.struck):
                await theatre.lead(stage, scenario, script)
                await theatre.recover(stage, scenario)
            if not script.struck:
                break
        assert number > 10, "a scenario has more calls than that"
