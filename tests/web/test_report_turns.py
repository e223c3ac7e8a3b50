"""Reports and plans of a large hub: others get their turn while it is read, whoever asks.

A turn is counted, not timed: between two of them only so many rows may be made into something.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from codehub.model.states import Phase
from codehub.service import revising
from codehub.specs.load import load_documents
from codehub.store import history, workspaces
from codehub.store.rows import workspace_of
from tests.web.browsing import look
from tests.web.plan_world import PLAN, SPECS, as_json
from tests.web.web_world import API, at_rest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from codehub.model.workspace import Workspace
    from tests.web.web_world import WebWorld

pytestmark = pytest.mark.anyio

MANY = 350
REPORT = f"{API}/report"
TELL = """
INSERT INTO workspace_events (workspace_id, workspace_name, kind, old, new, source)
SELECT id, name, 'phase', 'STANDBY', 'RUNNING', 'controller'
FROM workspaces, generate_series(1, 3500) WHERE name = 'bob-running'
"""


@asynccontextmanager
async def turns(made: list[Any]) -> AsyncIterator[list[int]]:
    """How many were made between two turns of somebody who is always ready to go on."""
    found: list[int] = []

    async def take_turns() -> None:
        before = len(made)
        while True:
            await asyncio.sleep(0)
            found.append(len(made) - before)
            before = len(made)

    task = asyncio.create_task(take_turns())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Workspace]:
    """The workspaces that rows are made into."""
    made: list[Workspace] = []

    def noted(row: Any) -> Workspace:
        made.append(workspace_of(row))
        return made[-1]

    monkeypatch.setattr(workspaces, "workspace_of", noted)
    return made


async def add_many(world: WebWorld) -> None:
    await world.add(*(at_rest(f"many-{n}", 100 + n, Phase.ARCHIVED, "ana") for n in range(MANY)))


@pytest.mark.parametrize("path", [REPORT, "/report", "/admin", "/admin/plan", PLAN])
async def test_all_is_read_a_few_at_a_time(
    world: WebWorld, root: httpx.AsyncClient, read: list[Workspace], path: str
) -> None:
    await add_many(world)
    async with turns(read) as found:
        if path == PLAN:
            (await root.post(PLAN, **as_json(SPECS))).raise_for_status()
        else:
            await look(root, path)
    assert len(read) > MANY
    assert max(found) <= workspaces.BREATH


async def test_so_is_the_past(
    world: WebWorld, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.rows(TELL)
    made: list[Any] = []
    make = history._move

    def noted(row: Any) -> Any:
        made.append(row)
        return make(row)

    monkeypatch.setattr(history, "_move", noted)
    async with turns(made) as found:
        (await root.get(REPORT)).raise_for_status()
    assert len(made) == 3500
    assert max(found) <= history._BREATH


@pytest.mark.parametrize("path", [REPORT, "/report"])
async def test_for_a_member_only_theirs_is_read(
    world: WebWorld, bob: httpx.AsyncClient, read: list[Workspace], path: str
) -> None:
    await add_many(world)
    read.clear()
    assert (await look(bob, path)).status == 200
    assert {each.declaration.owner for each in read} == {"bob"}
    assert len(read) == 3


async def test_recorded_specs_are_loaded_beside_the_loop(
    world: WebWorld, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return load_documents(*args)

    monkeypatch.setattr(revising, "load_documents", noted)
    await look(root, "/admin/plan")
    assert threads
    assert threading.current_thread() not in threads
