"""While a start waits for an image, the row tells how far it is, and the time limit waits too."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from codehub.coordinator.pulls import Pulls
from codehub.model.states import Operation, Phase
from tests.coordination.held import HeldRuntime
from tests.coordination.hub import hub_world

if TYPE_CHECKING:
    from pathlib import Path

    from tests.coordination.hub import HubWorld

pytestmark = pytest.mark.anyio


async def test_the_progress_of_a_pull_is_in_the_row(database_url: str, tmp_path: Path) -> None:
    async with hub_world(database_url, tmp_path) as world:
        runtime = HeldRuntime(tmp_path / "volumes")
        runtime.starting.shut()
        async with replace(world, runtime=runtime).term() as term:
            while not runtime.starting.inside:
                await term.controller.tick()
                await asyncio.sleep(0)
            term.pulls.tell(await world.id_of(), {"stage": "pull", "bytes": 512, "total": 2048})
            told = await until_told(world)
            assert {key: told[key] for key in ("stage", "bytes", "total")} == {
                "stage": "pull",
                "bytes": 512,
                "total": 2048,
            }
            runtime.starting.open()
            await term.settle()
        assert (await world.look()).status.phase is Phase.RUNNING


async def until_told(world: HubWorld) -> dict[str, object]:
    async with asyncio.timeout(60):
        while True:
            status = (await world.look()).status
            assert status.operation is Operation.STARTING
            if "stage" in status.op_progress:
                return dict(status.op_progress)
            await asyncio.sleep(0.05)


def test_each_hears_of_its_own_and_only_while_it_listens() -> None:
    pulls, one, other = Pulls(), uuid4(), uuid4()
    heard: list[object] = []
    with pulls.heard(one, heard.append):
        pulls.tell(one, {"bytes": 1})
        pulls.tell(other, {"bytes": 2})
    pulls.tell(one, {"bytes": 3})
    assert heard == [{"bytes": 1}]
