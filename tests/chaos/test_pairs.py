"""Two faults in one story: the second strikes while the first is being recovered from.

A seeded sample, since there are more pairs than anybody waits for. CODEHUB_CHAOS_PAIRS says how
many, CODEHUB_CHAOS_SEED which; a failure names the seed of its own story.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.chaos.invariants import check
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.script import FAULTS, Fault, Script, telling

if TYPE_CHECKING:
    from tests.chaos.scenarios import Scenario
    from tests.chaos.stage import Stage
    from tests.chaos.theatre import Theatre

pytestmark = pytest.mark.anyio

PAIRS = int(os.environ.get("CODEHUB_CHAOS_PAIRS", "500"))
SEED = os.environ.get("CODEHUB_CHAOS_SEED", "1")
PARTS = 10
CRASHES = (Fault.BEFORE, Fault.AFTER)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(120 + PAIRS // PARTS)
async def test_nothing_is_lost_when_recovery_is_struck_as_well(theatre: Theatre, part: int) -> None:
    async with theatre.stage() as stage:
        for number in range(part, PAIRS, PARTS):
            story = random.Random(f"{SEED}-{number}")
            scenario = story.choice(SCENARIOS)
            with telling([f"story {SEED}-{number}: {scenario.name}"]):
                points = len(await theatre.calls(stage, scenario))
                await _play(theatre, stage, scenario, story, points)


async def _play(
    theatre: Theatre, stage: Stage, scenario: Scenario, story: random.Random, points: int
) -> None:
    """After a crash another leader recovers and is struck; otherwise it is the same one again."""
    first, second = story.choice(FAULTS), story.choice(FAULTS)
    at, then = story.randrange(points), story.randrange(points)
    await theatre.set_up(stage, scenario)
    scripts = [Script({at: first}), Script({then: second})]
    if first not in CRASHES:
        scripts = [Script({at: first, at + 1 + then: second})]
    for script in scripts:
        with telling(script.struck):
            await theatre.lead(stage, scenario, script)
            await check(stage)
    await theatre.recover(stage, scenario)
