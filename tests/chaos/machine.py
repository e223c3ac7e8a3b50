"""What the state machine stands on: one workspace, its leaders, and what its home may hold.

The model is what the home may hold: what was typed last while somebody rightly worked in it; what
the archive held, once a person chose that; nothing, once a person accepted it. A home that somebody
removed by hand is lost, and then nothing may take its place but what a person chose. If it comes
back when something has taken its place, it stays as it is, for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine

from codehub.core.judge import MAKES_VOLUME
from tests.chaos import picture
from tests.chaos.actor import Actor
from tests.chaos.invariants import (
    check_epoch,
    find_archive,
    in_home,
    is_tidy,
    told,
    unpacked,
)
from tests.chaos.stage import ARCHIVES, VOLUMES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

    from tests.chaos.picture import Picture
    from tests.chaos.presence import Presence
    from tests.chaos.stage import Stage
    from tests.chaos.theatre import Theatre

MOST_PASSES = 40
MARKER = ".codehub-store"


class Surroundings(RuleBasedStateMachine):
    """One workspace and its leaders; `may_hold` and `lost` are the model of its home."""

    theatre: ClassVar[Theatre]
    stage: ClassVar[Stage]
    runner: ClassVar[asyncio.Runner]
    leader: Actor
    presence: Presence

    def __init__(self) -> None:
        super().__init__()
        self.may_hold: set[str | None] = set()
        self.lost = False
        self.late: dict[str, str | None] = {}
        """Homes that came back when something had taken their place, and what they hold."""
        self.mounted: dict[str, int] = {}
        self.rotten: tuple[Path, bytes] | None = None
        self.sleeper: Actor | None = None

    def check_data(self, seen: Picture) -> None:
        """What was typed is where the row leads, and nothing else is in its place."""
        row = seen.row
        home = None if row["operation"] in MAKES_VOLUME else row["home_store_key"]
        there = home is not None and f"{VOLUMES}/{home}" in seen.files
        self._check_archive(seen)
        if there and home is not None:
            assert in_home(seen, home) in self.may_hold, f"I1, I7: {told(row)}"
            return
        if self.lost or None in self.may_hold:
            return
        assert home is None, f"I1: the home is gone: {told(row)}"
        assert row["archive_key"] is not None, f"I1: nothing leads to it: {told(row)}"
        packed = find_archive(seen, row["archive_key"])
        assert packed is None or unpacked(packed) in self.may_hold, f"I1: {told(row)}"

    def _check_archive(self, seen: Picture) -> None:
        """The one that is recorded stays, home or not."""
        key = seen.row["archive_key"]
        found = key is None or find_archive(seen, key) is not None
        assert found or self.rotten, f"I5: no archive: {told(seen.row)}"

    def check_given_up(self, seen: Picture) -> None:
        """A home that was given up is neither removed nor mounted again, should it come back."""
        for name, held in self.late.items():
            assert in_home(seen, name) == held, f"it came back and is gone: {told(seen.row)}"
        for name in seen.row["home_ctx"].get("given_up", ()):
            times = self.stage.runtime.mounts.count(name)
            assert self.mounted.setdefault(name, times) == times, "I3: mounted again"

    def check_end(self) -> None:
        """What was lost is told of, unless a person chose what takes its place."""
        seen = self.picture()
        if self.lost and None not in self.may_hold and seen.row["phase"] == "ARCHIVED":
            assert self.archived() & self.may_hold, f"an old archive: {told(seen.row)}"

    def heal(self) -> None:
        """Faults stop."""
        self.stage.runtime.away = False
        self.stage.signals.down = False
        away = self.stage.root / ARCHIVES / f"{MARKER}.away"
        if away.exists():
            away.rename(away.with_name(MARKER))
        self.mend()
        self.sql("UPDATE workspaces SET retry_at = NULL")

    def mend(self) -> None:
        if self.rotten is not None and self.rotten[0].exists():
            self.rotten[0].write_bytes(self.rotten[1])
        self.rotten = None

    async def let_lead(self, do: Callable[[Actor], Awaitable[None]]) -> None:
        """Whoever leads does it; somebody takes the place of one that crashed or sleeps."""
        if not self.leader.alive:
            self.leader = await Actor.begin(self.stage)
        before = await self.stage.look()
        await do(self.leader)
        if self.leader.asleep:
            await self.stage.time_out_transactions()
            self.sleeper, self.leader = self.leader, await Actor.begin(self.stage)
        await self.presence.judge(before)

    async def wake_up(self, sleeper: Actor) -> None:
        """It goes on where it was stopped, and must not write anything."""
        await self.leader.release()
        before = await picture.versions(self.stage.conn)
        await sleeper.wake()
        await check_epoch(self.stage.conn, before)

    async def converge(self) -> None:
        """A last leader brings everything to rest, or to an ERROR that says what is wrong."""
        if self.sleeper is not None:
            await self.wake_up(self.sleeper)
        await self.leader.end()
        async with self.stage.term() as term:
            for _ in range(MOST_PASSES):
                await term.pass_once()
                row = await self.stage.look()
                if row["phase"] == "ERROR" or row["purged_at"] or is_tidy(self.stage, row):
                    return
        raise AssertionError(f"it does not come to rest: {told(row)}")

    def archived(self) -> set[str | None]:
        """What the recorded archive holds, if there is one."""
        seen = self.picture()
        path = f"{ARCHIVES}/{seen.row['archive_key']}"
        packed = seen.files.get(path)
        if self.rotten is not None and self.rotten[0] == self.stage.root / path:
            packed = self.rotten[1]
        return set() if packed is None else {unpacked(packed)}

    def picture(self) -> Picture:
        seen: Picture = self.run(self.stage.take_picture())
        return seen

    def sql(self, query: str, *values: object) -> None:
        self.run(_done(self.stage.conn.execute(query, values)))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)


async def _done(work: Awaitable[Any]) -> None:
    await work
