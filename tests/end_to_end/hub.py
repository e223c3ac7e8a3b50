"""A hub of real processes in a directory of its own, and everything it started ended with it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from codehub.embedded.postgres import EmbeddedPostgres
from codehub.embedded.redis import EmbeddedRedis
from codehub.errors import DatabaseProblem
from codehub.model.states import DesiredState, IntentSource
from codehub.service.intent import set_desired
from codehub.store.connect import connect
from tests.conftest import open_directory
from tests.end_to_end.tree import first_of, kill_all, processes_of
from tests.end_to_end.visits import welcome
from tests.integration.command_line import NEUTRAL, OURS, Ran, run_codehub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

PATIENCE = 60
ADDRESS = re.compile(r"Open http://localhost:(\d+)/")
ROWS = """
SELECT name, id, phase, operation, op_id, desired_state, error_count, error_reason, error_message,
       home_store_key, archive_key
FROM workspaces WHERE deleted_at IS NULL ORDER BY name
"""
HEAD = """\
apiVersion: codehub.dev/v1
kind: Hub
metadata: {name: hub}
spec: {maxRunningPerUser: 20, defaultRuntime: %s}
---
apiVersion: codehub.dev/v1
kind: User
metadata: {name: alice}
spec: {}
"""
WORKSPACE = """\
---
apiVersion: codehub.dev/v1
kind: Workspace
metadata: {name: %s}
spec: {owner: alice, %s}
"""
DEMO = "command: [python, -P, -m, codehub.demo]"


@dataclass(frozen=True)
class Row:
    """A workspace as the database has it."""

    name: str
    id: Any
    phase: str
    operation: str
    op_id: Any
    desired: str
    error_count: int
    error_reason: str | None
    error_message: str | None
    home: str | None
    archive: str | None


class Hub:
    """Below `directory`: `specs`, `data`, and what each process said.

    Its workspaces are processes. With another runtime it is for a subclass to say where they are.
    """

    runtime = "process"

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        self.directory = directory
        self.specs = directory / "specs"
        self.data = directory / "data"
        self.settings = settings
        self.port = 0
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def up(self) -> subprocess.Popen[bytes]:
        """The `codehub up` that was started last."""
        return self._children[-1]

    def declare(self, **workspaces: str) -> None:
        """Specs with these workspaces and nothing else, written whole."""
        head = HEAD % self.runtime
        text = head + "".join(WORKSPACE % each for each in workspaces.items())
        self.specs.mkdir(exist_ok=True)
        draft = self.directory / "draft"
        draft.write_text(text)
        draft.rename(self.specs / "all.yaml")

    def start(self, *words: str) -> None:
        """`codehub up`, until it says where it is."""
        process = self.launch("up", "--data", str(self.data), "--port", "0", *words)

        def address() -> int | None:
            found = ADDRESS.search(self.said(process))
            assert found or process.poll() is None, f"it ended: {self.said(process)}"
            return int(found[1]) if found else None

        self.port = until(address, "its address")
        welcome(self.port, lambda: self.database_url)

    def coordinate(self) -> subprocess.Popen[bytes]:
        """One more `codehub serve coordinator`."""
        where = () if "DATABASE_URL" in self.settings else ("--data", str(self.data))
        return self.launch("serve", "coordinator", *where, "--specs", "specs")

    def revive(self) -> None:
        """Up again, should a test that failed have left it stopped."""
        if self.up.poll() is not None:
            self.start()

    def launch(self, *words: str, output: int | None = None) -> subprocess.Popen[bytes]:
        """A command that goes on; what it says goes into a file, or to `output`."""
        plain = {name: value for name, value in os.environ.items() if name not in OURS}
        with (self.directory / f"said-{len(self._children)}").open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "codehub", *words],
                cwd=self.directory,
                env={**plain, **NEUTRAL, **self.settings},
                stdin=subprocess.DEVNULL,
                stdout=output or file,
                stderr=output or file,
            )
        self._children.append(process)
        return process

    def said(self, process: subprocess.Popen[bytes]) -> str:
        number = self._children.index(process)
        return (self.directory / f"said-{number}").read_text(errors="replace")

    def run(self, *words: str) -> Ran:
        """A command to its end, beside what runs."""
        env = {**self.settings, "CODEHUB_DATA": str(self.data)}
        return run_codehub(*words, cwd=self.directory, env=env)

    def tell(self, *words: str) -> Ran:
        """A command that must work."""
        ran = self.run(*words)
        assert ran.code == 0, f"{words}: {ran}"
        return ran

    def want(self, name: str, state: DesiredState) -> None:
        """As the command would, without its process; for what leads up to a test."""

        async def ask() -> None:
            async with await connect(self.database_url) as conn:
                await set_desired(conn, name, state, source=IntentSource.CLI, by="test")

        asyncio.run(ask())

    def signal(self, number: signal.Signals = signal.SIGINT) -> int:
        """End what was started last with a signal; its exit code."""
        self.up.send_signal(number)
        return self.up.wait(timeout=PATIENCE)

    def kill(self, *, workspaces: bool = True) -> int:
        """kill -9 of the whole tree, with or without the workspaces; how many processes."""
        count = kill_all(self.data, lambda each: workspaces or not each.is_workspace)
        for each in self._children:
            each.wait(timeout=PATIENCE)
        return count

    @property
    def database_url(self) -> str:
        """Of the database it was given, or else of its own."""
        given = self.settings.get("DATABASE_URL")
        return given or EmbeddedPostgres(self.data / "postgres").url

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        url = self.database_url
        with psycopg.connect(url, autocommit=True, connect_timeout=PATIENCE) as conn:
            return conn.execute(query, values or None).fetchall()

    def rows(self) -> dict[str, Row]:
        return {row[0]: Row(*row) for row in self.ask(ROWS)}

    def until_settled(self, **phases: str) -> dict[str, Row]:
        """Until these workspaces rest in these phases, by the database and in truth."""
        rows: dict[str, Row] = {}

        def rests(name: str, phase: str, alive: set[str]) -> bool:
            row = rows.get(name)
            at_rest = row is not None and (row.phase, row.operation) == (phase, "NONE")
            return at_rest and (str(rows[name].id) in alive) is (phase == "RUNNING")

        def there() -> bool:
            nonlocal rows
            rows, alive = self.rows(), self.alive()
            return all(rests(name, phase, alive) for name, phase in phases.items())

        try:
            until(there, f"{phases}")
        except AssertionError:
            said = self.said(self.up)[-3000:]
            raise AssertionError(f"{phases} never came: {rows}\n{said}") from None
        return rows

    def alive(self) -> set[str]:
        """The ids of the workspaces of which a process lives."""
        marks = [each.mark for each in processes_of(self.data)]
        return {mark.split("/")[1] for mark in marks if mark}

    def home(self, name: str) -> Path:
        key = self.rows()[name].home
        assert key is not None, f"{name} has no home"
        return self.data / "workspaces" / "volumes" / key

    def postgres(self) -> int | None:
        """The pid of its database."""
        running = EmbeddedPostgres(self.data / "postgres").running()
        return running.pid if running else None

    def redis(self) -> int | None:
        running = EmbeddedRedis(self.data / "redis").running()
        return running.pid if running else None

    def assert_no_second(self) -> None:
        """One `codehub up`, one of each service, no storage job; workspaces aside."""
        others = [each for each in processes_of(self.data) if not each.is_workspace]
        assert first_of(others, "codehub up") == [self.up.pid]
        assert first_of(others, "redis-server") == [self.redis()]
        assert first_of(others, " -D ") == [self.postgres()]
        assert [each for each in others if each.is_job] == []

    def leader(self) -> int | None:
        """The pid of the coordinator that leads, or led last."""
        rows = self.ask("SELECT holder_id FROM system_locks WHERE lock_name = 'coordinator'")
        return int(rows[0][0].rpartition(":")[2]) if rows and rows[0][0] else None

    def end(self) -> None:
        """Nothing of it lives on, and everything can be removed."""
        self.kill()
        for folder, _, _ in os.walk(self.data / "workspaces"):
            Path(folder).chmod(0o700)


@contextmanager
def a_hub(**settings: str) -> Iterator[Hub]:
    """A hub that was not started yet. What it starts is gone at the end, whatever happened."""
    with open_directory() as directory:
        hub = Hub(directory, settings)
        try:
            yield hub
        finally:
            hub.end()


def until(look: Callable[[], T | None], what: str, patience: float = PATIENCE) -> T:
    """What `look` gives once it gives something; a database that is away gives nothing."""
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        with suppress(psycopg.OperationalError, psycopg.errors.UndefinedTable, DatabaseProblem):
            found = look()
            if found:
                return found
        time.sleep(0.05)
    raise AssertionError(f"{what} never came")


def until_another_second() -> None:
    """Stores keep whole seconds, and an archive that is not surely older than another is kept."""
    second = int(time.time())
    until(lambda: int(time.time()) > second, "another second")
