"""What `codehub up` says first after a crash: what a leader found, not what was stored before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from codehub.cli.narrating import Narrator, introduce
from codehub.service.following import begin
from codehub.store.connect import connect
from tests.coordination.fast_runtime import FastRuntime
from tests.coordination.hub import hub_world
from tests.make import declaration

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_what_died_with_the_last_hub_is_not_said_to_run(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, looked = asyncio.get_running_loop().time, asyncio.Event()
    async with hub_world(database_url, tmp_path) as world, await connect(database_url) as conn:
        await world.declare(declaration("dead"), declaration("well"))
        async with world.term() as before:
            await before.settle()
        assert isinstance(world.runtime, FastRuntime)
        world.runtime.crash(await world.id_of("dead"))

        follower = await begin(conn, None, clock)
        async with world.term(on_pass=looked.set) as term:
            telling = asyncio.create_task(introduce(conn, follower, Narrator(8080), looked))
            await term.controller.tick()
            await telling

    said = [line[10:] for line in capsys.readouterr().out.splitlines()]
    assert [line.split() for line in said if line.startswith("well")] == [
        ["well", "RUNNING", "http://localhost:8080/w/well/"]
    ]
    dead = [line.split()[1] for line in said if line.startswith("dead")]
    assert dead[0] == "ActionFailed:", "as it happened, and not where it was"
    assert "RUNNING" not in dead
