"""The acts under way: bounded, one for a workspace, ended when nobody needs them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from codehub.coordinator import controller as module
from codehub.errors import ActionFailed
from codehub.model.decision import Rules
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.store.fence import take_epoch
from codehub.store.status import save
from codehub.store.workspaces import read_workspaces
from tests.contract.runtime_world import eventually
from tests.coordination.held import HeldMover, HeldRuntime
from tests.coordination.hub import HubWorld, Term, hub_world
from tests.make import declaration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from typing import Any

    from codehub.model.runtime import VolumeRef
    from codehub.model.workspace import Status

pytestmark = pytest.mark.anyio


class HeldHub:
    """A hub whose acts can be held."""

    def __init__(self, world: HubWorld, path: Path) -> None:
        self.runtime = HeldRuntime(path / "volumes")
        self.mover = HeldMover(world.store)
        self.world = replace(world, runtime=self.runtime, mover=self.mover)

    @property
    def held(self) -> int:
        """How many acts wait at a gate."""
        gates = (self.runtime.starting, self.runtime.stopping, self.mover.gate)
        return sum(each.inside for each in gates)

    async def declare(self, count: int, **fields: Any) -> None:
        await self.world.declare(*(declaration(f"w{n:02}", **fields) for n in range(count)))

    async def phases(self) -> list[Phase]:
        return [each.phase for each in await self._statuses()]

    async def operations(self) -> list[Operation]:
        return [each.operation for each in await self._statuses()]

    async def status(self, workspace_id: UUID) -> Status:
        rows = await read_workspaces(self.world.conn)
        return next(each.status for each in rows if each.id == workspace_id)

    async def _statuses(self) -> list[Status]:
        rows = await read_workspaces(self.world.conn)
        return [each.status for each in rows if each.status.phase is not Phase.DELETED]


@pytest.fixture
async def hub(database_url: str, tmp_path: Path) -> AsyncIterator[HeldHub]:
    async with hub_world(database_url, tmp_path) as world:
        yield HeldHub(world, tmp_path)


async def stir(hub: HeldHub, term: Term, passes: int = 6) -> None:
    """Some passes while acts are held; before each, every act has ended or stands at its gate."""
    for _ in range(passes):
        await term.controller.tick()
        ids = [each.id for each in await read_workspaces(hub.world.conn)]

        async def at_rest(ids: Sequence[UUID] = ids) -> bool:
            return sum(map(term.acts.is_running, ids)) == hub.held

        await eventually(at_rest, "every act ends or is held")


# Bounds


async def test_eight_acts_at_once_and_no_more(hub: HeldHub) -> None:
    await hub.declare(20, declared_state=DesiredState.STANDBY)
    async with hub.world.term() as term:
        await term.settle()
        await hub.declare(20)
        await hub.world.conn.execute(
            "UPDATE workspaces SET desired_state = 'RUNNING' WHERE deleted_at IS NULL"
        )
        hub.runtime.starting.shut()
        await stir(hub, term)
        assert hub.runtime.starting.inside == 8
        assert (await hub.operations()).count(Operation.STARTING) == 8, "claimed with a hand free"
        hub.runtime.starting.open()
        await term.settle()
    assert hub.runtime.starting.most == 8
    assert await hub.phases() == [Phase.RUNNING] * 20
    assert len(hub.runtime.starts) == 20


async def test_two_data_moves_at_once_and_others_beside_them(hub: HeldHub) -> None:
    await hub.declare(10, declared_state=DesiredState.STANDBY)
    async with hub.world.term() as term:
        await term.settle()
        await hub.declare(10)
        await hub.world.conn.execute(
            "UPDATE workspaces SET desired_state = CASE WHEN name < 'w05' THEN 'ARCHIVED'"
            " ELSE 'RUNNING' END WHERE deleted_at IS NULL"
        )
        hub.mover.gate.shut()
        await stir(hub, term)
        await term.controller.tick()
        phases = await hub.phases()
        assert hub.mover.gate.inside == 2
        assert phases.count(Phase.RUNNING) == 5, "data that moves holds nobody else up"
        hub.mover.gate.open()
        await term.settle()
    assert hub.mover.gate.most == 2
    assert sorted(await hub.phases()) == [Phase.ARCHIVED] * 5 + [Phase.RUNNING] * 5


async def test_one_act_for_one_workspace(hub: HeldHub) -> None:
    hub.runtime.starting.shut()
    async with hub.world.term() as term:
        await stir(hub, term, passes=12)
        assert (hub.runtime.starting.inside, hub.runtime.starting.most) == (1, 1)
        hub.runtime.starting.open()
        await term.settle()
    assert len(hub.runtime.starts) == 1


async def test_what_was_in_flight_waits_for_a_hand_without_being_late(hub: HeldHub) -> None:
    """A new leader finds ten in flight, and has one hand."""
    await hub.declare(10)
    hub.runtime.starting.shut()
    async with hub.world.term(actions=10) as term:
        await stir(hub, term)
        assert hub.runtime.starting.inside == 10
    hub.runtime.starting.open()
    await hub.world.conn.execute(
        "UPDATE workspaces SET op_started_at = now() - interval '1 hour',"
        " observed_at = now() - interval '1 hour'"
    )
    hub.runtime.starting.most = 0
    async with hub.world.term(actions=1) as term:
        await term.settle()
    assert hub.runtime.starting.most == 1
    assert await hub.phases() == [Phase.RUNNING] * 10


# Ends


async def test_an_act_whose_operation_is_over_is_given_up(hub: HeldHub) -> None:
    hub.runtime.starting.shut()
    async with hub.world.term() as term:
        await stir(hub, term)
        await hub.world.conn.execute("UPDATE workspaces SET op_started_at = '2026-01-01'")
        await term.controller.tick()
        assert not term.acts.busy
        assert hub.runtime.starting.given_up == 1
    api = await hub.world.look()
    assert (api.status.phase, api.status.error_reason) == (Phase.ERROR, ErrorReason.TIMEOUT)
    assert api.status.error_message == "STARTING got nowhere in 120 s"
    assert hub.runtime.containers == {}


async def test_an_act_of_this_operation_is_not_given_up(hub: HeldHub) -> None:
    hub.runtime.starting.shut()
    async with hub.world.term() as term:
        await stir(hub, term)
        api = await hub.world.look()
        await term.acts.give_up(api.id, api.status.op_id)
        await term.acts.give_up(UUID(int=1), None)
        assert term.acts.is_running(api.id)
        await term.acts.give_up(api.id, None)
        assert not term.acts.is_running(api.id)


async def test_at_the_end_of_a_term_nothing_goes_on(hub: HeldHub) -> None:
    hub.runtime.starting.shut()
    async with hub.world.term() as term:
        await stir(hub, term)
        assert term.acts.busy
        await term.acts.close()
        assert not term.acts.busy
        await stir(hub, term)
        assert not term.acts.busy, "and nothing begins"
    assert hub.runtime.starting.given_up == 1


async def test_an_act_of_a_leader_of_the_past_changes_nothing(hub: HeldHub) -> None:
    hub.runtime.starting.shut()
    async with hub.world.term() as term:
        await stir(hub, term)
        claimed = await hub.world.look()
        await take_epoch(hub.world.conn, "coordinator", "another")
        hub.runtime.starting.open()
        await term.acts.quiet()
        assert hub.runtime.containers == {}, "it asked whether it leads, and does not"
        assert await hub.world.look() == claimed
        assert term.failures.counts == {}


# Outcomes


async def test_how_an_act_ended_is_kept_for_its_operation_alone(hub: HeldHub) -> None:
    api = await hub.world.id_of()
    hub.runtime.failing[api] = "no such table"
    async with hub.world.term() as term:
        hub.runtime.starting.shut()
        await stir(hub, term)
        op_id = (await hub.world.look()).status.op_id
        assert term.acts.outcome(api, op_id) is None
        hub.runtime.starting.open()
        await term.acts.quiet()
        outcome = term.acts.outcome(api, op_id)
        assert outcome is not None
        assert (outcome.reason, outcome.message) == (ErrorReason.ACTION_FAILED, "no such table")
        assert outcome.number == term.acts.ended
        assert term.acts.outcome(api, UUID(int=5)) is None
        assert term.hints.take().ids == {api}
        term.acts.forget(api)
        assert term.acts.outcome(api, op_id) is None


async def test_a_fault_of_ours_is_a_failure_that_says_no_more_than_its_kind(
    hub: HeldHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stumble(*_: object) -> None:
        raise RuntimeError("canary: the whole environment")

    monkeypatch.setattr(hub.runtime, "start", stumble)
    async with hub.world.term() as term:
        await term.settle()
    api = await hub.world.look()
    assert api.status.phase is Phase.ERROR
    assert api.status.error_message == "unexpected: RuntimeError"


class Fleeting(HeldRuntime):
    """Its containers answer, and have ended a moment later."""

    async def start(self, request: Any, confirm: Any) -> None:
        await super().start(request, confirm)
        self.crash(request.workspace_id)


async def test_a_start_that_answered_and_ended_at_once_is_a_failure(
    hub: HeldHub, tmp_path: Path
) -> None:
    """It would be tried for ever otherwise, as fast as it can be started."""
    runtime = Fleeting(tmp_path / "volumes")
    async with replace(hub.world, runtime=runtime).term() as term:
        await term.settle()
    api = await hub.world.look()
    assert (api.status.phase, api.status.error_reason) == (
        Phase.ERROR,
        ErrorReason.RETRY_EXCEEDED,
    )
    assert api.status.error_message == "its port answered, and then it ended"
    assert len(runtime.starts) == 4


async def pass_in_which_it_ends(
    hub: HeldHub, term: Term, monkeypatch: pytest.MonkeyPatch, first: UUID
) -> None:
    """A pass that has something to store of `first`; meanwhile the acts that were held end."""
    ended: list[UUID] = []

    async def save_late(conn: Any, fence: Any, write: Any, idleness: Any) -> bool:
        if write.seen.id == first and not ended:
            ended.append(first)
            hub.runtime.starting.open()
            await term.acts.quiet()
        return await save(conn, fence, write, idleness)

    monkeypatch.setattr(module, "save", save_late)
    await hub.world.conn.execute("UPDATE workspaces SET conditions = '{}' WHERE id = %s", (first,))
    await term.controller.tick()
    assert ended


async def two_of_which_the_last_fails(hub: HeldHub) -> tuple[UUID, UUID]:
    await hub.world.declare(declaration("api"), declaration("other"))
    first, last = sorted(each.id for each in await read_workspaces(hub.world.conn))
    hub.runtime.failing[last] = "no such table"
    return first, last


async def test_an_act_that_fails_while_others_are_seen_to_is_counted(
    hub: HeldHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How it ended is not known to this pass, which must not begin it anew."""
    first, last = await two_of_which_the_last_fails(hub)
    async with hub.world.term() as term:
        await stir(hub, term, passes=2)
        hub.runtime.starting.shut()
        await stir(hub, term)
        assert term.acts.is_running(last)
        await pass_in_which_it_ends(hub, term, monkeypatch, first)
        assert not term.acts.is_running(last), "not begun again before its failure is stored"
        await term.controller.tick()
        assert (await hub.status(last)).error_count == 1


async def test_the_second_try_that_ends_during_a_pass_is_not_forgotten(
    hub: HeldHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = await two_of_which_the_last_fails(hub)
    async with hub.world.term() as term:
        while len(hub.runtime.starts) < 3:
            await term.controller.tick()
            await term.acts.quiet()
        await term.controller.tick()
        hub.runtime.starting.shut()
        await stir(hub, term)
        before = await hub.status(last)
        await pass_in_which_it_ends(hub, term, monkeypatch, first)
        await term.controller.tick()
        assert (await hub.status(last)).error_count == before.error_count + 1


class Clinging(HeldRuntime):
    """A volume of the past that does not let itself be removed."""

    refusals = 0

    async def delete_volume(self, ref: VolumeRef) -> None:
        self.refusals += 1
        raise ActionFailed(f"the volume {ref.name} is in use")


async def test_a_stray_that_stays_is_not_tried_again_at_once(hub: HeldHub, tmp_path: Path) -> None:
    """Full passes come back to it; the failure itself must not call for the next try."""
    runtime = Clinging(tmp_path / "volumes")
    async with replace(hub.world, runtime=runtime).term() as term:
        await term.settle()
        api = await hub.world.look()
        await hub.world.conn.execute(
            "UPDATE workspaces SET home_generation = 2, home_store_key = %s",
            (f"ws-{api.id}-home-g2",),
        )
        (tmp_path / "volumes" / f"ws-{api.id}-home-g2").mkdir()
        runtime.containers[api.id] = replace(
            runtime.containers[api.id], volume=f"ws-{api.id}-home-g2"
        )
        term.hints.take()
        await term.controller.tick()
        await term.acts.quiet()
        assert runtime.refusals == 1
        assert not term.hints.take()
        await term.controller.tick()
        await term.acts.quiet()
        assert runtime.refusals == 2
    assert (await hub.world.look()).status.phase is Phase.RUNNING


async def test_backoff_is_kept_between_tries(hub: HeldHub) -> None:
    api = await hub.world.id_of()
    hub.runtime.failing[api] = "broken"
    hour = timedelta(hours=1)
    patient = replace(hub.world, rules=Rules(backoff_first=hour, backoff_limit=hour))
    async with patient.term() as term:
        await term.settle()
        waiting = await hub.world.look()
        assert (waiting.status.operation, waiting.status.error_count) == (Operation.STARTING, 1)
        assert len(hub.runtime.starts) == 1
        await hub.world.conn.execute("UPDATE workspaces SET retry_at = now()")
        await term.settle()
        assert len(hub.runtime.starts) == 2
