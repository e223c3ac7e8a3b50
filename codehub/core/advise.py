"""What a person can do about a workspace in ERROR: one sentence for each reason.

Pages, the report and `explain` show it beside the message that was kept: with the commands that
help, or where there are buttons, with those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.recover import found_again
from codehub.model.states import DesiredState, ErrorReason
from codehub.model.view import LABELS, Action
from codehub.model.voice import Voice

if TYPE_CHECKING:
    from codehub.model.workspace import Workspace

_TRY_AGAIN: Final = f"“{LABELS[Action.RECOVER]}”"
_TAKE_ARCHIVE: Final = f"“{LABELS[Action.RECOVER_FROM_ARCHIVE]}”"
_START_EMPTY: Final = f"“{LABELS[Action.RECOVER_EMPTY]}”"

_COMMANDS: Final = {
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
_BUTTONS: Final = {
    ErrorReason.TIMEOUT: f"see in its logs what it said last, then press {_TRY_AGAIN}",
    ErrorReason.DATA_LOST: "look for the missing volume first; then choose {choice}",
    ErrorReason.IMAGE_PULL_FAILED: "correct the image at {source} or the access to its registry, "
    f"then press {_TRY_AGAIN}",
    ErrorReason.CONTAINER_WITHOUT_VOLUME: "somebody removed its volume by hand; bring the volume "
    f"back, or stop the container, then press {_TRY_AGAIN}",
    ErrorReason.ARCHIVE_CORRUPTED: f"the archive is kept as it is; {_TRY_AGAIN} tries it once "
    f"more, {_START_EMPTY} gives it up",
    ErrorReason.RETRY_EXCEEDED: f"remove the cause (its logs may show it), then press {_TRY_AGAIN}",
}
_ADVICE: Final = {Voice.COMMANDS: _COMMANDS, Voice.BUTTONS: _BUTTONS}
_OTHERWISE: Final = {
    Voice.COMMANDS: "'codehub explain {name}' tells more; then 'codehub recover {name}'",
    Voice.BUTTONS: f"see what happened to it, then press {_TRY_AGAIN}",
}
_FOUND: Final = {
    Voice.COMMANDS: "its {what} is there again: 'codehub recover {name}' takes it",
    Voice.BUTTONS: f"its {{what}} is there again: {_TRY_AGAIN} takes it",
}
_DELETION: Final = {
    Voice.COMMANDS: "its home could not be archived; 'codehub recover {name}' tries again, and an "
    "admin may give it up with 'codehub delete {name} --discard-data'",
    Voice.BUTTONS: f"its home could not be archived; {_TRY_AGAIN} does it once more, and an admin "
    "may give it up with 'codehub delete {name} --discard-data'",
}


def advise(workspace: Workspace, voice: Voice = Voice.COMMANDS) -> str:
    """What to do next; commands stand in quotes, as in all our messages."""
    status = workspace.status
    leaving = workspace.intent.desired is DesiredState.DELETED
    advice = _OTHERWISE[voice]
    if status.error_reason is not None:
        advice = _ADVICE[voice].get(status.error_reason, advice)
    if leaving and status.home_store_key is not None:
        advice = _DELETION[voice]
    elif found_again(workspace):
        advice = _FOUND[voice]
    return advice.format(
        name=workspace.name,
        source=workspace.declaration.source,
        choice=_choice(workspace, voice),
        what="archive" if status.home_store_key is None else "home",
    )


def _choice(workspace: Workspace, voice: Voice) -> str:
    """What may take the place of a lost home."""
    command = f"codehub recover {workspace.name}"
    archive, empty = f"'{command} --from-archive'", f"'{command} --accept-empty'"
    if voice is Voice.BUTTONS:
        archive, empty = _TAKE_ARCHIVE, _START_EMPTY
    return f"{archive} or {empty}" if workspace.status.archive_key else empty
