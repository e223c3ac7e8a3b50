"""The ways out of ERROR: nothing is given up that a person did not choose to give up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codehub.core.decide import decide
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.decision import Claim, Nothing, Recover, Wait
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from tests.make import NOW, workspace
from tests.unit.machine_world import RULES, World, fail, run, tick


def lost(*, archived: bool) -> World:
    """A workspace whose volume was removed by hand."""
    first = DesiredState.ARCHIVED if archived else DesiredState.STANDBY
    world, _ = run(World(workspace(desired=first)))
    world, _ = run(world.with_intent(desired=DesiredState.STANDBY))
    world, _ = run(replace(world, volumes=frozenset(), whole=frozenset()))
    assert world.status.error_reason is ErrorReason.DATA_LOST
    return world


def asked(world: World, how: str) -> World:
    return world.with_intent(recover_requested=how)


def claims(seen: list[tuple[World, object]]) -> list[Operation]:
    return [decision.operation for _, decision in seen if isinstance(decision, Claim)]


def test_lost_data_is_not_recovered_plainly() -> None:
    end, seen = run(asked(lost(archived=True), "plain"))
    assert end.status.phase is Phase.ERROR
    assert isinstance(seen[0][1], Nothing)
    assert "--from-archive" in seen[0][1].why


def test_from_archive_restores_the_last_archive() -> None:
    end, seen = run(asked(lost(archived=True), "from-archive"))
    assert end.status.phase is Phase.STANDBY
    assert claims(list(seen)) == [Operation.RESTORING]
    assert end.workspace.intent.recover_requested is None


def test_from_archive_without_one_gives_up_nothing() -> None:
    before = lost(archived=False)
    end, _ = run(asked(before, "from-archive"))
    assert end.status == before.status


def test_from_archive_says_that_it_is_damaged_and_gives_up_nothing() -> None:
    world = asked(lost(archived=True), "from-archive")
    seen = Facts(
        ContainerFact.ABSENT, volume=Presence.ABSENT, archive=Presence.DAMAGED, damage="half of it"
    )
    decision = decide(world.workspace, seen, NOW, RULES)
    assert isinstance(decision, Nothing)
    assert "is damaged: half of it; it is kept" in decision.why


def test_from_archive_waits_for_a_store_that_does_not_answer() -> None:
    blind = replace(asked(lost(archived=True), "from-archive"), blind_store=True)
    after, decision = tick(blind)
    assert isinstance(decision, Wait)
    assert after.status.error_reason is ErrorReason.DATA_LOST


def test_accept_empty_is_the_only_way_to_an_empty_home() -> None:
    end, seen = run(asked(lost(archived=True), "accept-empty"))
    assert end.status.phase is Phase.STANDBY
    assert claims(list(seen)) == [Operation.PROVISIONING]
    assert end.status.home_generation > 1


@pytest.mark.parametrize("how", ["plain", "from-archive", "accept-empty"])
def test_a_home_that_came_back_is_never_given_up(how: str) -> None:
    gone = lost(archived=True)
    home = gone.status.home_store_key
    assert home is not None
    back = replace(gone, volumes=frozenset({home}), whole=frozenset({home}))
    end, seen = run(asked(back, how))
    assert isinstance(seen[0][1], Recover)
    assert (end.status.phase, end.status.home_store_key) == (Phase.STANDBY, home)


def failed(reason: ErrorReason, desired: DesiredState = DesiredState.RUNNING) -> World:
    world, _ = run(World(workspace(desired=DesiredState.STANDBY)))
    world, _ = tick(world.with_intent(desired=desired), acts=False)
    return fail(world, reason)


@pytest.mark.parametrize("how", ["from-archive", "accept-empty"])
def test_a_home_that_is_not_lost_is_not_thrown_away(how: str) -> None:
    end, _ = run(asked(failed(ErrorReason.TIMEOUT), how))
    assert end.status.phase is Phase.ERROR
    assert end.status.home_store_key in end.whole


def test_other_errors_recover_plainly() -> None:
    end, _ = run(asked(failed(ErrorReason.TIMEOUT), "plain"))
    assert (end.status.phase, end.status.error_reason) == (Phase.RUNNING, None)


def test_an_unknown_word_recovers_nothing() -> None:
    before = failed(ErrorReason.TIMEOUT)
    end, _ = run(asked(before, "please"))
    assert end.status.phase is Phase.ERROR


def corrupted() -> World:
    world, _ = run(World(workspace(desired=DesiredState.ARCHIVED)))
    world, _ = tick(world.with_intent(desired=DesiredState.STANDBY), acts=False)
    return fail(world, ErrorReason.ARCHIVE_CORRUPTED)


def test_a_corrupted_archive_is_read_again_or_given_up() -> None:
    again, _ = run(asked(corrupted(), "plain"))
    assert again.status.archive_key in again.archives
    empty, seen = run(asked(corrupted(), "accept-empty"))
    assert claims(list(seen)) == [Operation.PROVISIONING]
    assert empty.status.archive_key is None


def test_a_container_without_a_volume_is_an_error_until_it_is_gone() -> None:
    bare = replace(World(workspace()), container=ContainerFact.RUNNING)
    end, _ = run(bare)
    assert end.status.error_reason is ErrorReason.CONTAINER_WITHOUT_VOLUME
    assert end.container is ContainerFact.RUNNING
    still, _ = run(asked(end, "plain"))
    assert still.status.phase is Phase.ERROR
    healed, _ = run(asked(replace(still, container=ContainerFact.ABSENT), "plain"))
    assert healed.status.phase is Phase.RUNNING


def test_a_container_without_a_volume_can_be_deleted() -> None:
    bare = replace(World(workspace()), container=ContainerFact.RUNNING)
    broken, _ = run(bare)
    going = broken.with_intent(desired=DesiredState.DELETED, source=IntentSource.CLI)
    stopping, _ = tick(going, acts=False)
    assert (stopping.status.phase, stopping.status.operation) == (
        Phase.DELETING,
        Operation.STOPPING,
    )
    end, _ = run(stopping)
    assert end.status.phase is Phase.DELETED
    assert end.container is ContainerFact.ABSENT
