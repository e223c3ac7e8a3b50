"""What a pass stores rests on the row as it was read, whoever else writes in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.coordinator.rhythm import Look
from codehub.model.states import DesiredState, Phase
from tests.coordination.hub import HubWorld, Term, hub_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[HubWorld]:
    async with hub_world(database_url, tmp_path) as made:
        yield made


async def _delete(world: HubWorld, term: Term) -> None:
    await term.settle()
    await world.want("api", DesiredState.DELETED)
    await term.settle()


async def test_an_undelete_that_comes_after_the_purge_changes_nothing(world: HubWorld) -> None:
    async with world.term() as term:
        await _delete(world, term)
        await world.conn.execute("UPDATE workspaces SET desired_state = 'RUNNING'")
        cases, now = await term.controller._lookout.look(Look.FULL, ())
        await world.conn.execute("UPDATE workspaces SET purged_at = now()")
        await term.controller._see_to(cases, now)
    row = await (await world.conn.execute("SELECT * FROM workspaces")).fetchone()
    assert row is not None
    assert row["phase"] == Phase.DELETED
    assert row["purged_at"] is not None
    assert term.failures.counts == {}
