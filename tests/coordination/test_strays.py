"""What belongs to nothing is removed; what may be all that is left never is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from codehub.model.conditions import ConditionName, ConditionStatus
from codehub.model.events import EventKind
from codehub.model.runtime import ContainerSeen, VolumeRef
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.store.events import events
from codehub.store.workspaces import read_workspaces
from tests.coordination.fast_runtime import FastRuntime
from tests.coordination.hub import HubWorld, Term, hub_world
from tests.make import declaration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from codehub.model.workspace import Workspace

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[HubWorld]:
    async with hub_world(database_url, tmp_path) as made:
        yield made


def machine(world: HubWorld) -> FastRuntime:
    assert isinstance(world.runtime, FastRuntime)
    return world.runtime


def volumes(world: HubWorld) -> list[str]:
    return sorted(path.name for path in machine(world).root.iterdir())


def add_volume(world: HubWorld, workspace_id: UUID, generation: int) -> str:
    ref = VolumeRef(workspace_id, generation)
    (machine(world).root / ref.name).mkdir()
    (machine(world).root / ref.name / "work.txt").write_text(f"of generation {generation}")
    return ref.name


async def circled(world: HubWorld, term: Term) -> Workspace:
    """It went to the archive and back: its home is the second generation."""
    for state in (DesiredState.RUNNING, DesiredState.ARCHIVED, DesiredState.RUNNING):
        await world.want("api", state)
        await term.settle()
    found = await world.look()
    assert found.status.home_generation == 2
    return found


async def test_a_volume_of_the_past_is_removed_at_rest(world: HubWorld) -> None:
    async with world.term() as term:
        api = await circled(world, term)
        add_volume(world, api.id, 1)
        await term.settle()
        assert volumes(world) == [VolumeRef(api.id, 2).name]
        assert term.failures.counts == {}
    assert len(machine(world).containers) == 1, "and nobody is disturbed by it"
    assert len(machine(world).starts) == 2


async def told(world: HubWorld) -> list[tuple[str, str, str]]:
    """Of which strays the audit tells."""
    found = [each for each in await events(world.conn) if each.kind is EventKind.STRAY]
    return [(each.old, each.new, each.source) for each in found]


async def test_a_stray_that_goes_is_told_of(world: HubWorld) -> None:
    async with world.term() as term:
        api = await circled(world, term)
        assert await told(world) == [], "a home that was archived is no stray"
        old = add_volume(world, api.id, 1)
        await term.settle()
        assert await told(world) == [(old, "removed", "controller")]
        assert (await events(world.conn))[-1].workspace == "api"
        add_volume(world, api.id, 1)
        await term.settle()
        assert volumes(world) == [VolumeRef(api.id, 2).name]
        assert await told(world) == [(old, "removed", "controller")] * 2, "each time that it goes"


async def test_a_stray_that_cannot_go_is_told_of_once(world: HubWorld) -> None:
    async with world.term() as term:
        api = await circled(world, term)
        old = add_volume(world, api.id, 1)
        machine(world).strangers[old] = "borrower"
        for _ in range(3):
            await term.pass_once()
        assert old in volumes(world)
        assert len(await told(world)) == 1
        machine(world).strangers.clear()
        await term.settle()
        assert old not in volumes(world)
        assert len(await told(world)) == 1


async def test_a_home_that_is_given_up_with_its_workspace_is_told_of(world: HubWorld) -> None:
    """It goes without an archive, so that nothing else says what became of it."""
    async with world.term() as term:
        api = await circled(world, term)
        home = VolumeRef(api.id, 2).name
        machine(world).strangers[home] = "borrower"
        await world.declare(declaration("other"))
        for _ in range(20):
            await term.pass_once()
        assert (await world.look()).status.error_reason is ErrorReason.RETRY_EXCEEDED
        assert await told(world) == []
        machine(world).strangers.clear()
        await world.conn.execute(
            "UPDATE workspaces SET recover_requested = 'discard-data' WHERE id = %s", (api.id,)
        )
        await term.settle()
    assert home not in volumes(world)
    assert await told(world) == [(home, "removed", "controller")]


async def test_a_leader_that_was_replaced_removes_no_stray(world: HubWorld) -> None:
    async with world.term() as old_term:
        api = await circled(world, old_term)
        old = add_volume(world, api.id, 1)
        async with world.term() as new_term:
            await old_term.pass_once()
            assert old in volumes(world)
            assert await told(world) == []
            await new_term.settle()
    assert old not in volumes(world)
    assert len(await told(world)) == 1


async def test_a_generation_that_the_database_never_gave_out_is_kept(world: HubWorld) -> None:
    """The database came back from a backup; the volume holds what was done since."""
    async with world.term() as term:
        api = await circled(world, term)
        newer = add_volume(world, api.id, 3)
        await term.settle()
        await world.want("api", DesiredState.ARCHIVED)
        await term.settle()
        assert volumes(world) == [newer]
        assert (await world.look()).status.phase is Phase.ARCHIVED
        await world.want("api", DesiredState.DELETED)
        await term.settle()
    assert volumes(world) == [newer]


async def test_a_late_start_of_a_dead_leader_is_ended(world: HubWorld) -> None:
    """It mounts a home that was retired since: what is typed there would be lost."""
    async with world.term() as term:
        api = await circled(world, term)
        await world.want("api", DesiredState.STANDBY)
        await term.settle()
        old = add_volume(world, api.id, 1)
        machine(world).containers[api.id] = ContainerSeen(
            api.id, running=True, op_id=uuid4(), volume=old
        )
        await term.settle()
    assert machine(world).containers == {}
    assert volumes(world) == [VolumeRef(api.id, 2).name]
    found = await world.look()
    assert (found.status.phase, found.status.error_count) == (Phase.STANDBY, 0)


async def test_a_stray_container_is_ended_before_the_real_one_starts(world: HubWorld) -> None:
    async with world.term() as term:
        api = await circled(world, term)
        await world.want("api", DesiredState.STANDBY)
        await term.settle()
        old = add_volume(world, api.id, 1)
        machine(world).containers[api.id] = ContainerSeen(
            api.id, running=True, op_id=uuid4(), volume=old
        )
        await world.want("api", DesiredState.RUNNING)
        await term.settle()
        assert machine(world).containers[api.id].volume == VolumeRef(api.id, 2).name
        await term.settle()
    assert volumes(world) == [VolumeRef(api.id, 2).name]
    assert (await world.look()).status.error_count == 0


async def test_what_nobody_knows_is_not_ours_to_remove(world: HubWorld) -> None:
    """A workspace that this database has never heard of: restored from a backup, perhaps."""
    async with world.term() as term:
        await term.settle()
        unknown = uuid4()
        kept = add_volume(world, unknown, 1)
        machine(world).containers[unknown] = ContainerSeen(unknown, running=True, volume=kept)
        await term.settle()
    assert kept in volumes(world)
    assert unknown in machine(world).containers


async def test_after_a_loss_nothing_is_tidied_away(world: HubWorld) -> None:
    """The home is gone; an older volume may be the best there is."""
    async with world.term() as term:
        api = await circled(world, term)
        await world.want("api", DesiredState.STANDBY)
        await term.settle()
        older = add_volume(world, api.id, 1)
        home = machine(world).root / VolumeRef(api.id, 2).name
        home.rename(machine(world).root.parent / "hidden")
        await term.settle()
        lost = await world.look()
        assert lost.status.error_reason is ErrorReason.DATA_LOST
        assert volumes(world) == [older]
        (machine(world).root.parent / "hidden").rename(home)
        await world.conn.execute("UPDATE workspaces SET recover_requested = 'plain'")
        await term.settle()
    assert (await world.look()).status.phase is Phase.STANDBY
    assert volumes(world) == [VolumeRef(api.id, 2).name], "nothing is in doubt any more"


async def test_suspended_means_untouched(world: HubWorld) -> None:
    async with world.term() as term:
        api = await circled(world, term)
        await world.declare(declaration(suspend=True))
        older = add_volume(world, api.id, 1)
        await term.settle()
        assert older in volumes(world)
        await world.declare(declaration())
        await term.settle()
    assert older not in volumes(world)


async def test_what_appears_after_a_deletion_is_removed(world: HubWorld) -> None:
    async with world.term() as term:
        api = await circled(world, term)
        await world.declare(declaration("other"))
        await term.settle()
        late = add_volume(world, api.id, 2)
        await term.settle()
        assert late not in volumes(world)
        rows = {each.id: each.status for each in await read_workspaces(world.conn)}
    assert rows[api.id].phase is Phase.DELETED


async def test_a_workspace_comes_back_only_when_its_past_is_gone(world: HubWorld) -> None:
    """An old volume must not meet the one that is restored."""
    async with world.term() as term:
        api = await circled(world, term)
        await world.declare(declaration("other"))
        await term.settle()
        late = add_volume(world, api.id, 2)
        await world.conn.execute(
            "UPDATE workspaces SET desired_state = 'RUNNING' WHERE id = %s", (api.id,)
        )
        await term.settle()
        assert late not in volumes(world)
        rows = {each.id: each.status for each in await read_workspaces(world.conn)}
    assert rows[api.id].phase is Phase.RUNNING
    assert rows[api.id].home_store_key == VolumeRef(api.id, 3).name


async def test_a_volume_that_a_failed_restore_left_goes_with_the_next_try(world: HubWorld) -> None:
    async with world.term() as term:
        api = await circled(world, term)
        await world.want("api", DesiredState.ARCHIVED)
        await term.settle()
    await world.want("api", DesiredState.RUNNING)
    async with world.term() as term:
        await term.controller.tick()
        claimed = await world.look()
        assert claimed.status.operation is Operation.RESTORING
    # The leader died with half a home on the disk.
    half = machine(world).root / VolumeRef(api.id, 3).name
    half.mkdir(exist_ok=True)
    (half / "half.txt").write_text("not all of it")
    async with world.term() as term:
        await term.settle()
    assert volumes(world) == [VolumeRef(api.id, 4).name]
    assert not (machine(world).root / VolumeRef(api.id, 4).name / "half.txt").exists()


async def test_a_container_without_a_known_volume_is_an_error_and_stays(world: HubWorld) -> None:
    """There is no home, and something of it runs: a person must look, and nothing is removed."""
    await world.want("api", DesiredState.STANDBY)
    api = await world.id_of()
    machine(world).containers[api] = ContainerSeen(api, running=True)
    async with world.term() as term:
        await term.settle()
        found = await world.look()
        assert found.status.error_reason is ErrorReason.CONTAINER_WITHOUT_VOLUME
        assert found.status.conditions[ConditionName.HEALTHY].status is ConditionStatus.FALSE
        assert api in machine(world).containers
        machine(world).containers.clear()
        await world.conn.execute("UPDATE workspaces SET recover_requested = 'plain'")
        await term.settle()
    assert (await world.look()).status.phase is Phase.STANDBY


async def test_the_container_goes_before_the_volume_it_stands_on(world: HubWorld) -> None:
    async with world.term() as term:
        api = await circled(world, term)
        await world.want("api", DesiredState.STANDBY)
        await term.settle()
        old = add_volume(world, api.id, 1)
        machine(world).containers[api.id] = ContainerSeen(
            api.id, running=True, op_id=uuid4(), volume=old
        )
        await term.controller.tick()
        await term.acts.quiet()
        assert machine(world).containers == {}
        assert old not in volumes(world), "in one act: the machine refuses what is in use"
