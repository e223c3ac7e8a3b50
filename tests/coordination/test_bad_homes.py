"""What goes wrong with homes: gone, out of sight, in use, or in the way of a deletion."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codehub.core.advise import advise
from codehub.core.keys import marker_key
from codehub.errors import Refused
from codehub.model.conditions import ConditionName, ConditionStatus
from codehub.model.runtime import ContainerSeen, VolumeRef
from codehub.model.states import (
    DesiredState,
    ErrorReason,
    IntentSource,
    Operation,
    Phase,
    RecoverMode,
)
from codehub.service.intent import request_discard
from codehub.store.workspaces import read_workspaces
from tests.coordination.fast_runtime import FastRuntime
from tests.coordination.held import HeldMover
from tests.coordination.hub import HubWorld, hub_world
from tests.coordination.machine import Machine, declared, machine, swapped, volume

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from codehub.model.workspace import Workspace
    from tests.coordination.hub import Term


pytestmark = pytest.mark.anyio

ARCHIVED, STANDBY, RUNNING = DesiredState.ARCHIVED, DesiredState.STANDBY, DesiredState.RUNNING


@pytest.fixture
async def hub(database_url: str, tmp_path: Path) -> AsyncIterator[Machine]:
    async with machine(database_url, tmp_path) as made:
        yield made


# A home that is gone


async def test_a_home_that_was_removed_by_hand_is_never_replaced_silently(hub: Machine) -> None:
    async with hub.world.term() as term:
        api = await hub.housed(term)
        shutil.rmtree(hub.home(api))
        await hub.world.want("api", RUNNING)
        await term.settle()
        lost = await hub.look()
        assert (lost.status.phase, lost.status.error_reason) == (
            Phase.ERROR,
            ErrorReason.DATA_LOST,
        )
        assert lost.status.error_message == f"the volume {volume(api, 1)} is gone"
        assert advise(lost) == (
            "look for the missing volume first; then choose 'codehub recover api --accept-empty'"
        )
        assert hub.homes() == []
        with pytest.raises(Refused, match="a plain recovery cannot bring it back"):
            await hub.recover()
        with pytest.raises(Refused, match="has no archive to recover from"):
            await hub.recover(RecoverMode.FROM_ARCHIVE)
        empty = await hub.recovered(term, RecoverMode.ACCEPT_EMPTY)
        assert empty.status.phase is Phase.RUNNING
        assert empty.status.home_store_key == volume(api, 2)
        assert list(hub.home(empty).iterdir()) == []


async def test_a_lost_home_comes_back_from_the_archive_when_a_person_says_so(
    hub: Machine,
) -> None:
    async with hub.world.term() as term:
        await hub.packed(term, b"as it was")
        api = await hub.wanted(term, STANDBY)
        (hub.home(api) / "notes.txt").write_text("newer than the archive")
        shutil.rmtree(hub.home(api))
        await term.settle()
        lost = await hub.look()
        assert lost.status.error_reason is ErrorReason.DATA_LOST
        assert advise(lost) == (
            "look for the missing volume first; then choose 'codehub recover api "
            "--from-archive' or 'codehub recover api --accept-empty'"
        )
        back = await hub.recovered(term, RecoverMode.FROM_ARCHIVE)
        assert back.status.phase is Phase.STANDBY
        assert hub.notes(back) == b"as it was"


async def test_a_home_that_was_found_again_is_taken_whatever_was_asked_for(hub: Machine) -> None:
    async with hub.world.term() as term:
        api = await hub.housed(term)
        hub.home(api).rename(hub.path / "hidden")
        await term.settle()
        lost = await hub.look()
        assert lost.status.error_reason is ErrorReason.DATA_LOST
        (hub.path / "hidden").rename(hub.home(lost))
        found = await hub.recovered(term, RecoverMode.ACCEPT_EMPTY)
        assert found.status.phase is Phase.STANDBY
        assert hub.notes(found) == b"mine"


async def test_a_home_that_goes_under_a_running_workspace(hub: Machine) -> None:
    await hub.world.declare(declared())
    async with hub.world.term() as term:
        await term.settle()
        api = await hub.look()
        shutil.rmtree(hub.home(api))
        await term.settle()
        lost = await hub.look()
        assert lost.status.error_reason is ErrorReason.DATA_LOST
        assert hub.pid(lost) is not None, "what still runs may hold the last of it"
        empty = await hub.recovered(term, RecoverMode.ACCEPT_EMPTY)
        await term.settle()
        assert empty.status.phase is Phase.RUNNING
        assert hub.homes() == [volume(api, 2)]


# The data root


@contextmanager
def root_away(hub: Machine, how: str) -> Iterator[None]:
    if how == "unmounted":
        with swapped(hub.data):
            hub.data.mkdir()
            yield
    else:
        with swapped(hub.data / "codehub-root.json"):
            (hub.data / "codehub-root.json").write_text('{"hub": "another"}')
            yield


@pytest.mark.parametrize(
    ("how", "why"),
    [("unmounted", "it carries no marker"), ("swapped", "belongs to another hub")],
)
async def test_a_data_root_that_is_away_loses_nobody(hub: Machine, how: str, why: str) -> None:
    await hub.world.declare(declared("api"), declared("other"))
    await hub.world.want("other", STANDBY)
    async with hub.world.term() as term:
        await term.settle()
        before = await hub.look()
        pid = hub.pid(before)
        with root_away(hub, how):
            await hub.world.want("other", ARCHIVED)
            for _ in range(4):
                await term.controller.tick()
                await term.acts.quiet()
            blind, asleep = await hub.look(), await hub.look("other")
            assert (blind.status.phase, blind.status.operation) == (Phase.RUNNING, Operation.NONE)
            assert (asleep.status.phase, asleep.status.operation) == (
                Phase.STANDBY,
                Operation.NONE,
            )
            assert (blind.status.error_reason, blind.status.error_count) == (None, 0)
            for name in (ConditionName.CONTAINER_READY, ConditionName.VOLUME_READY):
                condition = blind.status.conditions[name]
                assert condition.status is ConditionStatus.UNKNOWN
                assert why in condition.message
        await term.settle()
        after = await hub.look()
        assert (after.status.phase, hub.pid(after)) == (Phase.RUNNING, pid), "not restarted"
        assert (await hub.look("other")).status.phase is Phase.ARCHIVED
        assert term.failures.counts == {}


async def test_a_new_leader_on_an_unmounted_data_root_touches_nothing(hub: Machine) -> None:
    await hub.world.declare(declared())
    async with hub.world.term() as term:
        await term.settle()
        pid = hub.pid(await hub.look())
    with root_away(hub, "unmounted"):
        async with hub.world.term() as term:
            for _ in range(3):
                await term.controller.tick()
        assert list(hub.data.iterdir()) == []
    async with hub.world.term() as term:
        await term.settle()
    after = await hub.look()
    assert (after.status.phase, hub.pid(after)) == (Phase.RUNNING, pid)


# Deletion


async def test_a_broken_workspace_is_deleted_with_an_archive_of_its_home(hub: Machine) -> None:
    await hub.world.declare(declared(command=("nothing-like-that",)))
    async with hub.world.term() as term:
        await term.settle()
        api = await hub.look()
        (hub.home(api) / "notes.txt").write_text("mine")
        await hub.world.declare(declared("other"))
        await term.settle()
        gone = next(each for each in await read_workspaces(hub.world.conn) if each.id == api.id)
        assert gone.status.phase is Phase.DELETED
        assert hub.stored(gone).is_file()


async def failed_deletion(hub: Machine, term: Term) -> tuple[Workspace, Path]:
    """In ERROR, then removed from the specs, while the store does not take its archive."""
    await hub.world.declare(declared(command=("nothing-like-that",)))
    await term.settle()
    api = await hub.look()
    (hub.home(api) / "notes.txt").write_text("mine")
    obstacle = hub.archives / marker_key(term.lead.hub_id).rpartition("/")[0] / str(api.id)
    obstacle.write_text("something else lies here")
    await hub.world.declare(declared("other"))
    await term.settle()
    return await hub.look(), obstacle


async def test_a_home_that_cannot_be_archived_survives_its_deletion(hub: Machine) -> None:
    async with hub.world.term() as term:
        stuck, obstacle = await failed_deletion(hub, term)
        assert (stuck.status.phase, stuck.status.error_reason) == (
            Phase.ERROR,
            ErrorReason.RETRY_EXCEEDED,
        )
        assert hub.notes(stuck) == b"mine"
        assert advise(stuck) == (
            "its home could not be archived; 'codehub recover api' tries again, and an admin may "
            "give it up with 'codehub delete api --discard-data'"
        )
        await term.settle()
        assert await hub.look() == stuck, "it is left in peace"
        obstacle.unlink()
        await hub.recover()
        await term.settle()
        rows = {each.id: each for each in await read_workspaces(hub.world.conn)}
        assert rows[stuck.id].status.phase is Phase.DELETED
        assert hub.stored(rows[stuck.id]).is_file()


async def test_only_an_admin_gives_a_home_up(hub: Machine) -> None:
    async with hub.world.term() as term:
        stuck, _ = await failed_deletion(hub, term)
        with pytest.raises(Refused, match="only an admin"):
            await request_discard(
                hub.world.conn, "api", by="alice", source=IntentSource.CLI, admin=False
            )
        await request_discard(hub.world.conn, "api", by="root", source=IntentSource.CLI, admin=True)
        await term.settle()
        rows = {each.id: each for each in await read_workspaces(hub.world.conn)}
        gone = rows[stuck.id]
        assert (gone.status.phase, gone.status.archive_key) == (Phase.DELETED, None)
        assert gone.intent.recover_requested is None
        assert volume(stuck, 1) not in hub.homes()


# A home in use


async def test_a_home_that_is_used_while_it_is_archived_is_archived_again(
    database_url: str, tmp_path: Path
) -> None:
    """A late start of a dead leader: what it writes would be missing in the archive."""
    async with hub_world(database_url, tmp_path) as made:
        mover = HeldMover(made.store)
        world: HubWorld = replace(made, mover=mover)
        assert isinstance(world.runtime, FastRuntime)
        async with world.term() as term:
            await term.settle()
            await world.want("api", STANDBY)
            await term.settle()
            mover.gate.shut()
            await world.want("api", ARCHIVED)
            while not mover.gate.inside:
                await term.controller.tick()
                await asyncio.sleep(0.005)
            api = await world.look()
            home = VolumeRef(api.id, 1)
            world.runtime.containers[api.id] = ContainerSeen(api.id, running=True, volume=home.name)
            (world.runtime.path(home) / "late.txt").write_text("written meanwhile")
            mover.gate.open()
            await term.acts.quiet()
            await term.controller.tick()
            failed = await world.look()
            assert failed.status.error_message == (
                "a container used the home while it was archived; nothing was removed"
            )
            assert (failed.status.home_store_key, failed.status.archive_key) == (home.name, None)
            await term.settle()
            assert (await world.look()).status.phase is Phase.ARCHIVED
            await world.want("api", STANDBY)
            await term.settle()
        assert (world.runtime.path(VolumeRef(api.id, 2)) / "late.txt").is_file()
