"""What the state machine lets pass: time, people who come and go, Redis, and who looks after them.

Collections of archives and looks for idleness go on among everything else, by the same leaders.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.chaos.actor import SETTINGS, Actor
from tests.chaos.machine import Surroundings
from tests.chaos.presence import RESENT
from tests.chaos.script import Fault
from tests.chaos.stage import ARCHIVES

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

INTERVAL = timedelta(seconds=SETTINGS.coordinator_ttl_interval)
RETENTION = timedelta(seconds=SETTINGS.retention_seconds)
SPANS = (
    timedelta(seconds=20),
    timedelta(minutes=2),
    timedelta(minutes=11),
    timedelta(hours=1),
    timedelta(hours=3),
    RETENTION + timedelta(hours=1),
)
RETURNS = ("never", "in time", "without Redis")
LATE = 25
"""Steps after which a story may end with its workspace purged: before, there is more to see."""


class Passing(Surroundings):
    """Time, and what goes by it."""

    happened: ClassVar[Counter[str]]
    steps = 0

    # Time

    @rule(lasts=st.sampled_from(SPANS))
    def time_passes(self, lasts: timedelta) -> None:
        """All at once, as for a machine that was suspended."""
        self.run(self.stage.pass_time(lasts))
        self.run(self.presence.report())

    # People

    @rule()
    def work(self) -> None:
        """Somebody is there, if there is something to be in."""
        if self.run(self.stage.look())["phase"] == "RUNNING":
            self.run(self.presence.work())
            self.type()

    def type(self) -> None:
        raise NotImplementedError

    @rule(wakes=st.booleans(), looks=st.integers(4, 6), back=st.sampled_from(RETURNS))
    def nobody_comes(self, wakes: bool, looks: int, back: str) -> None:
        """For so long, while somebody looks in time; and then somebody comes back."""
        if wakes:
            self.want_and_wait("RUNNING", 4)
            self.work()
        for number in range(looks):
            self.time_passes(INTERVAL)
            if back == "in time" and number == looks - 1:
                self.work()
            self.look_for_idleness()
        if back == "without Redis":
            down, self.stage.signals.down = self.stage.signals.down, True
            self.work()
            self.tick()
            self.stage.signals.down = down
        self.tick()

    @rule(how=st.sampled_from(("flush", "restart", "away")))
    def lose_what_redis_knew(self, how: str) -> None:
        """Somebody was there, and nothing tells of it any more when idleness is looked for."""
        self.want_and_wait("RUNNING", 4)
        self.work()
        self.time_passes(INTERVAL)
        self.look_for_idleness()
        signals = self.stage.signals
        signals.save()
        self.time_passes(RESENT)
        self.work()
        self.time_passes(RESENT + timedelta(seconds=1))
        if how == "away":
            signals.down = not signals.down
        elif how == "flush":
            signals.flush()
        else:
            signals.restart()
        self.time_passes(INTERVAL)
        self.look_for_idleness()
        self.tick()

    def tick(self) -> None:
        raise NotImplementedError

    # Leaders

    @rule()
    def look_for_idleness(self) -> None:
        """What was told before it began is known for sure once it ended well."""
        began = self.stage.now()

        async def look(leader: Actor) -> None:
            if await leader.look_for_idleness():
                self.presence.known = began

        self.run(self.let_lead(look))

    @rule()
    def collect(self) -> None:
        """What goes is neither in use, nor of an operation in flight; nothing is purged early."""
        before = self.archives()
        self.run(self.let_lead(Actor.collect))
        row = self.picture().row
        gone = before - self.archives()
        self.happened["collected"] += len(gone)
        if row["purged_at"] is None:
            kept = {row["archive_key"], *(each for each in before if f"/{row['op_id']}/" in each)}
            assert not gone & kept, f"I5: collected: {gone & kept}"

    @rule(states=st.permutations(("ARCHIVED", "STANDBY")))
    def outlive_an_archive(self, states: list[str]) -> None:
        """The whole of it, which by chance alone would be rare: an old one, and its end."""
        for state in (*states, *states):
            self.want_and_wait(state, 4)
            self.time_passes(timedelta(minutes=2))
        self.collect()
        self.time_passes(timedelta(hours=3))
        self.collect()

    @rule()
    def collect_beside_an_upload(self) -> None:
        """It is committed, and for hours nothing leads to it but the operation."""
        self.want_and_wait("STANDBY", 4)
        self.leader.script.named["database.status.ARCHIVED"] = Fault.HOLD
        self.want_and_wait("ARCHIVED", 1)
        self.collect()
        self.time_passes(timedelta(hours=3))
        self.collect()
        self.run(self.leader.release())

    @rule(at=st.sampled_from(("runtime.launch", "runtime.stop", "store.delete", "store.commit")))
    def sleep_through_it(self, at: str) -> None:
        """A leader stopped at the very call that would do harm, and another in its place."""
        if self.sleeper is None:
            self.want_and_wait("STANDBY", 4)
            self.leader.script.named[at] = Fault.PAUSE
            self.want_and_wait("RUNNING", 4)
            self.wake()

    def wake(self) -> None:
        raise NotImplementedError

    def want_and_wait(self, state: Any, passes: int) -> None:
        raise NotImplementedError

    @precondition(lambda self: self.steps > LATE)
    @rule(lasts=st.sampled_from((RETENTION / 2, RETENTION + timedelta(hours=1))))
    def delete_and_forget(self, lasts: timedelta) -> None:
        self.want_and_wait("DELETED", 5)
        self.time_passes(lasts)
        for _ in range(2):
            self.collect()
            self.time_passes(timedelta(hours=3))

    # Redis

    @rule()
    def flush_redis(self) -> None:
        self.stage.signals.flush()

    @rule(saves=st.booleans())
    def save_or_restart_redis(self, saves: bool) -> None:
        """After a restart it knows what it last saved, and nothing since."""
        if saves:
            self.stage.signals.save()
        else:
            self.stage.signals.restart()

    @rule()
    def redis_away_or_back(self) -> None:
        self.stage.signals.down = not self.stage.signals.down

    # What must hold

    def check_purge(self, row: Mapping[str, Any]) -> bool:
        """Whether it was given up for good; never before its retention has ended."""
        if row["purged_at"] is None:
            return False
        kept = datetime.fromisoformat(row["purged_at"]) - datetime.fromisoformat(row["deleted_at"])
        assert kept >= RETENTION, f"purged after {kept}"
        return True

    def archives(self) -> set[str]:
        """The keys of the archives in the store."""
        root = self.stage.root / ARCHIVES
        return {str(each.relative_to(root)) for each in root.rglob("*.zst")}
