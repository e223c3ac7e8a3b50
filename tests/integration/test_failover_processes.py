"""Failover between real processes: killed, stopped, and with Postgres restarted under them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from codehub.embedded.postgres import EmbeddedPostgres
from codehub.errors import FenceLost, Unreachable
from codehub.store.advisory import OURS, Lock
from codehub.store.connect import connect
from codehub.store.schema import upgrade
from tests.conftest import NOT_DURABLE
from tests.integration.elections import HOLDERS, Candidate, one_value, rest, standing, until
from tests.integration.leading import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 60.0
WRITTEN = "SELECT DISTINCT holder, epoch FROM written ORDER BY epoch"
LATE = """
SELECT count(*) FROM written AS late JOIN written AS earlier
    ON earlier.n < late.n AND earlier.epoch > late.epoch
"""
LEADERS_LOCK = (OURS, Lock.LEADER)
STANDS_BY = """
SELECT FROM pg_stat_activity WHERE datname = current_database()
AND position('pg_try_advisory_lock' IN query) > 0
AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')
AND pid <> pg_backend_pid()
"""


class Hub:
    """A database in which coordinators of their own processes lead."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.conn = psycopg.connect(url, autocommit=True)
        self.conn.execute(TABLES)

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self.conn.execute(query, values or None).fetchall()

    def until(self, query: str, *values: object) -> float:
        """Ask until there is a row; how many seconds that took."""
        began = time.monotonic()
        while time.monotonic() < began + PATIENCE:
            if self.ask(query, *values):
                return time.monotonic() - began
            time.sleep(0.02)
        raise AssertionError(f"never came: {query} {values}")

    def until_writes(self, holder: str, epoch: int) -> float:
        return self.until("SELECT FROM written WHERE holder = %s AND epoch = %s", holder, epoch)

    @contextmanager
    def coordinator(self, holder: str) -> Iterator[subprocess.Popen[bytes]]:
        words = [sys.executable, "-m", "tests.integration.leading", self.url, holder]
        with subprocess.Popen(words, cwd=REPOSITORY, stderr=subprocess.DEVNULL) as process:
            try:
                yield process
            finally:
                process.kill()
                process.wait(timeout=PATIENCE)


@pytest.fixture
def hub(database_url: str) -> Iterator[Hub]:
    made = Hub(database_url)
    with made.conn:
        yield made


def test_a_killed_leader_is_replaced(hub: Hub) -> None:
    with hub.coordinator("one") as one:
        hub.until_writes("one", 1)
        with hub.coordinator("two"):
            hub.until(STANDS_BY)
            one.kill()
            took = hub.until_writes("two", 2)
    print(f"replaced {took:.2f} s after the kill")  # noqa: T201
    assert hub.ask(WRITTEN) == [("one", 1), ("two", 2)]
    assert hub.ask(LATE) == [(0,)]


def test_a_leader_that_slept_through_its_end_writes_nothing_and_stands_by(hub: Hub) -> None:
    with hub.coordinator("one") as one:
        hub.until_writes("one", 1)
        with hub.coordinator("two"):
            os.kill(one.pid, signal.SIGSTOP)
            ((session,),) = hub.ask(HOLDERS, *LEADERS_LOCK)
            hub.ask("SELECT pg_terminate_backend(%s)", session)
            hub.until_writes("two", 2)
            os.kill(one.pid, signal.SIGCONT)
            hub.until("SELECT FROM refused WHERE holder = 'one' AND epoch = 1")
        hub.until_writes("one", 3)
    assert hub.ask(WRITTEN) == [("one", 1), ("two", 2), ("one", 3)]
    assert hub.ask(LATE) == [(0,)]


@pytest.mark.anyio
async def test_postgres_restarted_under_the_leader(open_path: Path) -> None:
    server = EmbeddedPostgres(open_path / "pg", options=NOT_DURABLE)
    candidate = Candidate(server.start(), rest)
    try:
        upgrade(candidate.url)
        async with standing(candidate):
            await until(lambda: candidate.leader.leads)
            await asyncio.to_thread(server.stop)
            await until(lambda: isinstance(candidate.leader.problem, Unreachable))
            assert not candidate.leader.leads
            assert await asyncio.to_thread(server.start) == candidate.url
            await until(lambda: candidate.leader.epoch == 2)
            with pytest.raises(FenceLost):
                await replace(candidate.leads[1], fence=candidate.leads[0].fence).confirm()
            async with await connect(candidate.url) as conn:
                assert await one_value(conn, "SELECT id FROM hub") == candidate.leads[0].hub_id
    finally:
        server.stop()
    assert candidate.changes == [True, False, True, False]
