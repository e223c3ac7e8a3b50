"""When an operation is done: its effect is observed, whatever its actuator said.

And which facts an operation cannot do without: no step rests on one that is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.judge import archive_ready, container_ready, volume_ready
from codehub.model.conditions import ContainerFact, Facts, Presence
from codehub.model.states import Operation

if TYPE_CHECKING:
    from codehub.model.workspace import Status, Workspace

NEEDS_ARCHIVE: Final = frozenset(
    {
        Operation.CREATE_EMPTY_ARCHIVE,
        Operation.RESTORING,
        Operation.ARCHIVING,
        Operation.DELETING,
    }
)
_NEEDS_STRAYS: Final = frozenset({Operation.ARCHIVING, Operation.DELETING})
"""They end when no volume is left; a retired one that is still there is a stray."""


def is_complete(workspace: Workspace, facts: Facts) -> bool:
    """Whether what the operation in flight is for has been observed."""
    status = workspace.status
    match status.operation:
        case Operation.PROVISIONING:
            return volume_ready(workspace, facts) is True
        case Operation.CREATE_EMPTY_ARCHIVE:
            return archive_ready(workspace, facts) is True
        case Operation.RESTORING:
            marker = status.home_ctx.restore_marker
            restored = marker is not None and marker == status.archive_key
            return restored and volume_ready(workspace, facts) is True
        case Operation.STARTING:
            home = volume_ready(workspace, facts) is True
            return home and container_ready(workspace, facts) is True
        case Operation.STOPPING:
            return facts.container is ContainerFact.ABSENT
        case Operation.ARCHIVING:
            saved = archive_ready(workspace, facts) is True and archived_by_this(status)
            return saved and _nothing_left(workspace, facts)
        case Operation.DELETING:
            gone = facts.container is ContainerFact.ABSENT
            return gone and _nothing_left(workspace, facts)
        case Operation.NONE:
            return False


def archived_by_this(status: Status) -> bool:
    """Whether the recorded archive was made by the operation in flight, not by an earlier one.

    Keys are `{hub_id}/{workspace_id}/{op_id}/{attempt}/home.tar.zst`.
    """
    parts = (status.archive_key or "").split("/")
    return status.op_id is not None and len(parts) == 5 and parts[2] == str(status.op_id)


def unknown_facts(workspace: Workspace, facts: Facts, operation: Operation) -> tuple[str, ...]:
    """The facts that `operation` needs and that are unknown; NONE asks what resting needs.

    What no key names is known without asking anyone: it is not there.
    """
    home, archive = volume_ready(workspace, facts), archive_ready(workspace, facts)
    archive_matters = not home or operation in NEEDS_ARCHIVE
    strays_matter = operation in _NEEDS_STRAYS
    unknown = {
        "container": facts.container is ContainerFact.UNKNOWN,
        "volume": home is None,
        "archive": archive is None and archive_matters,
        "strays": facts.strays is Presence.UNKNOWN and strays_matter,
    }
    return tuple(name for name, is_unknown in unknown.items() if is_unknown)


def _nothing_left(workspace: Workspace, facts: Facts) -> bool:
    no_volume = workspace.status.home_store_key is None or facts.volume is Presence.ABSENT
    return no_volume and facts.strays is Presence.ABSENT
