"""People, time and every fault in any order: what was typed last stays retrievable.

CODEHUB_CHAOS_EXAMPLES makes it look longer.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from codehub.model.states import DesiredState, ErrorReason, RecoverMode
from codehub.model.workspace import Ttl
from tests.chaos.actor import Actor
from tests.chaos.invariants import check_always, in_home
from tests.chaos.machine import MARKER
from tests.chaos.passing import Passing
from tests.chaos.presence import Presence
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.script import FAULTS, Fault
from tests.chaos.stage import ARCHIVES, FILE
from tests.make import declaration

if TYPE_CHECKING:
    from tests.chaos.scenarios import Scenario
    from tests.chaos.theatre import Theatre

EXAMPLES = int(os.environ.get("CODEHUB_CHAOS_EXAMPLES", "100"))
BEGINS = ("provision", "start", "stop", "archive again", "restore", "undelete")
WANTED = (*DesiredState, DesiredState.RUNNING, DesiredState.ARCHIVED, DesiredState.STANDBY)
_texts = count()
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
ENOUGH = 60
"""Stories in which everything that is rare has happened to somebody."""


class Hub(Passing):
    """One workspace, its people, its machine, and leaders that come and go."""

    @initialize(scenario=st.sampled_from([each for each in SCENARIOS if each.name in BEGINS]))
    def begin(self, scenario: Scenario) -> None:
        """Where it is best to begin: there is something to lose, and something to do."""
        self.run(self.theatre.set_up(self.stage, scenario))
        self.may_hold = {self.stage.work}
        self.leader = self.run(Actor.begin(self.stage))
        self.presence = Presence(self.stage, self.run(self.stage.row()).id)

    # People

    @rule()
    def type(self) -> None:
        """Somebody works in the home, if it is theirs to work in."""
        row = self.run(self.stage.look())
        home = row["home_store_key"]
        if row["operation"] != "NONE" or home is None or row["phase"] == "ERROR":
            return
        path = self.stage.runtime.root / home
        if path.is_dir():
            text = f"text {next(_texts)}"
            (path / FILE).write_text(text)
            self.may_hold, self.lost = {text}, False

    @rule(state=st.sampled_from(WANTED))
    def want(self, state: DesiredState) -> None:
        """Start, stop, archive, restore, delete and undelete are all of this kind."""
        self.sql(
            "UPDATE workspaces SET desired_state = %s, desired_at = now(), desired_source = 'cli'"
            " WHERE purged_at IS NULL",
            state,
        )

    @rule(state=st.sampled_from(WANTED), passes=st.integers(2, 5))
    def want_and_wait(self, state: DesiredState, passes: int) -> None:
        self.want(state)
        self.tick_on(passes)
        self.type()

    @rule(mode=st.sampled_from(RecoverMode))
    def recover(self, mode: RecoverMode) -> None:
        row = self.run(self.stage.look())
        if row["phase"] != "ERROR":
            return
        self.sql("UPDATE workspaces SET recover_requested = %s", mode)
        gone = row["error_reason"] in (ErrorReason.DATA_LOST, ErrorReason.ARCHIVE_CORRUPTED)
        if mode is RecoverMode.ACCEPT_EMPTY and gone:
            self.may_hold |= {None}
        if mode is RecoverMode.FROM_ARCHIVE and gone:
            self.may_hold |= self.archived()

    @rule(
        number=st.integers(0, 3),
        state=st.sampled_from(("RUNNING", "RUNNING", "STANDBY", "ARCHIVED")),
        standby=st.sampled_from((None, 300, 1800)),
    )
    def edit_spec(self, number: int, state: str, standby: int | None) -> None:
        declared = DesiredState(state)
        changed = declaration(
            labels={"n": str(number)}, declared_state=declared, ttl=Ttl(standby=standby)
        )
        if self.run(self.stage.look())["deleted_at"] is None:
            self.run(self.stage.world.declare(changed))

    # Leaders

    @rule()
    def tick(self) -> None:
        self.run(self.let_lead(Actor.tick))

    @rule(passes=st.integers(2, 6))
    def tick_on(self, passes: int) -> None:
        for _ in range(passes):
            self.run(self.let_lead(Actor.tick))

    @rule(name=st.sampled_from(SLOW))
    def slow_call(self, name: str) -> None:
        self.leader.script.named[name] = Fault.HOLD

    @rule()
    def act_goes_on(self) -> None:
        self.run(self.leader.release())

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
            self.run(self.wake_up(self.sleeper))
            self.sleeper = None

    @rule()
    def lose_connections(self) -> None:
        """The server ends every session but ours."""
        self.sql(
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
        """By hand, as nobody should; from one that is at work nothing comes back whole."""
        row = self.run(self.stage.look())
        home = row["home_store_key"]
        if home is None or not (self.stage.runtime.root / home).is_dir():
            return
        if row["operation"] == "NONE":
            self.stage.hide(home)
        else:
            shutil.rmtree(self.stage.runtime.root / home)
        self.lost = True

    @rule()
    def put_the_lost_home_back(self) -> None:
        """It was on a disk that was away, and a person may have given it up meanwhile."""
        row = self.run(self.stage.look())
        for home in self.stage.hidden():
            self.stage.bring_back(home)
            if home == row["home_store_key"]:
                self.lost = False
            else:
                self.late[home] = in_home(self.picture(), home)

    @rule(
        state=st.sampled_from((DesiredState.RUNNING, DesiredState.STANDBY)),
        mode=st.sampled_from((RecoverMode.ACCEPT_EMPTY, RecoverMode.FROM_ARCHIVE)),
    )
    def give_a_lost_home_up_too_soon(self, state: DesiredState, mode: RecoverMode) -> None:
        """The whole of it, which by chance alone would be rare."""
        self.want_and_wait(state, 4)
        self.remove_home()
        self.tick_on(2)
        self.recover(mode)
        self.tick()
        self.nothing_is_lost()
        self.tick_on(2)
        self.put_the_lost_home_back()

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
            self.mend()
            return
        key = self.run(self.stage.look())["archive_key"]
        path = self.stage.root / ARCHIVES / (key or "")
        if key is not None and path.is_file():
            self.rotten = (path, path.read_bytes())
            flipped = bytearray(self.rotten[1])
            flipped[-1] ^= 1
            path.write_bytes(flipped)

    # What must hold

    @invariant()
    def nothing_is_lost(self) -> None:
        self.steps += 1
        seen = self.picture()
        check_always(seen)
        self.check_given_up(seen)
        if not self.check_purge(seen.row):
            self.check_data(seen)

    def teardown(self) -> None:
        """When faults stop, everything converges, and what was typed is there."""
        self.heal()
        self.run(self.converge())
        self.nothing_is_lost()
        self.check_end()
        self.happened.update(self.presence.happened)
        self.happened["purged"] += self.run(self.stage.look())["purged_at"] is not None


def test_what_was_typed_last_stays_retrievable(theatre: Theatre) -> None:
    with asyncio.Runner() as runner:
        opening = theatre.stage()
        Hub.runner, Hub.stage = runner, runner.run(opening.__aenter__())
        Hub.theatre, Hub.happened = theatre, Counter()
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
    rare = {name: Hub.happened[name] for name in ("lowered", "stopped", "collected", "purged")}
    assert all(rare.values()) or EXAMPLES < ENOUGH, f"what never happened was not tested: {rare}"


pytestmark = pytest.mark.timeout(120 + EXAMPLES)
