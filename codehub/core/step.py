"""The ordered machine: which operation leads from a phase one step towards a target.

`decide` takes one step at a time, `path` all of them, from the same table.
"""

from __future__ import annotations

from typing import Final

from codehub.model.states import LEVELS, DesiredState, Operation, Phase

RESULT: Final = {
    Operation.PROVISIONING: Phase.STANDBY,
    Operation.CREATE_EMPTY_ARCHIVE: Phase.ARCHIVED,
    Operation.RESTORING: Phase.STANDBY,
    Operation.STARTING: Phase.RUNNING,
    Operation.STOPPING: Phase.STANDBY,
    Operation.ARCHIVING: Phase.ARCHIVED,
    Operation.DELETING: Phase.DELETED,
}
"""The phase in which an operation ends."""

_NEXT: Final = {
    (Phase.PENDING, DesiredState.ARCHIVED): Operation.CREATE_EMPTY_ARCHIVE,
    (Phase.PENDING, DesiredState.STANDBY): Operation.PROVISIONING,
    (Phase.PENDING, DesiredState.RUNNING): Operation.PROVISIONING,
    (Phase.PENDING, DesiredState.DELETED): Operation.DELETING,
    (Phase.ARCHIVED, DesiredState.STANDBY): Operation.RESTORING,
    (Phase.ARCHIVED, DesiredState.RUNNING): Operation.RESTORING,
    (Phase.ARCHIVED, DesiredState.DELETED): Operation.DELETING,
    (Phase.STANDBY, DesiredState.RUNNING): Operation.STARTING,
    (Phase.STANDBY, DesiredState.ARCHIVED): Operation.ARCHIVING,
    (Phase.STANDBY, DesiredState.DELETED): Operation.ARCHIVING,
}


def next_operation(phase: Phase, target: DesiredState, *, container: bool) -> Operation:
    """One step from `phase` towards `target`; NONE when it is reached or no step leads there.

    `container` says that there is one, running or exited: it goes before anything else is lowered.
    """
    ordered = phase in LEVELS and phase is not Phase.DELETED
    if container and ordered and target is not DesiredState.RUNNING:
        return Operation.STOPPING
    return _NEXT.get((phase, target), Operation.NONE)
