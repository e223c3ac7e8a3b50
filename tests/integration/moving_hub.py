"""A database with workspaces and no coordinator, for tests of commands that move or follow them.

Where a workspace has to move, the test changes its row as the controller would.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg

from codehub.cli.main import run
from codehub.model.states import ErrorReason, Operation, Phase
from codehub.model.workspace import Status
from codehub.store.advisory import OURS, Lock
from codehub.store.connect import connect
from tests.integration.live_command import live
from tests.integration.stored import insert, number
from tests.make import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pytest

    from codehub.model.workspace import Workspace
    from tests.integration.live_command import LiveCommand

AWAKE = Status(Phase.RUNNING, phase_changed_at=NOW)
ASLEEP = Status(Phase.STANDBY, phase_changed_at=NOW)
STORED = Status(Phase.ARCHIVED, phase_changed_at=NOW, archive_key="k")
FAILED = Status(
    Phase.ERROR, phase_changed_at=NOW, error_reason=ErrorReason.TIMEOUT, error_message="too slow"
)
LOST = replace(FAILED, error_reason=ErrorReason.DATA_LOST, archive_key="k")
BUSY = replace(ASLEEP, operation=Operation.ARCHIVING, op_id=number(9), op_started_at=NOW)
NOBODY = "no coordinator is running"


class Hub:
    """A database with workspaces, and the commands that are run on it."""

    def __init__(self, url: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self.root = root
        self._capsys = capsys

    def fill(self, *workspaces: Workspace) -> None:
        async def write() -> None:
            async with await connect(self.url) as conn:
                await insert(conn, *workspaces)

        asyncio.run(write())

    def run(self, *words: str) -> tuple[int, str, str]:
        """One command in this process: its exit code, stdout and stderr."""
        code = run([*words, "--hub", self.url])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def live(self, *words: str, **options: Any) -> AbstractContextManager[LiveCommand]:
        env = {"DATABASE_URL": self.url, **options.pop("env", {})}
        return live(*words, cwd=self.root, env=env, **options)

    def change(self, assignment: str, name: str = "api") -> None:
        """Play the controller's part."""
        with psycopg.connect(self.url, autocommit=True) as conn:
            done = conn.execute(
                f"UPDATE workspaces SET {assignment} WHERE name = %s".encode(), (name,)
            )
            assert done.rowcount == 1

    def row(self, columns: str, name: str = "api") -> tuple[Any, ...]:
        with psycopg.connect(self.url) as conn:
            query = f"SELECT {columns} FROM workspaces WHERE name = %s".encode()
            found = conn.execute(query, (name,)).fetchone()
        assert found is not None
        return tuple(found)

    def events(self) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as conn:
            query = "SELECT kind, old, new, source, reason FROM workspace_events ORDER BY id"
            return [tuple(row) for row in conn.execute(query).fetchall()]


def leading(url: str) -> Iterator[None]:
    """Somebody holds the leader's lock."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SELECT pg_advisory_lock(%s, %s)", (OURS, int(Lock.LEADER)))
        yield
