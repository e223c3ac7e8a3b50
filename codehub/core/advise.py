"""What a person can do about a workspace in ERROR: one sentence for each reason.

Pages, the report and `explain` show it beside the message that was kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.model.states import DesiredState, ErrorReason

if TYPE_CHECKING:
    from codehub.model.workspace import Workspace

_ADVICE: Final = {
    ErrorReason.TIMEOUT: "see what it said last with 'codehub logs {name}', "
    "then 'codehub recover {name}'",
    ErrorReason.DATA_LOST: "look for the missing volume first; then choose {choice}",
    ErrorReason.IMAGE_PULL_FAILED: "correct the image at {source} or the access to its registry, "
    "then 'codehub recover {name}'",
    ErrorReason.CONTAINER_WITHOUT_VOLUME: "somebody removed its volume by hand; bring the volume "
    "back, or stop the container, then 'codehub recover {name}'",
    ErrorReason.ARCHIVE_CORRUPTED: "the archive is kept as it is; 'codehub recover {name}' tries "
    "it again, 'codehub recover {name} --accept-empty' gives it up",
    ErrorReason.RETRY_EXCEEDED: "remove the cause ('codehub logs {name}' may show it), "
    "then 'codehub recover {name}'",
}
_OTHERWISE: Final = "'codehub explain {name}' tells more; then 'codehub recover {name}'"
_DELETION: Final = (
    "its home could not be archived; 'codehub recover {name}' tries again, and an admin may give "
    "it up with 'codehub delete {name} --discard-data'"
)


def advise(workspace: Workspace) -> str:
    """What to do next; commands stand in quotes, as in all our messages."""
    status = workspace.status
    leaving = workspace.intent.desired is DesiredState.DELETED
    advice = _OTHERWISE
    if status.error_reason is not None:
        advice = _ADVICE.get(status.error_reason, _OTHERWISE)
    if leaving and status.home_store_key is not None:
        advice = _DELETION
    return advice.format(
        name=workspace.name, source=workspace.declaration.source, choice=_choice(workspace)
    )


def _choice(workspace: Workspace) -> str:
    command = f"codehub recover {workspace.name}"
    empty = f"'{command} --accept-empty'"
    return f"'{command} --from-archive' or {empty}" if workspace.status.archive_key else empty
