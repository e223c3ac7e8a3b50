"""The controller's next thing to do, told as stories in a small world."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from codehub.core.decide import decide
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.decision import (
    DISCARD_DATA,
    Claim,
    Complete,
    Continue,
    Fail,
    Nothing,
    RemoveStrays,
    Retry,
    Rules,
    Settle,
    Wait,
)
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Activity, Status, UpdatePolicy, Workspace
from tests.make import NOW, workspace
from tests.unit.machine_world import (
    HOME,
    RULES,
    World,
    fail,
    observe,
    run,
    tick,
)

MINUTE = timedelta(minutes=1)


def world(desired: DesiredState = DesiredState.RUNNING, **declared: Any) -> World:
    """A workspace that was brought where it is desired, a minute ago."""
    arrived, _ = run(World(workspace(desired=desired, **declared)))
    return later(arrived)


def later(world: World, wait: timedelta = MINUTE) -> World:
    return replace(world, now=world.now + wait)


def decided(world: World, rules: Rules = RULES) -> object:
    return decide(world.workspace, observe(world), world.now, rules)


def crashed(world: World) -> World:
    return replace(world, container=ContainerFact.EXITED)


def test_an_unplanned_exit_is_a_failure_and_is_started_again_later() -> None:
    after, decision = tick(crashed(world()))
    assert isinstance(decision, Retry)
    assert (after.status.phase, after.status.error_count) == (Phase.STANDBY, 1)
    assert decided(after) == Wait(decision.retry_at, "the container exited and is started again")
    after = replace(after, now=decision.retry_at)
    assert isinstance(starting := decided(after), Claim)
    assert starting.operation is Operation.STARTING


def test_a_crash_loop_ends_in_error() -> None:
    hub = world()
    for failures in (1, 2, 3):
        hub, _ = run(crashed(later(hub)))
        assert (hub.status.phase, hub.status.error_count) == (Phase.RUNNING, failures)
    hub, _ = run(crashed(later(hub)))
    assert hub.status.phase is Phase.ERROR
    assert hub.status.error_reason is ErrorReason.RETRY_EXCEEDED
    assert hub.status.error_message == "its command ended, and nobody stopped it"


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (Facts(ContainerFact.EXITED, exit_code=3), "its command ended with exit code 3"),
        (Facts(ContainerFact.EXITED, exit_code=0), "its command ended with exit code 0"),
        (Facts(ContainerFact.EXITED), "its command ended"),
        (Facts(ContainerFact.ABSENT), "its container is gone"),
    ],
)
def test_an_unplanned_exit_says_how_it_ended(seen: Facts, says: str) -> None:
    status = Status(Phase.RUNNING, home_store_key=HOME)
    there = replace(seen, volume=Presence.PRESENT, archive=Presence.ABSENT)
    decision = decide(workspace(status=status), there, NOW, RULES)
    assert isinstance(decision, Retry)
    assert decision.message == f"{says}, and nobody stopped it"


def test_five_good_minutes_forgive_earlier_failures() -> None:
    hub, _ = run(crashed(world()))
    assert isinstance(decided(later(hub, 4 * MINUTE)), Nothing)
    settled, decision = tick(later(hub, 5 * MINUTE))
    assert isinstance(decision, Settle)
    assert settled.status.error_count == 0


def test_an_exit_is_no_failure_where_nothing_should_run() -> None:
    stopped = crashed(world()).with_intent(desired=DesiredState.STANDBY, source=IntentSource.CLI)
    after, decision = tick(stopped)
    assert isinstance(decision, Claim)
    assert decision.operation is Operation.STOPPING
    assert after.status.error_count == 0


def test_a_wait_for_the_next_start_does_not_hold_back_deletion() -> None:
    waiting, _ = tick(crashed(world()))
    going = waiting.with_intent(desired=DesiredState.DELETED, source=IntentSource.CLI)
    assert isinstance(decided(going), Claim)
    end, _ = run(going)
    assert end.status.phase is Phase.DELETED


def test_a_suspended_workspace_is_left_alone_whatever_happens_to_it() -> None:
    hub = world()
    declaration = replace(hub.workspace.declaration, suspend=True)
    alone = replace(crashed(hub), workspace=replace(hub.workspace, declaration=declaration))
    alone = replace(alone, volumes=alone.volumes | {"stray"})
    assert decided(alone) == Nothing("suspended at specs/api.yaml:1")


def outdated(update: UpdatePolicy, **fields: Any) -> World:
    hub = world(update=update)
    return replace(hub, workspace=replace(hub.workspace, template_digest="t2", **fields))


def test_an_immediate_update_makes_the_container_anew() -> None:
    end, seen = run(outdated(UpdatePolicy.IMMEDIATE))
    claimed = [decision.operation for _, decision in seen if isinstance(decision, Claim)]
    assert claimed == [Operation.STOPPING, Operation.STARTING]
    assert end.status.container_template == "t2"


def test_an_update_waits_for_the_next_start_or_for_the_people_in_it() -> None:
    assert isinstance(decided(outdated(UpdatePolicy.NEXT_START)), Nothing)
    busy = outdated(UpdatePolicy.IMMEDIATE, activity=Activity(NOW + MINUTE), declared_at=NOW)
    assert decided(busy) == Wait(NOW + 6 * MINUTE, "the update waits while somebody works in it")


def test_strays_are_removed_when_nothing_else_is_to_do() -> None:
    hub = world(DesiredState.STANDBY)
    littered = replace(hub, volumes=hub.volumes | {"stray"})
    assert isinstance(decided(littered), RemoveStrays)
    wanted = littered.with_intent(desired=DesiredState.RUNNING)
    assert isinstance(decided(wanted), Claim)
    end, _ = run(littered)
    assert end.volumes == hub.volumes


def test_strays_of_the_deleted_are_removed_too() -> None:
    gone = world(DesiredState.DELETED)
    assert isinstance(decided(gone), Nothing)
    assert isinstance(decided(replace(gone, volumes=frozenset({"late"}))), RemoveStrays)


def flying(operation: Operation, **fields: Any) -> Workspace:
    fields = {"op_started_at": NOW, "home_store_key": HOME, **fields}
    return workspace(status=Status(operation=operation, **fields))


UP = Facts(ContainerFact.RUNNING, True, Presence.PRESENT, True, Presence.ABSENT)
DOWN = Facts(ContainerFact.ABSENT, False, Presence.PRESENT, True, Presence.ABSENT)


def test_what_is_done_is_done_even_too_late_or_after_a_failure() -> None:
    retry_at = NOW + 600 * MINUTE
    late = flying(Operation.STARTING, retry_at=retry_at, error_count=2)
    done = decide(late, UP, NOW + 500 * MINUTE, RULES)
    assert done == Complete(Operation.STARTING, Phase.RUNNING, error_count=2)


def test_other_operations_than_a_start_forgive_when_they_complete() -> None:
    done = decide(flying(Operation.STOPPING, error_count=2), DOWN, NOW, RULES)
    assert done == Complete(Operation.STOPPING, Phase.STANDBY, error_count=0)


def test_in_flight_it_goes_on_waits_for_the_next_try_and_times_out() -> None:
    row = flying(Operation.STARTING)
    until = NOW + 2 * MINUTE
    assert decide(row, DOWN, NOW, RULES) == Continue(Operation.STARTING, until)
    assert decide(row, DOWN, until, RULES) == Fail(
        ErrorReason.TIMEOUT, "STARTING got nowhere in 120 s", Operation.STARTING, 1
    )
    assert decide(row, replace(UP, port_answered=False), until, RULES) == Fail(
        ErrorReason.TIMEOUT, "its port did not answer within 120 s", Operation.STARTING, 1
    )
    trying = flying(Operation.STARTING, retry_at=until)
    assert decide(trying, DOWN, NOW, RULES) == Wait(until, "STARTING failed and is tried again")


def test_time_spent_unknown_does_not_count() -> None:
    hub, _ = tick(World(workspace()), acts=False)
    blind, _ = tick(replace(later(hub, timedelta(seconds=1)), blind_engine=True))
    seeing = replace(later(blind, 60 * MINUTE), blind_engine=False)
    seen, decision = tick(seeing, acts=False)
    assert isinstance(decision, Continue)
    assert isinstance(decided(later(seen, MINUTE)), Fail)


def test_a_volume_that_vanishes_while_it_is_archived_is_lost_data() -> None:
    hub = world(DesiredState.STANDBY).with_intent(desired=DesiredState.ARCHIVED)
    hub, _ = tick(hub, acts=False)
    robbed, decision = tick(replace(hub, volumes=frozenset(), whole=frozenset()))
    assert isinstance(decision, Fail)
    assert robbed.status.error_reason is ErrorReason.DATA_LOST
    assert robbed.status.operation is Operation.NONE


def test_what_is_stopped_for_its_deletion_without_a_home_is_told_of_the_loss_at_once() -> None:
    hub = world().with_intent(desired=DesiredState.DELETED, source=IntentSource.CLI)
    hub, _ = tick(hub, acts=False)
    robbed = replace(hub, volumes=frozenset(), whole=frozenset())
    stopped, decision = tick(replace(robbed, container=ContainerFact.ABSENT))
    assert isinstance(decision, Fail)
    assert (stopped.status.phase, stopped.status.operation) == (Phase.ERROR, Operation.NONE)
    assert stopped.status.error_reason is ErrorReason.DATA_LOST


def failing_archive() -> World:
    """Deleted by a person, and its last archive fails again and again."""
    hub = world(DesiredState.STANDBY)
    hub = hub.with_intent(desired=DesiredState.DELETED, source=IntentSource.CLI, at=hub.now)
    hub, _ = tick(hub, acts=False)
    for _ in range(4):
        hub = fail(later(hub), ErrorReason.ACTION_FAILED)
    assert (hub.status.phase, hub.status.operation) == (Phase.ERROR, Operation.NONE)
    return later(hub)


def test_a_deletion_that_cannot_archive_keeps_the_volume_and_waits() -> None:
    end, seen = run(failing_archive())
    assert [type(decision) for _, decision in seen] == [Nothing]
    assert end.status.home_store_key in end.volumes


@pytest.mark.parametrize("asked", ["plain", DISCARD_DATA])
def test_recovery_or_an_admin_lets_the_deletion_go_on(asked: str) -> None:
    end, seen = run(failing_archive().with_intent(recover_requested=asked))
    claimed = [decision.operation for _, decision in seen if isinstance(decision, Claim)]
    archived = Operation.ARCHIVING in claimed
    assert end.status.phase is Phase.DELETED
    assert archived is (asked == "plain")
    assert not end.volumes


def test_asking_for_the_deletion_anew_tries_anew() -> None:
    hub = failing_archive()
    end, _ = run(later(hub).with_intent(at=hub.now + timedelta(seconds=30)))
    assert end.status.phase is Phase.DELETED
    assert end.archives


def test_a_failed_start_does_not_stand_in_the_way_of_deletion() -> None:
    hub = world(DesiredState.STANDBY).with_intent(desired=DesiredState.RUNNING)
    hub, _ = tick(hub, acts=False)
    hub = hub.with_intent(desired=DesiredState.DELETED, source=IntentSource.CLI, at=hub.now)
    hub = fail(later(hub), ErrorReason.IMAGE_PULL_FAILED)
    assert hub.status.phase is Phase.ERROR
    end, _ = run(hub)
    assert end.status.phase is Phase.DELETED


def test_what_is_wanted_again_within_the_retention_comes_back_with_its_archive() -> None:
    gone, _ = run(world().with_intent(desired=DesiredState.DELETED, source=IntentSource.CLI))
    back, seen = run(later(gone).with_intent(desired=DesiredState.RUNNING))
    claimed = [decision.operation for _, decision in seen if isinstance(decision, Claim)]
    assert back.status.phase is Phase.RUNNING
    assert claimed == [Operation.RESTORING, Operation.STARTING]


def test_what_was_purged_stays_deleted() -> None:
    gone, _ = run(world().with_intent(desired=DesiredState.DELETED, source=IntentSource.CLI))
    purged = later(gone).with_status(purged_at=gone.now).with_intent(desired=DesiredState.RUNNING)
    assert decided(purged) == Nothing("deleted")


def test_a_refused_claim_is_decided_again() -> None:
    hub = world(DesiredState.STANDBY).with_intent(desired=DesiredState.RUNNING)
    assert decided(hub) == decided(later(hub, timedelta(hours=9)))
