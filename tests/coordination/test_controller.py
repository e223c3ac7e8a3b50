"""What the controller makes of declared workspaces, end to end but for real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codehub.model.runtime import VolumeRef
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from tests.coordination.fast_runtime import FastRuntime
from tests.coordination.hub import HubWorld, hub_world
from tests.make import declaration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[HubWorld]:
    async with hub_world(database_url, tmp_path) as made:
        yield made


async def test_a_declared_workspace_comes_to_run(world: HubWorld) -> None:
    async with world.term() as term:
        await term.settle()
    api = await world.look()
    assert api.status.phase is Phase.RUNNING
    assert api.status.home_store_key == VolumeRef(api.id, 1).name
    assert api.status.operation is Operation.NONE
    assert term.failures.counts == {}


async def test_a_home_makes_the_full_circle(world: HubWorld) -> None:
    assert isinstance(world.runtime, FastRuntime)
    async with world.term() as term:
        await term.settle()
        api = await world.id_of()
        (world.runtime.path(VolumeRef(api, 1)) / "notes.txt").write_text("mine")
        await world.want("api", DesiredState.ARCHIVED)
        await term.settle()
        archived = await world.look()
        assert archived.status.phase is Phase.ARCHIVED
        assert list(world.runtime.root.iterdir()) == []
        await world.want("api", DesiredState.RUNNING)
        await term.settle()
    assert (await world.look()).status.phase is Phase.RUNNING
    assert (world.runtime.path(VolumeRef(api, 2)) / "notes.txt").read_text() == "mine"
    assert term.failures.counts == {}


async def test_a_removed_spec_ends_in_a_kept_archive(world: HubWorld) -> None:
    async with world.term() as term:
        await term.settle()
        await world.declare(declaration("other"))
        await term.settle()
        rows = await (
            await world.conn.execute("SELECT phase, archive_key FROM workspaces WHERE name = 'api'")
        ).fetchall()
    assert [row["phase"] for row in rows] == [Phase.DELETED]
    assert world.store.head(rows[0]["archive_key"]) is not None


async def test_a_crash_loop_ends_in_error_with_its_last_words(world: HubWorld) -> None:
    assert isinstance(world.runtime, FastRuntime)
    world.runtime.failing[await world.id_of()] = "the command ended with exit code 3: no such table"
    async with world.term() as term:
        await term.settle()
        await term.settle()
    api = await world.look()
    assert api.status.phase is Phase.ERROR
    assert api.status.error_reason is ErrorReason.RETRY_EXCEEDED
    assert "no such table" in (api.status.error_message or "")
    assert world.runtime.containers == {}, "what the failed start left is ended"
    assert (world.runtime.path(VolumeRef(api.id, 1))).is_dir(), "the home stays"


async def test_a_runtime_that_gives_no_answer_loses_nobody(world: HubWorld) -> None:
    assert isinstance(world.runtime, FastRuntime)
    async with world.term() as term:
        await term.settle()
        world.runtime.away = True
        await term.controller.tick()
        unknown = await world.look()
        world.runtime.away = False
        await term.settle()
    assert unknown.status.phase is Phase.RUNNING
    assert (await world.look()).status.phase is Phase.RUNNING
    assert len(world.runtime.starts) == 1


async def test_a_recovered_workspace_runs_again_and_is_never_in_error_without_a_reason(
    world: HubWorld,
) -> None:
    assert isinstance(world.runtime, FastRuntime)
    api = await world.id_of()
    world.runtime.failing[api] = "broken"
    async with world.term() as term:
        await term.settle()
        world.runtime.failing.clear()
        await world.conn.execute("UPDATE workspaces SET recover_requested = 'plain'")
        await term.controller.tick()
        recovered = await world.look()
        await term.settle()
    assert recovered.status.phase is Phase.STANDBY
    assert recovered.intent.recover_requested is None
    assert (await world.look()).status.phase is Phase.RUNNING
