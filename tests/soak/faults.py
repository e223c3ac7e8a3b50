"""What may happen to a hub at any moment: each fault by its name, done to the whole at once.

Processes are found by the hub's data directory and signalled by pid; the engine, the S3 server,
Postgres and Redis are the soak's own.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import redis
from docker.errors import APIError

from codehub.embedded.redis import EmbeddedRedis
from tests.end_to_end.tree import kill_all
from tests.soak.people import AWAY

if TYPE_CHECKING:
    import random
    import subprocess
    from collections.abc import Callable, Iterator

    from tests.end_to_end_docker.docker_hub import DockerHub
    from tests.engine.second_engine import SecondEngine

LONGEST_PAUSE = 4.0


class Faults:
    """A hub with a coordinator that stands by, and everything that can happen to them."""

    def __init__(self, hub: DockerHub, engine: SecondEngine, chance: random.Random) -> None:
        self.counted: Counter[str] = Counter()
        self.kills = 0
        self._hub = hub
        self._engine = engine
        self._chance = chance
        self._main: subprocess.Popen[bytes] | None = None
        self._other: subprocess.Popen[bytes] | None = None

    @property
    def every(self) -> dict[str, Callable[[], None]]:
        return {
            "kill -9 of the whole tree": self.everything,
            "kill -9 of the leader": self.leader,
            "leader stopped for a while": self.leader_paused,
            "leader stopped, Postgres killed": self.leader_late,
            "kill -9 of Postgres": self.postgres,
            "Postgres stopped for a while": self.postgres_paused,
            "kill -9 of Redis": self.redis,
            "Redis flushed": self.flush,
            "kill -9 of the S3 server": self.s3,
            "S3 server stopped for a while": self.s3_paused,
            "kill -9 of storage jobs": self.jobs,
            "a container killed": self.container_killed,
            "a container removed": self.container_removed,
            "engine stopped for a while": self.engine_paused,
            "kill -9 of the engine": self.engine,
        }

    def strike(self, name: str) -> None:
        self.every[name]()
        self.counted[name] += 1

    def begin(self) -> None:
        """The hub, and another coordinator beside it: whichever of them is not there."""
        if self._main is None or self._main.poll() is not None:
            self._hub.start()
            self._main = self._hub.up
        if self._other is None or self._other.poll() is not None:
            self._other = self._hub.coordinate()

    def everything(self) -> None:
        self.kills += self._hub.kill()
        self.begin()

    def leader(self) -> None:
        """Be it the hub's own or the other; who is left leads, then there are both again."""
        self._kill(self._leader())
        self._wait()
        self.begin()

    def leader_paused(self) -> None:
        with stopped(self._leader()):
            self._wait()

    def leader_late(self) -> None:
        """The other one leads meanwhile, and what the old one had begun comes late."""
        with stopped(self._leader()):
            self.postgres()
            self._wait()

    def postgres(self) -> None:
        self._kill(self._hub.postgres())

    def postgres_paused(self) -> None:
        with stopped(self._hub.postgres()):
            self._wait()

    def redis(self) -> None:
        self._kill(self._hub.redis())

    def flush(self) -> None:
        with suppress(redis.RedisError), redis.Redis.from_url(self._redis_url()) as client:
            client.flushall()

    def s3(self) -> None:
        self._hub.ground.s3.restart()
        self.kills += 1

    def s3_paused(self) -> None:
        with stopped(self._hub.ground.s3.pid):
            self._wait()

    def jobs(self) -> None:
        self.kills += kill_all(self._hub.data, lambda each: each.is_job)

    def container_killed(self) -> None:
        with suppress(APIError):  # it may have ended by itself
            self._hub.client.kill(self._container())
            self.kills += 1

    def container_removed(self) -> None:
        with suppress(APIError):
            self._hub.client.remove_container(self._container(), force=True)
            self.kills += 1

    def engine_paused(self) -> None:
        with self._engine.paused():
            self._wait()

    def engine(self) -> None:
        self._engine.stop(signal.SIGKILL)
        self.kills += 1
        self._engine.start()

    def _container(self) -> str:
        """One of those there are; a name that nobody has, if there is none."""
        found = [each["Id"] for each in self._hub.containers().values()]
        return self._chance.choice(found) if found else "none"

    def _leader(self) -> int | None:
        with suppress(*AWAY):
            return self._hub.leader()
        return None

    def _redis_url(self) -> str:
        return EmbeddedRedis(self._hub.data / "redis").url

    def _kill(self, pid: int | None) -> None:
        with suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                self.kills += 1

    def _wait(self) -> None:
        time.sleep(self._chance.uniform(0.2, LONGEST_PAUSE))


@contextmanager
def stopped(pid: int | None) -> Iterator[None]:
    """Inside, the process stands still; it may be nobody."""
    _signal(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(pid, signal.SIGCONT)


def _signal(pid: int | None, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        if pid is not None:
            os.kill(pid, number)
