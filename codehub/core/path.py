"""The operations that lead from a phase to a desired state, for plans and explanations.

Made of the same steps that the controller takes, so what a plan shows is what will happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codehub.core.step import RESULT, next_operation
from codehub.model.states import DesiredState, Operation, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator


def path(
    phase: Phase, target: DesiredState | None, *, held_data: bool = False, outdated: bool = False
) -> tuple[str, ...]:
    """Phases and operations in turn, beginning with a phase; only that when there is nothing to do.

    `target` None is a workspace that is left where it is. `held_data` says that there is a home
    somewhere: what was deleted comes back from its archive, what is in ERROR is archived before
    it is deleted. `outdated` says that its container must be made anew (`update: immediate`).
    """
    if target is None:
        return (phase.value,)
    if phase is Phase.ERROR:
        return _out_of_error(target, held_data)
    if outdated and phase is Phase.RUNNING and target is DesiredState.RUNNING:
        return (phase.value, Operation.STOPPING.value, *_steps(Phase.STANDBY, target))
    return tuple(_steps(_start(phase, target, held_data), target))


def _start(phase: Phase, target: DesiredState, held_data: bool) -> Phase:
    """A deleted workspace that comes back begins where its last archive left it."""
    gone = phase is Phase.DELETED and target is not DesiredState.DELETED
    if held_data and (gone or phase is Phase.PENDING):
        return Phase.ARCHIVED
    return Phase.PENDING if gone else phase


def _steps(phase: Phase, target: DesiredState) -> Iterator[str]:
    yield phase.value
    operation = next_operation(phase, target, container=phase is Phase.RUNNING)
    while operation is not Operation.NONE:
        yield operation.value
        phase = RESULT[operation]
        yield phase.value
        operation = next_operation(phase, target, container=phase is Phase.RUNNING)


def _out_of_error(target: DesiredState, held_data: bool) -> tuple[str, ...]:
    if target is not DesiredState.DELETED:
        return (Phase.ERROR.value,)
    first = Operation.ARCHIVING if held_data else Operation.DELETING
    return (Phase.ERROR.value, first.value, *_steps(RESULT[first], target))
