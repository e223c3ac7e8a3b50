"""People, time and every fault in any order: what was typed last stays retrievable.

The model is what the home may hold: what was typed last while somebody rightly worked in it; what
the archive held, once a person chose that; nothing, once a person accepted it. A home that somebody
removed by hand is lost, and then nothing may take its place but what a person chose.
CODEHUB_CHAOS_EXAMPLES makes it look longer.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from codehub.core.judge import MAKES_VOLUME
from codehub.model.states import DesiredState, ErrorReason, RecoverMode
from tests.chaos import picture
from tests.chaos.actor import Actor
from tests.chaos.invariants import (
    check_mounts,
    check_operations,
    find_archive,
    in_home,
    is_tidy,
    told,
    unpacked,
)
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.script import FAULTS, Fault
from tests.chaos.stage import ARCHIVES
from tests.make import declaration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine
    from pathlib import Path

    from tests.chaos.picture import Picture
    from tests.chaos.scenarios import Scenario
    from tests.chaos.stage import Stage
    from tests.chaos.theatre import Theatre

EXAMPLES = int(os.environ.get("CODEHUB_CHAOS_EXAMPLES", "60"))
BEGINS = ("provision", "start", "stop", "archive again", "restore", "undelete")
WANTED = (*DesiredState, DesiredState.RUNNING, DesiredState.ARCHIVED, DesiredState.STANDBY)
MOST_PASSES = 40
MARKER = ".codehub-store"
SLOW = (
    "runtime.create_volume",
    "runtime.launch",
    "runtime.stop",
    "runtime.delete_volume",
    "mover.archive",
    "mover.restore",
    "database.status.ARCHIVED",
    "database.status.RESTORED",
)
LATER = """
UPDATE workspaces SET retry_at = retry_at - interval '1 hour',
    phase_changed_at = phase_changed_at - interval '1 hour',
    desired_at = desired_at - interval '1 hour'
"""
OVERDUE = "UPDATE workspaces SET op_started_at = op_started_at - interval '1 hour'"


class Hub(RuleBasedStateMachine):
    """One workspace, its people, its machine, and leaders that come and go."""

    theatre: ClassVar[Theatre]
    stage: ClassVar[Stage]
    runner: ClassVar[asyncio.Runner]

    def __init__(self) -> None:
        super().__init__()
        self.may_hold: set[str | None] = set()
        self.lost = False
        self.rotten: tuple[Path, bytes] | None = None
        self.typed = 0
        self.sleeper: Actor | None = None

    @initialize(scenario=st.sampled_from([each for each in SCENARIOS if each.name in BEGINS]))
    def begin(self, scenario: Scenario) -> None:
        """Where it is best to begin: there is something to lose, and something to do."""
        self._run(self.theatre.set_up(self.stage, scenario))
        self.may_hold = {self.stage.work}
        self.leader = self._run(Actor.begin(self.stage))

    # People

    @rule()
    def type(self) -> None:
        """Somebody works in the home, if it is theirs to work in."""
        row = self._run(self.stage.look())
        home = row["home_store_key"]
        if row["operation"] != "NONE" or home is None or row["phase"] == "ERROR":
            return
        path = self.stage.runtime.root / home
        if path.is_dir():
            self.typed += 1
            (path / "work.txt").write_text(f"text {self.typed}")
            self.may_hold, self.lost = {f"text {self.typed}"}, False

    @rule(state=st.sampled_from(WANTED))
    def want(self, state: DesiredState) -> None:
        """Start, stop, archive, restore, delete and undelete are all of this kind."""
        self._sql(
            "UPDATE workspaces SET desired_state = %s, desired_at = now(), desired_source = 'cli'",
            state,
        )
        self._let_go()

    @rule(state=st.sampled_from(WANTED), passes=st.integers(2, 5))
    def want_and_wait(self, state: DesiredState, passes: int) -> None:
        self.want(state)
        self.tick_on(passes)
        self.type()

    @rule(mode=st.sampled_from(RecoverMode))
    def recover(self, mode: RecoverMode) -> None:
        row = self._run(self.stage.look())
        if row["phase"] != "ERROR":
            return
        self._sql("UPDATE workspaces SET recover_requested = %s", mode)
        gone = row["error_reason"] in (ErrorReason.DATA_LOST, ErrorReason.ARCHIVE_CORRUPTED)
        if mode is RecoverMode.ACCEPT_EMPTY and gone:
            self.may_hold |= {None}
        if mode is RecoverMode.FROM_ARCHIVE and gone:
            self.may_hold |= self._archived()

    @rule(number=st.integers(0, 3), state=st.sampled_from(("RUNNING", "STANDBY", "ARCHIVED")))
    def edit_spec(self, number: int, state: str) -> None:
        changed = declaration(labels={"n": str(number)}, declared_state=DesiredState(state))
        if self._run(self.stage.look())["deleted_at"] is None:
            self._run(self.stage.world.declare(changed))

    # Leaders

    @rule()
    def tick(self) -> None:
        self._run(self._tick())

    @rule(passes=st.integers(2, 6))
    def tick_on(self, passes: int) -> None:
        for _ in range(passes):
            self._run(self._tick())

    @rule(name=st.sampled_from(SLOW))
    def slow_call(self, name: str) -> None:
        self.leader.script.named[name] = Fault.HOLD

    @rule()
    def act_goes_on(self) -> None:
        self._run(self.leader.release())

    @rule(fault=st.sampled_from(FAULTS), after=st.integers(0, 30))
    def strike(self, fault: Fault, after: int) -> None:
        """A crash, a lost connection, a call that fails, at some call to come."""
        script = self.leader.script
        script.strikes[len(script.calls) + after] = fault

    @rule(after=st.integers(0, 30))
    def pause(self, after: int) -> None:
        if self.sleeper is None:
            script = self.leader.script
            script.strikes[len(script.calls) + after] = Fault.PAUSE

    @rule()
    def wake(self) -> None:
        """The one that slept goes on, and must not write anything."""
        if self.sleeper is not None:
            self._run(self._wake(self.sleeper))
            self.sleeper = None

    @rule()
    def lose_connections(self) -> None:
        """The server ends every session but ours."""
        self._sql(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    # The machine, the store and time

    @rule()
    def crash_container(self) -> None:
        for each in self.stage.runtime.containers:
            self.stage.runtime.crash(each)

    @rule()
    def remove_home(self) -> None:
        """By hand, as nobody should."""
        home = self._run(self.stage.look())["home_store_key"]
        if home is not None and (self.stage.runtime.root / home).is_dir():
            shutil.rmtree(self.stage.runtime.root / home)
            self.lost = True
            self._let_go()

    @rule()
    def runtime_away_or_back(self) -> None:
        self.stage.runtime.away = not self.stage.runtime.away

    @rule()
    def store_away_or_back(self) -> None:
        root = self.stage.root / ARCHIVES
        there, away = root / MARKER, root / f"{MARKER}.away"
        _ = there.rename(away) if there.exists() else away.rename(there)

    @rule()
    def flip_a_bit_or_mend_it(self) -> None:
        if self.rotten is not None:
            self._mend()
            return
        key = self._run(self.stage.look())["archive_key"]
        path = self.stage.root / ARCHIVES / (key or "")
        if key is not None and path.is_file():
            self.rotten = (path, path.read_bytes())
            flipped = bytearray(self.rotten[1])
            flipped[-1] ^= 1
            path.write_bytes(flipped)

    @rule(overdue=st.booleans())
    def time_passes(self, overdue: bool) -> None:
        self._sql(OVERDUE if overdue else LATER)

    # What must hold

    @invariant()
    def nothing_is_lost(self) -> None:
        seen = self._picture()
        check_mounts(self.stage, seen)
        check_operations(seen)
        assert len(self.stage.written) == len(set(self.stage.written)), "I4: written twice"
        self._check_data(seen)

    def _check_data(self, seen: Picture) -> None:
        row = seen.row
        home = None if row["operation"] in MAKES_VOLUME else row["home_store_key"]
        there = home is not None and f"volumes/{home}" in seen.files
        if there and home is not None:
            assert in_home(seen, home) in self.may_hold, f"I1, I7: {told(row)}"
            return
        if self.lost or None in self.may_hold:
            return
        assert home is None, f"I1: the home is gone: {told(row)}"
        assert row["archive_key"] is not None, f"I1: nothing leads to it: {told(row)}"
        packed = find_archive(seen, row["archive_key"])
        assert packed is not None or self.rotten, f"I5: no archive: {told(row)}"
        assert packed is None or unpacked(packed) in self.may_hold, f"I1: {told(row)}"

    def teardown(self) -> None:
        """When faults stop, everything converges, and what was typed is there."""
        self._heal()
        self._run(self._converge())
        self.nothing_is_lost()

    def _heal(self) -> None:
        self.stage.runtime.away = False
        away = self.stage.root / ARCHIVES / f"{MARKER}.away"
        if away.exists():
            away.rename(away.with_name(MARKER))
        self._mend()
        self._sql("UPDATE workspaces SET retry_at = NULL")

    def _mend(self) -> None:
        if self.rotten is not None and self.rotten[0].exists():
            self.rotten[0].write_bytes(self.rotten[1])
        self.rotten = None

    async def _tick(self) -> None:
        if not self.leader.alive:
            self.leader = await Actor.begin(self.stage)
        await self.leader.tick()
        if self.leader.asleep:
            await self.stage.time_out_transactions()
            self.sleeper, self.leader = self.leader, await Actor.begin(self.stage)

    async def _wake(self, sleeper: Actor) -> None:
        await self.leader.release()
        before = await picture.versions(self.stage.conn)
        await sleeper.wake()
        assert await picture.versions(self.stage.conn) == before, "I6: a stale epoch wrote"

    async def _converge(self) -> None:
        if self.sleeper is not None:
            await self._wake(self.sleeper)
        await self.leader.end()
        async with self.stage.term() as term:
            for _ in range(MOST_PASSES):
                await term.pass_once()
                row = await self.stage.look()
                if row["phase"] == "ERROR" or is_tidy(self.stage, row):
                    return
        raise AssertionError(f"it does not come to rest: {told(row)}")

    def _let_go(self) -> None:
        """Who deletes what is lost lets go of it; undeleted, it comes back as it was archived."""
        if self.lost and self._run(self.stage.look())["desired_state"] == DesiredState.DELETED:
            self.may_hold |= {None, *self._archived()}

    def _archived(self) -> set[str | None]:
        """What the recorded archive holds, if there is one."""
        seen = self._picture()
        path = f"{ARCHIVES}/{seen.row['archive_key']}"
        packed = seen.files.get(path)
        if self.rotten is not None and self.rotten[0] == self.stage.root / path:
            packed = self.rotten[1]
        return set() if packed is None else {unpacked(packed)}

    def _picture(self) -> Picture:
        seen: Picture = self._run(self.stage.take_picture())
        return seen

    def _sql(self, query: str, *values: object) -> None:
        self._run(_done(self.stage.conn.execute(query, values)))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)


async def _done(work: Awaitable[Any]) -> None:
    await work


def test_what_was_typed_last_stays_retrievable(theatre: Theatre) -> None:
    with asyncio.Runner() as runner:
        opening = theatre.stage()
        Hub.runner, Hub.stage = runner, runner.run(opening.__aenter__())
        Hub.theatre = theatre
        try:
            run_state_machine_as_test(
                Hub,
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=40,
                    deadline=None,
                    suppress_health_check=[*HealthCheck],
                ),
            )
        finally:
            runner.run(opening.__aexit__(None, None, None))


pytestmark = pytest.mark.timeout(120 + EXAMPLES)
