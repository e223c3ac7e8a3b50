"""The first look at the archive store, beside everything else: a silent one is waited for and told.

That a whole hub goes on meanwhile is for tests/end_to_end/test_silent_store.py.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from codehub.adapters.localstore import LocalStore
from codehub.coordinator import meeting
from codehub.coordinator.meeting import StoreMeeting
from codehub.coordinator.pace import Failures
from codehub.core.keys import marker_key
from tests.coordination.hub import hub_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


class SilentStore(LocalStore):
    """Gives no answer until it is let go."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked = threading.Event()
        self.go_on = threading.Event()

    def open_reader(self, key: str) -> Any:
        self.asked.set()
        self.go_on.wait()
        return super().open_reader(key)


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[SilentStore]:
    store = SilentStore(tmp_path / "silent")
    store.claim()
    yield store
    store.go_on.set()


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (nobody tells of it)
            await asyncio.sleep(0.005)


async def test_a_silent_store_is_told_and_met_when_it_answers(
    database_url: str,
    tmp_path: Path,
    silent: SilentStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(meeting, "SILENCE", 0.0)
    async with hub_world(database_url, tmp_path) as world, world.term() as term:
        failures = Failures()
        task = asyncio.create_task(StoreMeeting(term.lead, silent, failures).run())
        await until(lambda: "archive store: no answer for" in caplog.text)
        assert silent.head(marker_key(term.lead.hub_id)) is None
        silent.go_on.set()
        await until(lambda: silent.head(marker_key(term.lead.hub_id)) is not None)
        task.cancel()
        await asyncio.wait({task})
    assert failures.counts == {}


async def test_one_that_never_answers_keeps_nobody_from_ending(
    database_url: str, tmp_path: Path, silent: SilentStore
) -> None:
    async with hub_world(database_url, tmp_path) as world, world.term() as term:
        task = asyncio.create_task(StoreMeeting(term.lead, silent, Failures()).run())
        await until(silent.asked.is_set)
        task.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait({task})
        assert task.cancelled()
        assert not silent.go_on.is_set()


async def test_a_store_of_another_hub_is_counted_and_told_once(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with hub_world(database_url, tmp_path) as world, world.term() as term:
        key = tmp_path / "archives" / marker_key(term.lead.hub_id)
        key.write_text('{"hub": "00000000-0000-0000-0000-000000000001"}')
        failures = Failures()
        task = asyncio.create_task(StoreMeeting(term.lead, world.store, failures).run())
        await until(lambda: failures.counts["archive store"] == 1)
        task.cancel()
        await asyncio.wait({task})
    assert [each.levelno for each in caplog.records] == [logging.WARNING]
    assert "marked as that of another hub" in caplog.text
