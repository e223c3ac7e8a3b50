"""Where scenarios are played one after the other: each begins as it always does, and quickly."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from codehub.errors import FenceLost
from tests.chaos.connection import is_reading
from tests.chaos.invariants import check, told
from tests.chaos.script import Crash, Script
from tests.chaos.seams import READS
from tests.chaos.stage import open_stage
from tests.make import declaration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.chaos.picture import Picture
    from tests.chaos.scenarios import Scenario
    from tests.chaos.stage import Stage

DECLARED = "declared"


@dataclass
class Theatre:
    """Where scenarios are played, and the pictures of how they begin."""

    url: str
    root: Path
    pictures: dict[str, tuple[Picture, str | None]] = field(default_factory=dict)
    made: dict[str, tuple[str, ...]] = field(default_factory=dict)
    recovered: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The situations from which each scenario is known to come to its end."""

    @asynccontextmanager
    async def stage(self) -> AsyncIterator[Stage]:
        """A stage on which `set_up` can be called again and again."""
        root = Path(tempfile.mkdtemp(dir=self.root))
        async with open_stage(self.url, root) as stage:
            if DECLARED not in self.pictures:
                await stage.world.declare(declaration())
                await self._take(stage, DECLARED)
            yield stage
        shutil.rmtree(root)

    async def set_up(self, stage: Stage, scenario: Scenario) -> None:
        """The world as the scenario begins; from here on something may strike."""
        if scenario.name not in self.pictures:
            await stage.put_back(*self.pictures[DECLARED])
            await scenario.prepare(stage)
            await scenario.begin(stage)
            await self._take(stage, scenario.name)
        await stage.put_back(*self.pictures[scenario.name])

    async def lead(self, stage: Stage, scenario: Scenario, script: Script) -> None:
        """One leader's time, until it has done its work or something ends it."""
        with suppress(Crash, FenceLost):
            async with stage.term(script) as term:
                await scenario.lead(stage, term)

    async def calls(self, stage: Stage, scenario: Scenario) -> tuple[str, ...]:
        """The calls of the first leader when nothing strikes."""
        if scenario.name not in self.made:
            await self.set_up(stage, scenario)
            script = Script()
            await self.lead(stage, scenario, script)
            self.made[scenario.name] = tuple(script.calls)
        return self.made[scenario.name]

    async def recover(self, stage: Stage, scenario: Scenario) -> None:
        """Nothing is lost, and the next leader brings it to its end.

        From a situation in which that was seen before it need not be seen again: nobody decides
        by chance.
        """
        before = await check(stage)
        if before.situation in self.recovered[scenario.name]:
            return
        async with stage.term() as term:
            await scenario.play(stage, term)
            await term.settle()
        after = await check(stage)
        assert await scenario.is_over(stage), f"it does not stay there: {told(after.row)}"
        self.recovered[scenario.name] |= {before.situation, after.situation}

    async def _take(self, stage: Stage, name: str) -> None:
        self.pictures[name] = (await stage.take_picture(), stage.work)


def changes_nothing(calls: Sequence[str], number: int) -> bool:
    """A read that was made comes to the same as one that was not, if nobody hears of it."""
    name = calls[number] if number < len(calls) else ""
    return name in READS or is_reading(name)
