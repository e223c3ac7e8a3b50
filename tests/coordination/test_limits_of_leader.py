"""Limits are hard: however many ask at once, no more run than may, in the order of asking."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codehub.coordinator.rhythm import Look
from codehub.model.people import Hub
from codehub.model.states import DesiredState, Operation, Phase
from codehub.service.limits import LimitDefaults
from codehub.store.hubs import write_hub
from codehub.store.users import upsert_users
from codehub.store.workspaces import read_workspaces
from tests.contract.runtime_world import eventually
from tests.coordination.held import HeldRuntime
from tests.coordination.hub import HubWorld, hub_world
from tests.make import declaration, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from uuid import UUID

    from codehub.model.workspace import Declaration

pytestmark = pytest.mark.anyio

RUNNING, STANDBY = DesiredState.RUNNING, DesiredState.STANDBY


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[HubWorld]:
    """Everybody may run two, all together ten."""
    async with hub_world(database_url, tmp_path) as made:
        runtime = HeldRuntime(tmp_path / "volumes")
        yield replace(made, runtime=runtime, limits=LimitDefaults(2, 10))


def runtime(world: HubWorld) -> HeldRuntime:
    assert isinstance(world.runtime, HeldRuntime)
    return world.runtime


def many(count: int, owner: str = "alice") -> list[Declaration]:
    return [declaration(f"{owner}{number:02}", owner=owner) for number in range(count)]


async def ask_in_order(world: HubWorld, *declared: Declaration) -> list[UUID]:
    """Everybody wants to run, one after the other in an order of no meaning; their ids in it."""
    await world.declare(*declared)
    names = [each.name for each in declared]
    random.Random(7).shuffle(names)
    for place, name in enumerate(names):
        await world.conn.execute(
            "UPDATE workspaces SET desired_at = now() - interval '1 day' + %s * interval '1 second'"
            " WHERE name = %s",
            (place, name),
        )
    return [await world.id_of(name) for name in names]


async def put_to_rest(world: HubWorld, workspace_id: UUID) -> None:
    await world.conn.execute(
        "UPDATE workspaces SET desired_state = 'STANDBY' WHERE id = %s", (workspace_id,)
    )


async def test_of_fifty_at_once_two_run_in_the_order_of_asking(world: HubWorld) -> None:
    asked = await ask_in_order(world, *many(50))
    async with world.term() as term:
        await term.settle()
        assert set(runtime(world).containers) == set(asked[:2])
        for number in range(2, 7):
            name = next(
                each.name
                for each in await read_workspaces(world.conn)
                if each.id == asked[number - 2]
            )
            await world.want(name, STANDBY)
            await term.settle()
            assert set(runtime(world).containers) == set(asked[number - 1 : number + 1])
    assert set(runtime(world).starts[:2]) == set(asked[:2])
    assert runtime(world).starts[2:] == asked[2:7]
    assert runtime(world).crowd == 2
    assert term.failures.counts == {}


async def test_while_starts_take_their_time_no_other_slips_in(world: HubWorld) -> None:
    asked = await ask_in_order(world, *many(50))
    runtime(world).starting.shut()
    async with world.term() as term:
        for look in [Look.FULL, Look.ACTIVE, Look.QUICK] * 6:
            await term.controller.tick(look, asked)
        rows = await read_workspaces(world.conn)
        starting = {each.id for each in rows if each.status.operation is Operation.STARTING}
        assert starting == set(asked[:2])
        runtime(world).starting.open()
        await term.settle()
    assert runtime(world).crowd == 2


async def test_one_that_stops_keeps_its_place_until_it_is_gone(world: HubWorld) -> None:
    asked = await ask_in_order(world, *many(4))
    async with world.term() as term:
        await term.settle()
        runtime(world).stopping.shut()
        await put_to_rest(world, asked[0])
        for _ in range(6):
            await term.controller.tick()
        assert set(runtime(world).containers) == set(asked[:2])
        runtime(world).stopping.open()
        await term.settle()
        assert set(runtime(world).containers) == set(asked[1:3])
    assert runtime(world).crowd == 2


async def test_a_crashed_one_does_not_lose_its_place_to_who_asked_later(world: HubWorld) -> None:
    asked = await ask_in_order(world, *many(4))
    async with world.term() as term:
        await term.settle()
        runtime(world).crash(asked[0])
        await term.settle()
    running = {each for each, seen in runtime(world).containers.items() if seen.running}
    assert running == set(asked[:2])
    assert runtime(world).crowd == 2


async def test_one_in_error_gives_its_place_to_the_next(world: HubWorld) -> None:
    asked = await ask_in_order(world, *many(4))
    runtime(world).failing[asked[0]] = "broken"
    async with world.term() as term:
        await term.settle()
        assert set(runtime(world).containers) == set(asked[1:3])
        runtime(world).failing.clear()
        await world.conn.execute(
            "UPDATE workspaces SET recover_requested = 'plain' WHERE id = %s", (asked[0],)
        )
        await term.settle()
        assert set(runtime(world).containers) == set(asked[1:3]), "who runs is not put out"
        await put_to_rest(world, asked[2])
        await term.settle()
    assert set(runtime(world).containers) == set(asked[:2])
    assert runtime(world).crowd == 2


async def test_all_together_are_bounded_and_each_for_themselves(world: HubWorld) -> None:
    owners = [f"user{number}" for number in range(8)]
    declared = [each for owner in owners for each in many(4, owner)]
    await ask_in_order(world, *declared)
    await upsert_users(world.conn, [user("user0", max_running=3)])
    await write_hub(world.conn, Hub(max_running_per_user=1, max_running_global=9))
    async with world.term() as term:
        await term.settle()
        rows = await read_workspaces(world.conn)
        running = [each.declaration.owner for each in rows if each.status.phase is Phase.RUNNING]
    assert len(running) == 9
    assert all(running.count(owner) <= (3 if owner == "user0" else 1) for owner in owners)
    assert runtime(world).crowd == 9


async def test_a_new_leader_keeps_to_the_same_limits(world: HubWorld) -> None:
    asked = await ask_in_order(world, *many(10))
    runtime(world).starting.shut()
    async with world.term() as term:
        for _ in range(4):
            await term.controller.tick()
    runtime(world).starting.open()
    async with world.term() as term:
        await term.settle()
    assert set(runtime(world).containers) == set(asked[:2])
    assert runtime(world).crowd == 2


async def test_people_who_change_their_minds_all_the_time_get_no_more(world: HubWorld) -> None:
    """The controller runs by itself, and looks when it is told to, while others write."""
    names = [each.name for each in many(12)]
    await ask_in_order(world, *many(12))
    dice = random.Random(11)
    async with world.term() as term:
        running = asyncio.create_task(term.controller.run())
        for _ in range(80):
            await world.want(dice.choice(names), dice.choice([RUNNING, STANDBY]))
            term.hints.tell(await world.id_of(dice.choice(names)))
        for name in names:
            await world.want(name, RUNNING)

        async def two_run() -> bool:
            rows = await read_workspaces(world.conn)
            found = [each.status.phase for each in rows if each.status.operation is Operation.NONE]
            return found.count(Phase.RUNNING) == 2

        await eventually(two_run, "two of them run")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert runtime(world).crowd == 2
    assert term.failures.counts == {}
