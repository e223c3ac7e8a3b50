"""What is offered with a workspace is permitted, whatever state it is in."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.core.present import actions, present, version
from codehub.errors import Refused
from codehub.model.plan import PlanOptions
from codehub.model.states import (
    DesiredState,
    ErrorReason,
    IntentSource,
    Operation,
    Phase,
    RecoverMode,
)
from codehub.model.view import Action
from codehub.model.workspace import Activity, Intent, Override, Status
from codehub.service.permit import check_desired, check_recover
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.model.workspace import Workspace

GOALS = {
    Action.START: DesiredState.RUNNING,
    Action.RESTORE: DesiredState.RUNNING,
    Action.STOP: DesiredState.STANDBY,
    Action.ARCHIVE: DesiredState.ARCHIVED,
    Action.DELETE: DesiredState.DELETED,
}
MODES = {
    Action.RECOVER: RecoverMode.PLAIN,
    Action.RECOVER_FROM_ARCHIVE: RecoverMode.FROM_ARCHIVE,
    Action.RECOVER_EMPTY: RecoverMode.ACCEPT_EMPTY,
}
CEILINGS = (DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.ARCHIVED)
LATER, EARLIER = NOW + timedelta(hours=1), NOW - timedelta(hours=1)
OVERRIDES = (
    None,
    Override(DesiredState.STANDBY, LATER, "held"),
    Override(DesiredState.RUNNING, LATER, "demo"),
    Override(DesiredState.RUNNING, EARLIER, "over"),
)
FLAGS: tuple[dict[str, Any], ...] = ({}, {"pinned": True}, {"suspend": True}, {"orphaned": True})


def status(
    phase: Phase, operation: Operation, reason: ErrorReason | None, key: str | None
) -> Status:
    busy = operation is not Operation.NONE
    return Status(
        phase,
        phase_changed_at=NOW,
        operation=operation,
        op_id=UUID(int=1) if busy else None,
        op_started_at=NOW if busy else None,
        error_reason=reason,
        archive_key=key,
    )


def at_rest_or_busy() -> Iterator[Workspace]:
    phases = [each for each in Phase if each not in (Phase.ERROR, Phase.DELETED)]
    operations = (Operation.NONE, Operation.STARTING)
    for phase, operation, desired, ceiling, override, flags in product(
        phases, operations, DesiredState, CEILINGS, OVERRIDES, FLAGS
    ):
        yield workspace(
            intent=Intent(desired, override=override),
            status=status(phase, operation, None, None),
            declared_state=ceiling,
            **flags,
        )


def in_error() -> Iterator[Workspace]:
    for reason, key, desired, flags in product(
        (None, *ErrorReason), (None, "api/1.tar.zst"), DesiredState, FLAGS
    ):
        yield workspace(
            intent=Intent(desired), status=status(Phase.ERROR, Operation.NONE, reason, key), **flags
        )


def permitted(one: Workspace, action: Action) -> bool:
    """Whether somebody who asks for it through the API is let."""
    try:
        if action in GOALS:
            check_desired(one, GOALS[action], IntentSource.API, now=NOW)
        elif action in MODES:
            check_recover(one, MODES[action])
    except Refused:
        return False
    return True


def test_what_is_offered_is_permitted() -> None:
    every = [*at_rest_or_busy(), *in_error()]
    offered = [(one, action) for one in every for action in actions(one, NOW)]
    assert {action for _, action in offered} == set(Action), "some button is never there"
    assert [pair for pair in offered if not permitted(*pair)] == []


def test_everything_that_helps_in_error_is_offered() -> None:
    for one in in_error():
        could = {action for action in MODES if permitted(one, action)}
        # An archive that is corrupt is offered once more by a plain recovery.
        if one.status.error_reason is ErrorReason.ARCHIVE_CORRUPTED:
            could.discard(Action.RECOVER_FROM_ARCHIVE)
        assert could == set(actions(one, NOW)) & set(MODES), one.status


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (Phase.PENDING, (Action.START,)),
        (Phase.RUNNING, (Action.OPEN, Action.STOP, Action.ARCHIVE)),
        (Phase.STANDBY, (Action.START, Action.ARCHIVE)),
        (Phase.ARCHIVED, (Action.RESTORE,)),
        (Phase.ERROR, (Action.RECOVER,)),
        (Phase.DELETING, ()),
    ],
)
def test_each_phase_has_its_buttons(phase: Phase, expected: tuple[Action, ...]) -> None:
    assert actions(workspace(status=Status(phase)), NOW) == expected


def test_what_is_under_way_or_leaves_has_no_buttons() -> None:
    busy = workspace(status=status(Phase.STANDBY, Operation.STARTING, None, None))
    leaving = workspace(desired=DesiredState.DELETED, status=Status(Phase.RUNNING), orphaned=True)
    assert actions(busy, NOW) == actions(leaving, NOW) == ()


def test_only_what_no_spec_declares_can_be_deleted() -> None:
    one = workspace(status=Status(Phase.STANDBY))
    assert Action.DELETE not in actions(one, NOW)
    assert Action.DELETE in actions(replace(one, orphaned=True), NOW)


def test_the_ceiling_takes_the_start_away() -> None:
    one = workspace(status=Status(Phase.STANDBY), declared_state=DesiredState.STANDBY)
    assert actions(one, NOW) == (Action.ARCHIVE,)


def test_the_version_moves_with_what_one_decides_on_and_with_nothing_else() -> None:
    one = workspace(status=Status(Phase.RUNNING))
    moved = [
        replace(one, intent=Intent(DesiredState.STANDBY)),
        replace(one, intent=Intent(DesiredState.RUNNING, override=OVERRIDES[1])),
        replace(one, intent=Intent(DesiredState.RUNNING, recover_requested="plain")),
        replace(one, status=Status(Phase.STANDBY)),
        replace(one, status=status(Phase.RUNNING, Operation.STOPPING, None, None)),
        replace(one, generation=2),
        replace(one, orphaned=True),
    ]
    assert len({version(each, NOW) for each in (one, *moved)}) == len(moved) + 1
    active = replace(one, activity=Activity(NOW, "input"))
    seen = replace(one, status=replace(one.status, observed_at=NOW))
    assert version(active, NOW) == version(seen, NOW) == version(one, LATER)


def test_the_version_moves_when_an_override_ends() -> None:
    plain = workspace(status=Status(Phase.STANDBY), declared_state=DesiredState.STANDBY)
    raised = replace(plain, intent=replace(plain.intent, override=OVERRIDES[2]))
    just_before = LATER - timedelta(microseconds=1)
    assert version(raised, NOW) == version(raised, just_before) != version(plain, NOW)
    assert version(raised, LATER) == version(plain, NOW), "as if there had been none"
    assert actions(raised, just_before) != actions(raised, LATER) == actions(plain, LATER)


def test_a_view_tells_why_what_next_and_what_to_do() -> None:
    options = PlanOptions(standby_ttl=600)
    running = workspace(
        intent=Intent(DesiredState.RUNNING, at=NOW),
        status=Status(Phase.RUNNING, phase_changed_at=NOW),
        activity=Activity(NOW, "input"),
    )
    view = present(running, NOW, options)
    assert (view.why, view.advice, view.progress) == ("as declared", "", None)
    assert view.next_move is not None
    assert view.next_move.at == NOW + timedelta(seconds=600)
    broken = workspace(status=Status(Phase.ERROR, error_reason=ErrorReason.RETRY_EXCEEDED))
    assert "codehub recover api" in present(broken, NOW, options).advice
