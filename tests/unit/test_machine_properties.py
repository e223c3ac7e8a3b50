"""What the state machine promises, whatever the state: checked on many states, none by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.core.decide import decide
from codehub.core.judge import calculate_phase, judge
from codehub.core.record import record
from codehub.core.step import RESULT
from codehub.core.target import aim, ceiling, target
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.decision import (
    Claim,
    Complete,
    Decision,
    Drain,
    Fail,
    Nothing,
    Recover,
    Wait,
)
from codehub.model.states import (
    LEVELS,
    PHASE_OF,
    DesiredState,
    ErrorReason,
    Operation,
    Phase,
    RecoverMode,
)
from codehub.model.workspace import Intent, Status
from tests.make import NOW, workspace
from tests.unit.machine_world import (
    HOME,
    OLD_KEY,
    OP,
    PRESENCES,
    RULES,
    World,
    archive_key,
    broken_worlds,
    desired_states,
    facts,
    fail,
    observe,
    run,
    sound_worlds,
    tick,
    workspaces,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.model.workspace import Workspace

OPERATIONS_AT_MOST = 5
MANY = settings(max_examples=200, deadline=None)
SOME = settings(max_examples=80, deadline=None)


@MANY
@given(sound_worlds())
def test_any_state_reaches_the_desired_one_in_at_most_five_operations(world: World) -> None:
    end, seen = run(world)
    wanted = aim(end.workspace, end.now)
    assert wanted is not None
    assert end.status.phase is PHASE_OF[wanted]
    assert sum(isinstance(decision, Complete) for _, decision in seen) <= OPERATIONS_AT_MOST


@MANY
@given(sound_worlds())
def test_steps_go_towards_the_target_and_never_past_it(world: World) -> None:
    _, seen = run(world)
    for before, decision in seen:
        if not isinstance(decision, Claim) or decision.why.startswith("its template"):
            continue
        wanted = aim(before.workspace, before.now)
        assert wanted is not None
        phase = calculate_phase(before.workspace, observe(before))
        start, end, goal = (LEVELS[s] for s in (phase, RESULT[decision.operation], wanted))
        assert start <= end <= goal or start >= end >= goal


@SOME
@given(sound_worlds())
def test_a_converged_state_decides_nothing_and_writes_nothing(world: World) -> None:
    end, _ = run(world)
    unbound, _ = run(_tomorrow(end))
    settled, _ = run(_tomorrow(unbound))
    later = _tomorrow(settled)
    row = later.workspace
    decision = decide(row, observe(later), later.now, RULES)
    judgement = judge(row, observe(later), later.now)
    assert isinstance(decision, Nothing)
    stored = record(row, judgement, decision, now=later.now, op_id=row.id)
    assert stored is row.status


def _tomorrow(world: World) -> World:
    """Long enough for overrides to end, or for failures to be forgotten."""
    return replace(world, now=world.now + timedelta(days=1))


@SOME
@given(sound_worlds(suspend=True))
def test_a_suspended_workspace_begins_nothing_but_its_deletion(world: World) -> None:
    end, seen = run(world)
    claims = [decision for _, decision in seen if isinstance(decision, Claim)]
    deleted = world.workspace.intent.desired is DesiredState.DELETED
    assert end.status.operation is Operation.NONE
    assert deleted or not claims


@MANY
@given(broken_worlds())
def test_deletion_succeeds_from_any_wreck(world: World) -> None:
    end, seen = run(world.with_intent(desired=DesiredState.DELETED, at=NOW + timedelta(days=1)))
    assert end.status.phase is Phase.DELETED
    assert not end.volumes
    assert end.container is ContainerFact.ABSENT
    assert sum(isinstance(decision, Complete) for _, decision in seen) <= OPERATIONS_AT_MOST


@MANY
@given(broken_worlds())
def test_error_stays_until_somebody_recovers_it_and_leaves_the_world_alone(world: World) -> None:
    world = world.with_intent(desired=DesiredState.RUNNING, override=None)
    end, _ = run(world)
    if end.status.phase is not Phase.ERROR:
        return
    again, seen = run(replace(end, now=end.now + timedelta(days=30)))
    assert replace(again, now=end.now) == end
    assert [type(decision) for _, decision in seen] == [Nothing]


@MANY
@given(broken_worlds(), st.sampled_from([RecoverMode.FROM_ARCHIVE, RecoverMode.ACCEPT_EMPTY]))
def test_recovery_leads_out_of_every_error(world: World, mode: RecoverMode) -> None:
    end, _ = run(world.with_intent(desired=DesiredState.RUNNING))
    if end.status.phase is not Phase.ERROR:
        return
    lost = end.status.error_reason is ErrorReason.DATA_LOST
    archived = end.status.archive_key in end.archives
    chosen = mode if lost and (archived or mode is RecoverMode.ACCEPT_EMPTY) else RecoverMode.PLAIN
    if lost and chosen is RecoverMode.PLAIN:
        chosen = RecoverMode.ACCEPT_EMPTY
    tidied = replace(end, container=ContainerFact.ABSENT)
    healed, _ = run(tidied.with_intent(recover_requested=chosen.value))
    wanted = aim(healed.workspace, healed.now)
    assert wanted is not None
    assert healed.status.phase is PHASE_OF[wanted]


@MANY
@given(workspaces(), facts)
def test_error_implies_no_operation(row: Workspace, seen: Facts) -> None:
    decision = decide(row, seen, NOW, RULES)
    stored = record(row, judge(row, seen, NOW), decision, now=NOW, op_id=row.id)
    if stored.phase is Phase.ERROR:
        assert stored.operation is Operation.NONE
    if isinstance(decision, Fail):
        assert (stored.phase, stored.error_reason) == (Phase.ERROR, decision.reason)


@MANY
@given(workspaces(), facts)
def test_no_action_rests_on_an_unknown_fact(row: Workspace, seen: Facts) -> None:
    """What is done although something is unknown is done whatever that turns out to be."""
    decision = decide(row, seen, NOW, RULES)
    if isinstance(decision, Nothing | Wait):
        return
    for known in _revelations(seen):
        assert _same_act(decide(row, known, NOW, RULES), decision)


def test_no_row_at_all_acts_on_an_unknown_fact() -> None:
    """The same without chance: every kind of row, every combination of facts."""
    acted = 0
    for row in _every_kind_of_row():
        decisions = {seen: decide(row, seen, NOW, RULES) for seen in EVERY_FACT}
        for seen, decision in decisions.items():
            if not isinstance(decision, Nothing | Wait):
                acted += 1
                assert all(_same_act(decisions[known], decision) for known in REVEALED[seen])
    assert acted > 1000


def _revelations(seen: Facts) -> list[Facts]:
    """Everything that the unknown facts may turn out to be."""
    containers = [c for c in ContainerFact if c is not ContainerFact.UNKNOWN]
    there = [Presence.ABSENT, Presence.PRESENT]
    choices = product(
        containers if seen.container is ContainerFact.UNKNOWN else [seen.container],
        there if seen.volume is Presence.UNKNOWN else [seen.volume],
        [*there, Presence.DAMAGED] if seen.archive is Presence.UNKNOWN else [seen.archive],
        there if seen.strays is Presence.UNKNOWN else [seen.strays],
    )
    return [
        replace(seen, container=container, volume=volume, archive=archive, strays=strays)
        for container, volume, archive, strays in choices
    ]


EVERY_FACT = [
    Facts(container, True, volume, whole, archive, strays)
    for container in ContainerFact
    for volume, whole in product(PRESENCES, (True, False))
    for archive, strays in product(Presence, PRESENCES)
]
REVEALED = {seen: _revelations(seen) for seen in EVERY_FACT}


def _every_kind_of_row() -> Iterator[Workspace]:
    homes, archives = (None, HOME), (None, OLD_KEY, archive_key(OP))
    wanted = (DesiredState.RUNNING, DesiredState.ARCHIVED, DesiredState.DELETED)
    for home, key, desired in product(homes, archives, wanted):
        status = Status(phase=Phase.STANDBY, op_id=OP, home_store_key=home, archive_key=key)
        for operation in Operation:
            flying = replace(status, operation=operation, op_started_at=NOW)
            yield workspace(desired=desired, status=flying)
        for reason, asked in product(ErrorReason, (None, *RecoverMode, "discard-data")):
            erred = replace(status, phase=Phase.ERROR, error_reason=reason)
            intent = Intent(desired, recover_requested=asked)
            yield workspace(intent=intent, status=erred)
        yield workspace(desired=desired, status=replace(status, deleted_at=NOW))


def _same_act(one: Decision, other: Decision) -> bool:
    """Phases and reasons told with an act may depend on more than the act itself."""
    if isinstance(one, Claim) and isinstance(other, Claim):
        return one.operation is other.operation
    if isinstance(one, Fail) and isinstance(other, Fail):
        return one.operation is other.operation
    if isinstance(one, Complete) and isinstance(other, Complete):
        return one.operation is other.operation
    return one == other


@MANY
@given(workspaces(), facts)
def test_the_target_never_exceeds_the_ceiling(row: Workspace, seen: Facts) -> None:
    for drain in (Drain(), Drain(skip=True)):
        steered = target(row, NOW, drain)
        assert steered is None or LEVELS[steered] <= LEVELS[ceiling(row, NOW)]
    decision = decide(row, seen, NOW, RULES)
    if isinstance(decision, Claim) and decision.operation is Operation.STARTING:
        assert ceiling(row, NOW) is DesiredState.RUNNING


@MANY
@given(workspaces(), facts)
def test_what_has_a_home_or_an_archive_is_never_pending(row: Workspace, seen: Facts) -> None:
    row = replace(row, status=replace(row.status, phase=Phase.STANDBY))
    if row.status.home_store_key is not None or row.status.archive_key is not None:
        assert calculate_phase(row, seen) is not Phase.PENDING
        decision = decide(row, seen, NOW, RULES)
        assert not _makes_an_empty_home(decision)


def _makes_an_empty_home(decision: Decision) -> bool:
    empty = (Operation.PROVISIONING, Operation.CREATE_EMPTY_ARCHIVE)
    return isinstance(decision, Claim) and decision.operation in empty


happenings = st.one_of(
    st.tuples(st.just("desire"), desired_states),
    st.tuples(st.just("fail"), st.sampled_from(ErrorReason)),
    st.tuples(st.just("engine"), st.booleans()),
    st.tuples(st.just("store"), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([1, 60, 3600])),
    st.tuples(st.just("recover"), st.sampled_from(["plain", "from-archive"])),
    st.tuples(st.just("tick"), st.booleans()),
    st.tuples(st.just("tick"), st.just(True)),
    st.tuples(st.just("remove"), st.sampled_from(["container", "volume", "archive"])),
)


@settings(max_examples=200, deadline=None)
@given(sound_worlds(), st.lists(happenings, max_size=60))
def test_data_is_never_replaced_by_an_empty_home(
    world: World, story: list[tuple[str, object]]
) -> None:
    """Through crashes, failures, blindness and theft: no PENDING after data, no new empty home.

    And unless somebody took it away, a whole copy is in the home or in an archive at every moment.
    """
    world, _ = tick(world, acts=False)
    held, stolen = _has_held_data(world), False
    for what, how in story:
        after, decision = _happen(world, what, how)
        stolen = stolen or (what, how) in (("remove", "volume"), ("remove", "archive"))
        if held:
            assert decision is None or after.status.phase is not Phase.PENDING
            assert decision is None or not _makes_an_empty_home(decision)
            assert stolen or _holds_data(after)
        world, held = after, held or _has_held_data(after)


def _has_held_data(world: World) -> bool:
    """Nobody could write into a home whose making has not been observed."""
    making = (Operation.PROVISIONING, Operation.CREATE_EMPTY_ARCHIVE)
    return _holds_data(world) and world.status.operation not in making


def _holds_data(world: World) -> bool:
    """A whole copy that the row refers to; an empty archive counts, for it stands for the home."""
    status = world.status
    return status.home_store_key in world.whole or status.archive_key in world.archives


def _happen(world: World, what: str, how: object) -> tuple[World, Decision | None]:
    world = replace(world, now=world.now + timedelta(seconds=1))
    match what, how:
        case "tick", bool(acts):
            return tick(world, acts=acts)
        case "fail", ErrorReason() as reason:
            return fail(world, reason), None
        case "desire", DesiredState() as state:
            return world.with_intent(desired=state, at=world.now), None
        case "recover", str(mode):
            return world.with_intent(recover_requested=mode), None
        case "wait", int(seconds):
            return replace(world, now=world.now + timedelta(seconds=seconds)), None
        case "engine", bool(blind):
            return replace(world, blind_engine=blind), None
        case "store", bool(blind):
            return replace(world, blind_store=blind), None
        case "remove", str(thing):
            return _remove(world, thing), None
    raise AssertionError(what)


def _remove(world: World, thing: str) -> World:
    if thing == "volume":
        return replace(world, volumes=frozenset(), whole=frozenset())
    if thing == "archive":
        return replace(world, archives=frozenset())
    return replace(world, container=ContainerFact.ABSENT)


@SOME
@given(sound_worlds(), st.booleans())
def test_a_blind_hub_claims_and_fails_nothing(world: World, store: bool) -> None:
    """Hours of an engine that does not answer stop nobody and time nothing out."""
    world = replace(world, blind_engine=True, blind_store=store)
    for hours in (0, 1, 2, 3):
        world, decision = tick(replace(world, now=world.now + timedelta(hours=hours)))
        assert isinstance(decision, Nothing | Wait)
    seeing = replace(world, blind_engine=False, blind_store=False)
    _, after = tick(seeing)
    assert not isinstance(after, Fail | Recover)
