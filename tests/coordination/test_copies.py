"""Homes without a directory here: held by the engine while a job works, and let go of after it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from codehub.errors import ActionFailed, Unreachable
from codehub.model.runtime import EngineCopy
from codehub.model.states import DesiredState, ErrorReason, Phase
from tests.coordination.direct_mover import DirectMover
from tests.coordination.fast_runtime import FastRuntime, parse_volume
from tests.coordination.held import Gate
from tests.coordination.hub import hub_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from codehub.model.archive import ArchiveKey, ArchiveMeta, ArchiveSubject
    from codehub.model.runtime import VolumeRef
    from codehub.ports import ObjectStore
    from tests.coordination.hub import HubWorld, Term

pytestmark = pytest.mark.anyio

ARCHIVED, STANDBY = DesiredState.ARCHIVED, DesiredState.STANDBY


class RemoteRuntime(FastRuntime):
    """Gives out no paths. `held` are the volumes held for copying, `opened` all that ever were.

    `sticks` keeps a copy from being closed.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.held: set[str] = set()
        self.opened: list[str] = []
        self.sticks = False
        self.looking = Gate()

    async def volume_path(self, ref: VolumeRef) -> Path | None:
        await self.looking.passing()
        return None

    async def open_copy(self, ref: VolumeRef) -> EngineCopy:
        self._require_volume(ref)
        self.held.add(ref.name)
        self.opened.append(ref.name)
        return EngineCopy("tcp://engine", ref.name, "/h")

    async def close_copy(self, copy: EngineCopy) -> None:
        if self.sticks:
            raise Unreachable("the engine gives no answer")
        self.held.remove(copy.container)


class RemoteMover(DirectMover):
    """Reaches homes through copies alone, and only while they are held."""

    def __init__(self, store: ObjectStore, runtime: RemoteRuntime) -> None:
        super().__init__(store)
        self.gate = Gate()
        self.fails = False
        self._runtime = runtime

    async def archive(
        self,
        volume: Path | EngineCopy,
        key: ArchiveKey,
        subject: ArchiveSubject,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        await self.gate.passing()
        if self.fails:
            raise ActionFailed("the engine gave no complete copy of the home")
        return await super().archive(self._path(volume), key, subject, report)

    async def restore(
        self,
        volume: Path | EngineCopy,
        key: str,
        sha256: str | None,
        report: Callable[[Mapping[str, object]], None],
    ) -> ArchiveMeta:
        return await super().restore(self._path(volume), key, sha256, report)

    def _path(self, volume: Path | EngineCopy) -> Path:
        assert isinstance(volume, EngineCopy)
        assert volume.container in self._runtime.held
        return self._runtime.path(parse_volume(volume.container))


class Remote:
    """A hub with an engine far away, and one workspace with notes in its home."""

    def __init__(self, world: HubWorld, runtime: RemoteRuntime, mover: RemoteMover) -> None:
        self.world = world
        self.runtime = runtime
        self.mover = mover

    async def housed(self, term: Term) -> None:
        await term.settle()
        await self.wanted(term, STANDBY)
        (await self.home() / "notes").write_text("precious")

    async def wanted(self, term: Term, state: DesiredState) -> Phase:
        await self.world.want("api", state)
        await term.settle()
        return (await self.world.look()).status.phase

    async def archived_up_to(self, term: Term, gate: Gate) -> None:
        """Archiving has begun, and is held there."""
        gate.shut()
        await self.world.want("api", ARCHIVED)
        while not gate.inside:
            await term.controller.tick()
            await asyncio.sleep(0)

    async def home(self) -> Path:
        name = (await self.world.look()).status.home_store_key
        assert name is not None
        return self.runtime.path(parse_volume(name))


@pytest.fixture
async def hub(database_url: str, tmp_path: Path) -> AsyncIterator[Remote]:
    async with hub_world(database_url, tmp_path) as world:
        runtime = RemoteRuntime(tmp_path / "volumes")
        mover = RemoteMover(world.store, runtime)
        world.runtime, world.mover = runtime, mover
        yield Remote(world, runtime, mover)


async def test_a_home_goes_and_comes_back_through_copies(hub: Remote) -> None:
    async with hub.world.term() as term:
        await hub.housed(term)
        assert await hub.wanted(term, ARCHIVED) is Phase.ARCHIVED
        assert [*hub.runtime.root.iterdir()] == []
        assert await hub.wanted(term, STANDBY) is Phase.STANDBY
        assert (await hub.home() / "notes").read_text() == "precious"
    assert len(hub.runtime.opened) == 2
    assert hub.runtime.held == set()


async def test_a_job_that_fails_lets_go_of_the_home(hub: Remote) -> None:
    async with hub.world.term() as term:
        await hub.housed(term)
        hub.mover.fails = True
        assert await hub.wanted(term, ARCHIVED) is Phase.ERROR
        status = (await hub.world.look()).status
        assert status.error_reason is ErrorReason.RETRY_EXCEEDED
        assert status.error_message == "the engine gave no complete copy of the home"
        assert (await hub.home() / "notes").read_text() == "precious"
    assert hub.runtime.held == set()


async def test_a_copy_that_cannot_be_closed_keeps_nothing_from_its_end(hub: Remote) -> None:
    async with hub.world.term() as term:
        await hub.housed(term)
        hub.runtime.sticks = True
        assert await hub.wanted(term, ARCHIVED) is Phase.ARCHIVED
        assert await hub.wanted(term, STANDBY) is Phase.STANDBY
        assert (await hub.home() / "notes").read_text() == "precious"
    assert len(hub.runtime.opened) == 2, "nothing was done twice"


async def test_a_leader_that_stops_lets_go_of_the_home(hub: Remote) -> None:
    async with hub.world.term() as term:
        await hub.housed(term)
        await hub.archived_up_to(term, hub.mover.gate)
        assert len(hub.runtime.held) == 1
    assert hub.runtime.held == set()


async def test_who_no_longer_leads_opens_no_copy(hub: Remote) -> None:
    async with hub.world.term() as term:
        await hub.housed(term)
        await hub.archived_up_to(term, hub.runtime.looking)
        async with hub.world.term():
            hub.runtime.looking.open()
            await term.acts.quiet()
        assert hub.runtime.opened == []
    assert (await hub.home() / "notes").read_text() == "precious"
