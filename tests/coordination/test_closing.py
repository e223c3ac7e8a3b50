"""Shutting a hub down on purpose: everything sleeps, and the next `up` goes on where it was."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codehub.coordinator.case import KEEP_ALL
from codehub.coordinator.closing import WHY, put_to_sleep
from codehub.coordinator.rhythm import Look, Rhythm
from codehub.errors import ActionFailed, FenceLost, Unreachable
from codehub.model.conditions import ConditionName, ConditionStatus
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.store.fence import take_epoch
from tests.contract.runtime_world import volume_names
from tests.coordination.fast_runtime import FastRuntime
from tests.coordination.held import HeldRuntime
from tests.coordination.hub import HubWorld, hub_world
from tests.integration.stored import versions
from tests.make import declaration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import timedelta
    from pathlib import Path
    from uuid import UUID

    from codehub.coordinator.hints import Hinted

pytestmark = pytest.mark.anyio

NAMES = ("api", "one", "two")


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[HubWorld]:
    async with hub_world(database_url, tmp_path) as made:
        made = replace(made, runtime=HeldRuntime(tmp_path / "volumes"))
        await made.declare(*(declaration(name) for name in NAMES))
        yield made


def runtime(world: HubWorld) -> HeldRuntime:
    assert isinstance(world.runtime, HeldRuntime)
    return world.runtime


async def close(world: HubWorld) -> int:
    """As `codehub up` does at its end."""
    async with world.term() as term:
        term.controller.pause()
        await term.acts.close()
        return await put_to_sleep(term.lead, term.world)


async def run(world: HubWorld) -> None:
    async with world.term() as term:
        await term.settle()
        assert term.failures.counts == {}


async def test_everything_sleeps_and_stays_desired(world: HubWorld) -> None:
    await run(world)
    assert await close(world) == 3
    assert runtime(world).containers == {}
    for name in NAMES:
        found = await world.look(name)
        assert (found.status.phase, found.status.operation) == (Phase.STANDBY, Operation.NONE)
        assert (found.status.error_count, found.status.error_reason) == (0, None)
        assert found.intent.desired is DesiredState.RUNNING


async def test_what_was_known_of_its_archive_stays_known(world: HubWorld) -> None:
    await run(world)
    for state in (DesiredState.ARCHIVED, DesiredState.RUNNING):
        await world.want("api", state)
        await run(world)
    await close(world)
    found = await world.look()
    assert found.status.phase is Phase.STANDBY
    archive = found.status.conditions[ConditionName.ARCHIVE_READY]
    assert archive.status is ConditionStatus.TRUE


async def test_the_audit_says_that_it_was_the_hub(world: HubWorld) -> None:
    await run(world)
    await close(world)
    query = (
        "SELECT kind, old, new, reason FROM workspace_events"
        " WHERE workspace_name = 'api' ORDER BY id DESC LIMIT 3"
    )
    rows = await (await world.conn.execute(query)).fetchall()
    assert [(row["kind"], row["old"], row["new"]) for row in reversed(rows)] == [
        ("operation", "NONE", "STOPPING"),
        ("operation", "STOPPING", "NONE"),
        ("phase", "RUNNING", "STANDBY"),
    ]
    assert rows[-1]["reason"] == WHY


async def test_the_next_hub_starts_them_again_and_counts_nothing(world: HubWorld) -> None:
    await run(world)
    await close(world)
    await run(world)
    for name in NAMES:
        found = await world.look(name)
        assert (found.status.phase, found.status.error_count) == (Phase.RUNNING, 0)
    assert len(runtime(world).starts) == 6


async def test_without_it_they_would_count_as_crashed(world: HubWorld) -> None:
    """Why the leader claims a stop for each."""
    await run(world)
    runtime(world).containers.clear()
    await run(world)
    assert (await world.look()).status.error_count == 1


async def test_one_that_is_just_starting_is_started_by_the_next_hub(world: HubWorld) -> None:
    runtime(world).starting.shut()
    async with world.term() as term:
        for _ in range(100):
            await term.controller.tick()
            await asyncio.sleep(0)
            if (await world.look()).status.operation is Operation.STARTING:
                break
        assert (await world.look()).status.operation is Operation.STARTING
        term.controller.pause()
        await term.acts.close()
        runtime(world).starting.open()
        await put_to_sleep(term.lead, term.world)
    assert (await world.look()).status.operation is Operation.STARTING
    assert runtime(world).containers == {}
    await run(world)
    assert (await world.look()).status.phase is Phase.RUNNING
    assert (await world.look()).status.error_count == 0


async def test_one_whose_container_runs_while_it_starts_is_stopped(world: HubWorld) -> None:
    """Its port did not answer yet: nothing was claimed, and yet nothing of it goes on."""
    await run(world)
    api = await world.look()
    op_id = runtime(world).containers[api.id].op_id
    await world.conn.execute(
        "UPDATE workspaces SET phase = 'STANDBY', operation = 'STARTING', op_id = %s,"
        " op_started_at = now() WHERE id = %s",
        (op_id, api.id),
    )
    assert await close(world) == 3
    assert runtime(world).containers == {}
    found = await world.look()
    assert (found.status.operation, found.status.op_id) == (Operation.STARTING, op_id)
    await run(world)
    assert (await world.look()).status.phase is Phase.RUNNING


async def test_what_is_in_error_stays_as_it_is(world: HubWorld) -> None:
    api = await world.id_of()
    runtime(world).failing[api] = "no such table"
    await run(world)
    before = await world.look()
    assert before.status.phase is Phase.ERROR
    assert await close(world) == 2
    assert await world.look() == before


async def fail(world: HubWorld, name: str, reason: ErrorReason) -> UUID:
    """It is in ERROR, and its container runs on."""
    await run(world)
    await world.conn.execute(
        "UPDATE workspaces SET phase = 'ERROR', error_reason = %s, error_message = 'bad',"
        " error_count = 1 WHERE name = %s",
        (reason.value, name),
    )
    return await world.id_of(name)


async def test_what_runs_in_error_is_stopped_and_stays_in_error(world: HubWorld) -> None:
    await fail(world, "one", ErrorReason.TIMEOUT)
    before, homes = await world.look("one"), await volume_names(world.runtime)
    assert await close(world) == 3
    assert runtime(world).containers == {}
    assert await volume_names(world.runtime) == homes
    assert await world.look("one") == before


@pytest.mark.parametrize("reason", sorted(KEEP_ALL))
async def test_what_may_be_all_that_is_left_runs_on_and_is_named(
    world: HubWorld, reason: ErrorReason, caplog: pytest.LogCaptureFixture
) -> None:
    one = await fail(world, "one", reason)
    before, homes = await world.look("one"), await volume_names(world.runtime)
    assert await close(world) == 2
    assert set(runtime(world).containers) == {one}
    assert await volume_names(world.runtime) == homes
    assert await world.look("one") == before
    (said,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert said.startswith(f"one is not stopped: it is in ERROR ({reason})")
    assert "recover one" in said


async def test_what_sleeps_already_is_not_written(world: HubWorld) -> None:
    for name in NAMES:
        await world.want(name, DesiredState.STANDBY)
    await run(world)
    before = await versions(world.conn, "workspaces", "workspace_events")
    assert await close(world) == 0
    assert await versions(world.conn, "workspaces", "workspace_events") == before


class Stubborn(HeldRuntime):
    """One workspace does not let itself be stopped."""

    stays: UUID | None = None

    async def stop(self, workspace_id: UUID, grace: timedelta) -> None:
        if workspace_id == self.stays:
            raise ActionFailed("processes that cannot be killed: 17")
        await super().stop(workspace_id, grace)


async def test_one_that_cannot_be_stopped_keeps_nobody_else_awake(
    world: HubWorld, tmp_path: Path
) -> None:
    stubborn = Stubborn(tmp_path / "volumes")
    world = replace(world, runtime=stubborn)
    await run(world)
    stubborn.stays = await world.id_of("one")
    with pytest.raises(ActionFailed, match="cannot be killed: 17"):
        await close(world)
    assert set(stubborn.containers) == {stubborn.stays}
    assert (await world.look("api")).status.phase is Phase.STANDBY
    left = await world.look("one")
    assert (left.status.phase, left.status.operation) == (Phase.RUNNING, Operation.STOPPING)
    stubborn.stays = None
    await run(world)
    for name in NAMES:
        assert (await world.look(name)).status.phase is Phase.RUNNING
        assert (await world.look(name)).status.error_count == 0


async def test_stops_are_bounded(world: HubWorld) -> None:
    await run(world)
    runtime(world).stopping.shut()
    async with world.term() as term:
        closing = asyncio.create_task(put_to_sleep(term.lead, term.world, at_once=2))
        async with asyncio.timeout(60):
            while runtime(world).stopping.inside < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        runtime(world).stopping.open()
        assert await closing == 3
    assert runtime(world).stopping.most == 2


async def test_a_runtime_that_gives_no_answer_is_left_alone_and_told(world: HubWorld) -> None:
    await run(world)
    before = await versions(world.conn, "workspaces")
    runtime(world).away = True
    with pytest.raises(Unreachable, match="may still run: the runtime gives no answer"):
        await close(world)
    assert await versions(world.conn, "workspaces") == before

    runtime(world).away = False
    assert await close(world) == 3
    assert runtime(world).containers == {}


async def test_who_does_not_lead_any_more_stops_nobody(world: HubWorld) -> None:
    await run(world)
    async with world.term() as term:
        await take_epoch(world.conn, "coordinator", "another")
        with pytest.raises(FenceLost):
            await put_to_sleep(term.lead, term.world)
    assert len(runtime(world).containers) == 3


async def test_a_paused_controller_wakes_nobody(world: HubWorld) -> None:
    await run(world)
    async with world.term() as term:
        term.controller.pause()
        await put_to_sleep(term.lead, term.world)
        for _ in range(3):
            await term.controller.tick()
        assert not term.acts.busy
    assert runtime(world).containers == {}
    assert isinstance(world.runtime, FastRuntime)


class CountedRhythm(Rhythm):
    """Counts how often the controller asked what to look at."""

    asked = 0

    def choose(self, hinted: Hinted, now: float) -> Look | None:
        self.asked += 1
        return super().choose(hinted, now)


async def test_a_paused_controller_rests(world: HubWorld) -> None:
    """It is overdue from then on, and must not ask again and again whether it is."""
    rhythm = CountedRhythm(0.001, 0.001, 1000.0)
    async with world.term(rhythm=rhythm) as term:
        running = asyncio.create_task(term.controller.run())
        async with asyncio.timeout(60):
            while rhythm.asked < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        term.controller.pause()
        await asyncio.sleep(0.05)
        before = rhythm.asked
        for _ in range(1000):
            await asyncio.sleep(0)
        term.hints.tell()
        await asyncio.sleep(0.05)
        assert rhythm.asked <= before + 2
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
