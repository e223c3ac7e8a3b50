"""A hub that dies anywhere in any action leaves a world that the next one puts right.

The crash points are all there are: before and after every call that changes the world.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from codehub.model.runtime import VolumeRef
from tests.contract import process_crash
from tests.contract.crash_points import mortal
from tests.contract.process_world import MARKER, ProcessWorld
from tests.contract.runtime_world import eventually, leads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.contract.crash_points import Mortal

NOW = timedelta(0)
LISTENER = (
    "import os, socket, time; open(os.environ['HOME'] + '/ran', 'a').write('x');"
    "s = socket.create_server(('127.0.0.1', int(os.environ['PORT']))); time.sleep(600)"
)
COMMAND = [sys.executable, "-S", "-E", "-c", LISTENER]


@dataclass
class Hub:
    """Gives orders to the hub that dies."""

    world: ProcessWorld
    mortal: Mortal

    @property
    def place(self) -> str:
        return self.mortal.place

    def dies(self, action: str, point: int, workspace_id: UUID, op_id: UUID | None = None) -> bool:
        """Whether it died at the point; False when the action was over before."""
        return self.mortal.dies(
            {
                "action": action,
                "point": point,
                "root": str(self.world.root),
                "hub_id": self.world.hub_id,
                "workspace_id": str(workspace_id),
                "op_id": str(op_id),
                "command": COMMAND,
            }
        )


@pytest.fixture
def world(process_world: ProcessWorld) -> ProcessWorld:
    return process_world


@pytest.fixture
def hub(world: ProcessWorld) -> Iterator[Hub]:
    with mortal(process_crash.__name__) as process:
        yield Hub(world, process)


def create(world: ProcessWorld) -> VolumeRef:
    ref = VolumeRef(uuid4(), 1)
    asyncio.run(world.open().create_volume(ref))
    return ref


async def ran(world: ProcessWorld, ref: VolumeRef) -> bool:
    """Whether the command of a dead hub ran; one behind the gate ends without."""
    sign = world.home(ref) / "ran"

    async def decided() -> bool:
        return sign.exists() or not world.members(ref.workspace_id)

    await eventually(decided, "the child ends or becomes the command")
    return sign.exists()


def assert_clean(world: ProcessWorld, ref: VolumeRef, place: str) -> None:
    """No process, no record, not even half of one."""
    assert world.members(ref.workspace_id) == (), place
    assert list((world.root / "records").iterdir()) == [], place
    assert asyncio.run(world.open().list()).containers == (), place


def test_a_start_that_died_anywhere_is_cleaned_up_by_stop(world: ProcessWorld, hub: Hub) -> None:
    ref = create(world)
    for point in count(1):
        died = hub.dies("start", point, ref.workspace_id, uuid4())

        if asyncio.run(ran(world, ref)):
            (member,) = world.members(ref.workspace_id)
            assert member.pid == world.leader(ref.workspace_id), hub.place
            (container,) = asyncio.run(world.open().list()).containers
            assert container.running, hub.place
        asyncio.run(world.open().stop(ref.workspace_id, NOW))
        assert_clean(world, ref, hub.place)
        (world.home(ref) / "ran").unlink(missing_ok=True)
        if not died:
            break
    assert point > 14, "the steps of a start are counted"


def test_a_start_that_died_anywhere_is_finished_by_the_next_one(
    world: ProcessWorld, hub: Hub
) -> None:
    ref = create(world)
    for point in count(1):
        op_id = uuid4()
        died = hub.dies("start", point, ref.workspace_id, op_id)

        asyncio.run(world.open().start(process_crash.request(ref, op_id, COMMAND), leads))

        (member,) = world.members(ref.workspace_id)
        assert member.pid == world.leader(ref.workspace_id), hub.place
        (container,) = asyncio.run(world.open().list()).containers
        assert (container.running, container.op_id) == (True, op_id), hub.place
        asyncio.run(world.open().stop(ref.workspace_id, NOW))
        assert_clean(world, ref, hub.place)
        if not died:
            break
    assert point > 14, "the steps of a start are counted"


def test_a_stop_that_died_anywhere_is_finished_by_the_next_one(
    world: ProcessWorld, hub: Hub
) -> None:
    ref = create(world)
    for point in count(1):
        request = process_crash.request(ref, uuid4(), COMMAND)
        asyncio.run(world.open().start(request, leads))
        died = hub.dies("stop", point, ref.workspace_id)

        asyncio.run(world.open().stop(ref.workspace_id, NOW))

        assert_clean(world, ref, hub.place)
        if not died:
            break
    assert point > 6, "the steps of a stop are counted"


def test_a_volume_is_there_or_not_wherever_its_creation_died(world: ProcessWorld, hub: Hub) -> None:
    for point in count(1):
        ref = VolumeRef(uuid4(), 1)
        died = hub.dies("create", point, ref.workspace_id)

        names = {each.name for each in asyncio.run(world.open().list()).volumes}
        assert (ref.name in names) == world.home(ref).exists(), hub.place
        asyncio.run(world.open().create_volume(ref))
        names = {each.name for each in asyncio.run(world.open().list()).volumes}
        assert ref.name in names, hub.place
        if not died:
            break
    assert point > 6, "the steps of a creation are counted"


def test_a_volume_is_whole_or_gone_wherever_its_deletion_died(
    world: ProcessWorld, hub: Hub
) -> None:
    for point in count(1):
        ref = create(world)
        deep = world.home(ref) / "a" / "b"
        deep.mkdir(parents=True)
        (deep / "file").write_text("data")
        died = hub.dies("delete", point, ref.workspace_id)

        names = {each.name for each in asyncio.run(world.open().list()).volumes}
        whole = ref.name in names and (deep / "file").read_text() == "data"
        assert whole or not world.home(ref).exists(), hub.place
        asyncio.run(world.open().delete_volume(ref))
        assert [path.name for path in (world.root / "volumes").iterdir()] == [MARKER], hub.place
        assert list((world.root / "labels").iterdir()) == [], hub.place
        if not died:
            break
    assert point > 14, "the steps of a deletion are counted"


def test_a_claim_that_died_anywhere_can_be_made_again(
    world: ProcessWorld, hub: Hub, tmp_path: Path
) -> None:
    for point in count(1):
        world.root = tmp_path / f"new-{point}"
        died = hub.dies("claim", point, uuid4())

        asyncio.run(world.open().claim())

        assert asyncio.run(world.open().list()).volumes == (), hub.place
        if not died:
            break
    assert point > 12, "the steps of a claim are counted"


def test_a_workspace_outlives_the_hub_that_started_it(world: ProcessWorld, hub: Hub) -> None:
    ref = create(world)
    assert not hub.dies("start", 10**6, ref.workspace_id, uuid4()), "this one just ends"

    (container,) = asyncio.run(world.open().list()).containers

    assert container.running
    assert asyncio.run(world.open().upstream(ref.workspace_id)) is not None
    asyncio.run(world.kill(ref.workspace_id))
    (container,) = asyncio.run(world.open().list()).containers
    assert (container.running, container.exit_code) == (False, None), "not our child: unknown"
