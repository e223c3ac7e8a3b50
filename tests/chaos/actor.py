"""Leaders as actors: each lives in a task of its own and does one thing after the other when told.

So a leader can be stopped in the middle of a pass while others lead, and wake up later.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from codehub.config import Settings
from codehub.coordinator.gc import GcRunner
from codehub.coordinator.pace import attempt
from codehub.coordinator.ttl import TtlRunner
from codehub.errors import FenceLost
from tests.chaos.script import Crash, Script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.chaos.stage import Stage
    from tests.coordination.hub import Term

    Work = Callable[[Term], Awaitable[Any]]

SETTINGS = Settings(coordinator_ttl_interval=300)
"""The usual ones, but for a slower look at idleness: so fewer looks are needed to see it."""
SHORTLY = 0.001
LONG = 20
"""So often nothing moved while a call was held up: then all waits for that call."""


class Actor:
    """One process that leads until it crashes, is fenced off, or is ended."""

    def __init__(self, stage: Stage) -> None:
        self.script = Script()
        self._stage = stage
        self._given: asyncio.Queue[Work] = asyncio.Queue()
        self._doing = 0
        self._term: Term | None = None
        self._idleness: TtlRunner | None = None
        self._task = asyncio.create_task(self._live())

    @classmethod
    async def begin(cls, stage: Stage) -> Actor:
        """A new leader, ready to do something."""
        made = cls(stage)
        await made._come_to_rest()
        return made

    @property
    def alive(self) -> bool:
        return not self._task.done()

    @property
    def asleep(self) -> bool:
        return self.alive and self.script.paused.is_set() and not self.script.awake

    async def tick(self) -> None:
        """A pass, and what follows from it, as far as it gets."""
        await self._do(_pass)

    async def collect(self) -> None:
        """A collection of archives."""
        await self._do(_collect)

    async def look_for_idleness(self) -> bool:
        """Whether it was done to its end, with nothing in the way."""
        before = self._troubles
        return await self._do(self._look) and self._troubles == before

    async def release(self) -> None:
        """Whatever call was slow is answered now."""
        self.script.release()
        await asyncio.sleep(0)
        await self._come_to_rest()

    async def act(self) -> None:
        """The first of the slow calls is answered, and the act under way comes to its end."""
        self.script.release(1)
        if self._term is not None:
            await self._term.acts.quiet()

    async def wake(self) -> None:
        """It goes on where it was stopped, and then it is over with it."""
        self.script.resume()
        await self._come_to_rest()
        await self.end()

    async def end(self) -> None:
        self.script.kill()
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    async def _do(self, work: Work) -> bool:
        """Whether it was done: who is in the middle of something else begins nothing."""
        begins = not self._doing
        if begins:
            self._given.put_nowait(work)
            self._doing += 1
        await self._come_to_rest()
        return begins and not self._doing

    async def _look(self, term: Term) -> None:
        """The same runner again and again: it remembers who worked."""
        if self._idleness is None:
            assert term.signals is not None
            self._idleness = TtlRunner(
                term.lead, term.signals, term.world.runtimes, SETTINGS, term.failures, term.hints
            )
        await attempt("ttl", self._idleness.tick, term.failures)

    @property
    def _troubles(self) -> tuple[int, int]:
        """What has struck, and how often it could not look for idleness."""
        failed = 0 if self._term is None else self._term.failures.counts["ttl"]
        return len(self.script.struck), failed

    async def _come_to_rest(self) -> None:
        """Until it has nothing more to do, or can do no more by itself."""
        quiet, calls = 0, -1
        while self.alive and not self.asleep and quiet < LONG and self._is_busy:
            await asyncio.sleep(SHORTLY)
            moved = calls != len(self.script.calls) or not self.script.holding
            quiet, calls = 0 if moved else quiet + 1, len(self.script.calls)

    @property
    def _is_busy(self) -> bool:
        if self._doing or self._term is None:
            return True
        return self._term.acts.busy and not self.script.holding

    async def _live(self) -> None:
        with suppress(Crash, FenceLost):
            async with self._stage.term(self.script) as self._term:
                while True:
                    work = await self._given.get()
                    try:
                        await work(self._term)
                    finally:
                        self._doing -= 1


async def _pass(term: Term) -> None:
    await attempt("controller", term.controller.tick, term.failures)


async def _collect(term: Term) -> None:
    runner = GcRunner(term.lead, term.store, SETTINGS, term.failures)
    await attempt("gc", runner.tick, term.failures)
