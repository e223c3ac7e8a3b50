"""A whole coordinator at work on a Docker engine, in a thread of its own, and what it writes.

Tests and benchmarks stand outside, as people do: they ask for states through the intent service,
read the database, and look at the engine. Every phase and every operation that is ever written is
noted by the database itself.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
from psycopg.rows import namedtuple_row

from codehub.adapters.docker import DockerRuntime
from codehub.adapters.http_post import HttpPost
from codehub.adapters.localstore import LocalStore
from codehub.adapters.redis import RedisSignals
from codehub.config import Settings
from codehub.coordinator.coordinator import Coordinator, Parts
from codehub.errors import Unreachable
from codehub.jobs.mover import JobMover
from codehub.model.states import IntentSource
from codehub.model.workspace import Runtime
from codehub.service.intent import set_desired
from codehub.service.limits import LimitDefaults
from codehub.store.connect import connect
from codehub.store.hubs import ensure_hub_id
from tests.integration.stored import apply
from tests.make import declaration, spec_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta
    from pathlib import Path
    from uuid import UUID

    from codehub.model.runtime import Listing, StartRequest
    from codehub.model.states import DesiredState
    from codehub.model.workspace import Declaration

PATIENCE: Final = 90.0
MANY: Final = 10_000
NO_LIMITS: Final = LimitDefaults(MANY, MANY)
SERVE: Final = ("sh", "-c", "exec httpd -f -p $PORT -h $HOME")

RECORD: Final = """
CREATE TABLE written (
    number bigint GENERATED ALWAYS AS IDENTITY, name text, old_phase text, new_phase text,
    old_operation text, new_operation text
);
CREATE FUNCTION note_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO written (name, old_phase, new_phase, old_operation, new_operation)
    VALUES (NEW.name, OLD.phase, NEW.phase, OLD.operation, NEW.operation);
    RETURN NULL;
END $$;
CREATE TRIGGER note_written AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.phase, OLD.operation) IS DISTINCT FROM (NEW.phase, NEW.operation))
    EXECUTE FUNCTION note_written();
"""
ROWS: Final = """
SELECT id, name, phase, operation, desired_state, error_count, error_reason, error_message,
       conditions #>> '{infra.container_ready,status}' AS ready
FROM workspaces ORDER BY name
"""


class Written(NamedTuple):
    """A change of phase or operation, as the database saw it."""

    name: str
    old_phase: str
    new_phase: str
    old_operation: str
    new_operation: str


class WatchedRuntime(DockerRuntime):
    """Notes what the coordinator asks of it: looks, with and without an answer, and acts."""

    def __init__(self, hub_id: str, **options: Any) -> None:
        super().__init__(hub_id, **options)
        self.answered = 0
        self.unanswered = 0
        self.acts: list[tuple[str, UUID]] = []

    async def list(self) -> Listing:
        try:
            found = await super().list()
        except Unreachable:
            self.unanswered += 1
            raise
        self.answered += 1
        return found

    async def start(self, request: StartRequest, confirm: Callable[[], Any]) -> None:
        self.acts.append(("start", request.workspace_id))
        await super().start(request, confirm)

    async def stop(self, workspace_id: UUID, grace: timedelta) -> None:
        self.acts.append(("stop", workspace_id))
        await super().stop(workspace_id, grace)


class LiveHub:
    """A coordinator that leads until `end`, on the engine at `base_url`."""

    def __init__(
        self, database_url: str, redis_url: str, path: Path, base_url: str, **settings: Any
    ) -> None:
        self.database_url = database_url
        self.hub_id = str(asyncio.run(_hub_id(database_url)))
        self.settings = Settings(
            docker_host=base_url,
            limits_max_running_per_user=MANY,
            limits_max_running_global=MANY,
            redis_channel_sse_prefix=f"{self.hub_id}:sse",
            redis_channel_wake_prefix=f"{self.hub_id}:wake",
            **settings,
        )
        self.runtime = WatchedRuntime(
            self.hub_id,
            base_url=base_url,
            network=self.settings.docker_network,
            look_seconds=self.settings.docker_look_timeout,
            act_seconds=self.settings.docker_act_timeout,
        )
        self._redis_url = redis_url
        self._archives = path / "archives"
        self._store = LocalStore(self._archives)
        self._store.claim()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="coordinator")
        self._ending: asyncio.Event | None = None
        self.coordinator: Coordinator | None = None
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute(RECORD)

    def begin(self) -> None:
        self._thread.start()
        self.until(lambda: self.coordinator is not None and self.coordinator.leads, "it leads")

    def end(self) -> None:
        if self._thread.is_alive() and self._ending is not None:
            self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def declare(self, names: Sequence[str], image: str, **fields: Any) -> None:
        """Specs with these workspaces and no others."""
        fields.setdefault("command", SERVE)
        declared = [
            declaration(each, runtime=Runtime.DOCKER, image=image, **fields) for each in names
        ]
        asyncio.run(_apply(self.database_url, declared))

    def want(self, state: DesiredState, *names: str) -> None:
        """As a person asks for it."""
        asyncio.run(_want(self.database_url, state, names))

    def rows(self) -> dict[str, Any]:
        return {each.name: each for each in self.ask(ROWS)}

    def written(self) -> list[Written]:
        """All changes of phases and operations so far, in their order."""
        columns = ", ".join(Written._fields)
        return [
            Written(*each) for each in self.ask(f"SELECT {columns} FROM written ORDER BY number")
        ]

    def ask(self, query: str) -> list[Any]:
        with psycopg.connect(self.database_url, row_factory=namedtuple_row) as conn:
            return conn.execute(query).fetchall()

    def until_settled(self, **phases: Sequence[str]) -> None:
        """Until these workspaces rest in these phases."""
        wanted = {name: phase for phase, names in phases.items() for name in names}

        def settled() -> bool:
            rows = self.rows()
            return all(
                (rows[name].phase, rows[name].operation) == (phase, "NONE")
                for name, phase in wanted.items()
            )

        self.until(settled, f"all are settled: {phases}")

    def until_unanswered(self, times: int) -> None:
        """Until so many more looks at the engine had no answer."""
        before = self.runtime.unanswered
        self.until(lambda: self.runtime.unanswered >= before + times, "looks without an answer")

    def until_answered(self, times: int) -> None:
        """Until so many more looks at the engine had an answer."""
        before = self.runtime.answered
        self.until(lambda: self.runtime.answered >= before + times, "looks with an answer")

    def until(self, check: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not check():
            assert self._thread.is_alive(), "the coordinator has ended"
            if time.monotonic() > deadline:
                rows = "\n".join(map(str, self.rows().values()))
                raise AssertionError(f"never happened: {what}\n{rows}")
            time.sleep(0.02)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._coordinate())
        finally:
            self._loop.close()

    async def _coordinate(self) -> None:
        self._ending = asyncio.Event()
        signals = RedisSignals(self._redis_url, prefix=self.hub_id)
        self.coordinator = Coordinator(self._parts(signals))
        running = asyncio.create_task(self.coordinator.run())
        await self._ending.wait()
        running.cancel()
        await asyncio.wait({running})
        await signals.close()

    def _parts(self, signals: RedisSignals) -> Parts:
        async def runtimes(*_: object) -> dict[Runtime, DockerRuntime]:
            await self.runtime.claim(expects_data=False)
            return {Runtime.DOCKER: self.runtime}

        return Parts(
            settings=self.settings,
            database_url=self.database_url,
            runtimes=runtimes,
            store=self._store,
            mover=JobMover(f"file://{self._archives}", os.environ),
            signals=signals,
            notifier=HttpPost("CodeHub/test"),
            enabled=frozenset({Runtime.DOCKER}),
        )


@contextmanager
def live_hub(
    database_url: str, redis_url: str, path: Path, base_url: str, **settings: Any
) -> Iterator[LiveHub]:
    """A hub at work; what it made on the engine is for the caller to remove."""
    hub = LiveHub(database_url, redis_url, path, base_url, **settings)
    try:
        hub.begin()
        yield hub
    finally:
        hub.end()


async def _hub_id(url: str) -> UUID:
    async with await connect(url) as conn:
        return await ensure_hub_id(conn)


async def _apply(url: str, declared: Sequence[Declaration]) -> None:
    digest = sha256(repr(declared).encode()).hexdigest()
    async with await connect(url) as conn:
        await apply(conn, spec_set(*declared, digest=digest), immediately=True)


async def _want(url: str, state: DesiredState, names: Sequence[str]) -> None:
    async with await connect(url) as conn:
        for each in names:
            await set_desired(
                conn, each, state, source=IntentSource.CLI, by="test", limits=NO_LIMITS
            )
