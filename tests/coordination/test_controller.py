"""What the controller makes of declared workspaces, end to end but for real processes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from codehub.coordinator import controller as module
from codehub.coordinator import observe as observing
from codehub.coordinator import sense as sensing
from codehub.coordinator.hints import Hints
from codehub.coordinator.observe import observe
from codehub.coordinator.rhythm import Look, Rhythm
from codehub.coordinator.sense import Sense
from codehub.errors import ActionFailed, FenceLost, Unreachable
from codehub.model.runtime import VolumeRef
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.model.workspace import Runtime
from codehub.store.fence import take_epoch
from codehub.store.status import save
from tests.contract.runtime_world import eventually
from tests.coordination.fast_runtime import FastRuntime
from tests.coordination.hub import HubWorld, hub_world
from tests.integration.stored import versions
from tests.make import declaration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from codehub.model.runtime import Listing

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[HubWorld]:
    async with hub_world(database_url, tmp_path) as made:
        yield made


def machine(world: HubWorld) -> FastRuntime:
    assert isinstance(world.runtime, FastRuntime)
    return world.runtime


async def test_a_declared_workspace_comes_to_run(world: HubWorld) -> None:
    async with world.term() as term:
        await term.settle()
    api = await world.look()
    assert api.status.phase is Phase.RUNNING
    assert api.status.home_store_key == VolumeRef(api.id, 1).name
    assert api.status.operation is Operation.NONE
    assert term.failures.counts == {}


async def test_a_home_makes_the_full_circle(world: HubWorld) -> None:
    async with world.term() as term:
        await term.settle()
        api = await world.id_of()
        (machine(world).path(VolumeRef(api, 1)) / "notes.txt").write_text("mine")
        await world.want("api", DesiredState.ARCHIVED)
        await term.settle()
        archived = await world.look()
        assert archived.status.phase is Phase.ARCHIVED
        assert list(machine(world).root.iterdir()) == []
        await world.want("api", DesiredState.RUNNING)
        await term.settle()
    assert (await world.look()).status.phase is Phase.RUNNING
    assert (machine(world).path(VolumeRef(api, 2)) / "notes.txt").read_text() == "mine"
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
    machine(world).failing[await world.id_of()] = (
        "the command ended with exit code 3: no such table"
    )
    async with world.term() as term:
        await term.settle()
        await term.settle()
    api = await world.look()
    assert api.status.phase is Phase.ERROR
    assert api.status.error_reason is ErrorReason.RETRY_EXCEEDED
    assert "no such table" in (api.status.error_message or "")
    assert machine(world).containers == {}, "what the failed start left is ended"
    assert machine(world).path(VolumeRef(api.id, 1)).is_dir(), "the home stays"


async def test_a_runtime_that_gives_no_answer_loses_nobody(world: HubWorld) -> None:
    async with world.term() as term:
        await term.settle()
        machine(world).away = True
        await term.controller.tick()
        unknown = await world.look()
        machine(world).away = False
        await term.settle()
    assert unknown.status.phase is Phase.RUNNING
    assert (await world.look()).status.phase is Phase.RUNNING
    assert len(machine(world).starts) == 1


async def test_a_recovered_workspace_runs_again_and_is_never_in_error_without_a_reason(
    world: HubWorld,
) -> None:
    api = await world.id_of()
    machine(world).failing[api] = "broken"
    async with world.term() as term:
        await term.settle()
        machine(world).failing.clear()
        await world.conn.execute("UPDATE workspaces SET recover_requested = 'plain'")
        await term.controller.tick()
        recovered = await world.look()
        await term.settle()
    assert recovered.status.phase is Phase.STANDBY
    assert recovered.intent.recover_requested is None
    assert (await world.look()).status.phase is Phase.RUNNING


# Passes


async def test_a_pass_over_what_rests_writes_nothing(world: HubWorld) -> None:
    await world.declare(*(declaration(f"w{number}") for number in range(5)))
    async with world.term() as term:
        await term.settle()
        before = await versions(world.conn, "workspaces", "workspace_events")
        for look in Look:
            await term.controller.tick(look)
        assert await versions(world.conn, "workspaces", "workspace_events") == before
    async with world.term() as term:
        await term.controller.tick()
    assert await versions(world.conn, "workspaces", "workspace_events") == before


async def test_what_rested_is_looked_at_again_when_its_row_or_the_world_changes(
    world: HubWorld,
) -> None:
    async with world.term() as term:
        await term.settle()
        api = await world.id_of()
        machine(world).crash(api)
        await term.controller.tick()
        assert (await world.look()).status.error_count == 1
        await term.settle()
        await world.want("api", DesiredState.STANDBY)
        await term.settle()
    assert (await world.look()).status.phase is Phase.STANDBY


async def test_time_alone_ends_an_override(world: HubWorld) -> None:
    """Neither the row nor the world changes: it must not count as at rest."""
    async with world.term() as term:
        await term.settle()
        await world.conn.execute(
            "UPDATE workspaces SET override_state = 'STANDBY', override_reason = 'a pause',"
            " override_until = now() + interval '1 hour'"
        )
        await term.settle()
        assert (await world.look()).status.phase is Phase.STANDBY
        await world.conn.execute(
            "UPDATE workspaces SET override_until = clock_timestamp() + interval '30 milliseconds'"
        )
        await term.controller.tick()

        async def runs() -> bool:
            await term.settle()
            return (await world.look()).status.phase is Phase.RUNNING

        await eventually(runs, "it runs again")


async def test_hints_and_time_move_it_without_anybody_calling(world: HubWorld) -> None:
    async with world.term(rhythm=Rhythm(0.5, 0.02, 5.0)) as term:
        running = asyncio.create_task(term.controller.run())
        await eventually(partial(is_in, world, Phase.RUNNING), "it runs")
        await world.want("api", DesiredState.ARCHIVED)
        term.hints.tell(await world.id_of())
        await eventually(partial(is_in, world, Phase.ARCHIVED), "it is archived")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert term.failures.counts == {}
        assert not term.acts.busy


async def is_in(world: HubWorld, phase: Phase) -> bool:
    status = (await world.look()).status
    return status.phase is phase and status.operation is Operation.NONE


async def test_a_controller_that_leads_no_more_ends(world: HubWorld) -> None:
    async with world.term() as term:
        await take_epoch(world.conn, "coordinator", "another")
        with pytest.raises(FenceLost):
            async with asyncio.timeout(60):
                await term.controller.run()
    assert machine(world).containers == {}


async def test_one_that_cannot_be_judged_delays_no_other(world: HubWorld) -> None:
    await world.declare(declaration("api"), declaration("other"))
    await world.conn.execute(
        """UPDATE workspaces SET conditions = '{"nonsense": {}}' WHERE name = 'api'"""
    )
    async with world.term() as term:
        for _ in range(4):
            await term.controller.tick()
            await term.acts.quiet()
        assert (await world.look("other")).status.phase is Phase.RUNNING
        assert set(term.failures.counts) == {"controller (api)"}


async def test_one_that_cannot_be_stored_delays_no_other(
    world: HubWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.declare(declaration("api"), declaration("other"))
    api = await world.id_of()

    async def save_others(conn: Any, fence: Any, write: Any, idleness: Any) -> bool:
        if write.seen.id == api:
            raise Unreachable("the connection broke")
        return await save(conn, fence, write, idleness)

    monkeypatch.setattr(module, "save", save_others)
    async with world.term() as term:
        for _ in range(4):
            await term.controller.tick()
            await term.acts.quiet()
        assert (await world.look("other")).status.phase is Phase.RUNNING
        assert (await world.look()).status.phase is Phase.PENDING
        assert set(term.failures.counts) == {"controller (api)"}


async def test_what_somebody_asked_for_meanwhile_is_not_overrun(
    world: HubWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading and claiming, somebody wants it archived: nothing is provisioned."""

    async def save_late(conn: Any, fence: Any, write: Any, idleness: Any) -> bool:
        await world.want("api", DesiredState.ARCHIVED)
        return await save(conn, fence, write, idleness)

    async with world.term() as term:
        monkeypatch.setattr(module, "save", save_late)
        await term.controller.tick()
        assert (await world.look()).status.operation is Operation.NONE
        assert not term.acts.busy
        monkeypatch.undo()
        await term.settle()
    assert (await world.look()).status.phase is Phase.ARCHIVED
    assert list(machine(world).root.iterdir()) == []


class Watched(FastRuntime):
    """Lets something happen after a listing was taken and before it is looked at."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def list(self) -> Listing:
        listing = await super().list()
        if self.meanwhile is not None:
            await self.meanwhile()
        return listing


async def test_an_act_that_ends_while_we_look_is_judged_by_the_next_look(
    world: HubWorld, tmp_path: Path
) -> None:
    """The listing is from before its effect: nothing follows from the two together."""
    runtime = Watched(tmp_path / "volumes")
    async with replace(world, runtime=runtime).term() as term:
        for _ in range(3):
            await term.controller.tick()
        runtime.meanwhile = term.acts.quiet
        for _ in range(4):
            await term.controller.tick()
        await term.settle()
    api = await world.look()
    assert (api.status.phase, api.status.error_count) == (Phase.RUNNING, 0)
    assert len(runtime.starts) == 1


async def test_a_new_leader_goes_on_with_what_it_finds_however_late_it_comes(
    world: HubWorld,
) -> None:
    async with world.term() as term:
        await term.controller.tick()
        await term.acts.close()
    claimed = await world.look()
    assert claimed.status.operation is Operation.PROVISIONING
    await world.conn.execute(
        "UPDATE workspaces SET op_started_at = now() - interval '2 days',"
        " observed_at = now() - interval '2 days'"
    )
    async with world.term() as term:
        await term.settle()
    assert (await world.look()).status.phase is Phase.RUNNING


# Looking


async def test_a_runtime_that_fails_in_any_way_is_unknown_and_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "PATIENCE", 0.05)
    good, api = FastRuntime(tmp_path), uuid4()
    (tmp_path / VolumeRef(api, 1).name).mkdir()
    for fault, why in {
        Unreachable("the engine gives no answer"): "the engine gives no answer",
        ActionFailed("no access"): "the runtime cannot be listed: no access",
        KeyError("Labels"): "the runtime cannot be listed: unexpected KeyError",
        TimeoutError(): "the runtime did not answer within 0 s",
    }.items():
        seen = await observe({Runtime.PROCESS: good, Runtime.DOCKER: Failing(tmp_path, fault)})
        assert seen.unknown == {Runtime.DOCKER: why}
        assert set(seen.things[Runtime.PROCESS]) == {api}
    seen = await observe({Runtime.PROCESS: good, Runtime.DOCKER: Failing(tmp_path, None)})
    assert seen.unknown == {Runtime.DOCKER: "the runtime did not answer within 0 s"}


class Failing(FastRuntime):
    """Every listing ends so; without an error it never ends."""

    def __init__(self, root: Path, error: Exception | None) -> None:
        super().__init__(root)
        self._error = error

    async def list(self) -> Listing:
        if self._error is None:
            await asyncio.Event().wait()
        else:
            raise self._error
        raise AssertionError


async def test_events_of_a_runtime_are_hints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensing, "AGAIN", 0.01)
    hints, runtime = Hints(), Chatty(tmp_path)
    listening = asyncio.create_task(Sense("process", runtime, hints).run())
    told: set[UUID] = set()

    async def twice() -> bool:
        taken = hints.take()
        told.update(taken.ids)
        return runtime.opened >= 2 and UUID(int=1) in told

    await eventually(twice, "the stream is opened again after it broke")
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening


class Chatty(FastRuntime):
    """Its stream of events breaks after the first."""

    opened = 0

    async def events(self) -> AsyncIterator[UUID]:
        self.opened += 1
        yield UUID(int=1)
        raise Unreachable("the stream broke")
