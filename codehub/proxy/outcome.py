"""What a request gets that cannot be forwarded, by the state of its workspace.

A pure table: first match wins. A visit is a person's; only visits wake.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from codehub.core.advise import advise
from codehub.core.express import short
from codehub.core.hold import active_override
from codehub.core.summarise import progress
from codehub.core.target import aim, ceiling
from codehub.model.states import DesiredState, Operation, Phase
from codehub.render.pages import Trouble, Waiting

if TYPE_CHECKING:
    from codehub.model.workspace import Workspace
    from codehub.store.workspaces import Found

BAD_GATEWAY: Final = HTTPStatus.BAD_GATEWAY
UNAVAILABLE: Final = HTTPStatus.SERVICE_UNAVAILABLE

_DOING: Final = {
    Operation.PROVISIONING: ("Preparing {name}", "Its home is being made; then it starts."),
    Operation.CREATE_EMPTY_ARCHIVE: ("Preparing {name}", "Its archive is being made."),
    Operation.RESTORING: ("Restoring {name}", "Its home is coming back from the archive."),
    Operation.STARTING: ("Starting {name}", "It opens here as soon as it answers."),
    Operation.STOPPING: ("Stopping {name}", "It is being stopped; then it starts again for you."),
    Operation.ARCHIVING: (
        "Archiving {name}",
        "Its home is being archived; then it comes back for you.",
    ),
    Operation.DELETING: ("Deleting {name}", "It is being deleted; its last archive is kept."),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer in place of the workspace's own; `wakes` where a visit asks for it first."""

    status: HTTPStatus
    said: Waiting | Trouble
    wakes: bool = False


MISSING: Final = Outcome(
    HTTPStatus.NOT_FOUND,
    Trouble("Not found", "There is no such workspace here.", "check the address"),
)


def outcome(found: Found | None) -> Outcome | None:
    """What to answer; None to forward the request."""
    if found is None or found.workspace.status.phase is Phase.DELETED:
        return MISSING
    workspace = found.workspace
    status = workspace.status
    if status.phase is Phase.ERROR:
        return _failed(workspace)
    if status.phase is Phase.RUNNING and status.operation is Operation.NONE:
        return None
    if workspace.intent.desired is DesiredState.DELETED:
        return MISSING
    if workspace.declaration.suspend:
        return _suspended(workspace)
    if status.operation is not Operation.NONE:
        return _busy(found)
    return _resting(found)


def no_answer(name: str) -> Outcome:
    """The workspace runs, as far as we know, but nothing answers at its port."""
    message = "It is running, but does not answer at its port."
    advice = f"see what it says with 'codehub logs {name}'"
    return Outcome(BAD_GATEWAY, Trouble(f"{name} does not answer", message, advice, refresh=5))


def vanished(name: str) -> Outcome:
    """The workspace was running a moment ago; the hub will notice."""
    message = "It has just stopped; the hub is looking into it."
    return Outcome(UNAVAILABLE, Waiting(f"{name} has stopped", message))


def unreadable() -> Outcome:
    """Nobody can say what there is: the database gives no answer."""
    message = "The hub cannot read its database. Workspaces and their files are not affected."
    return Outcome(UNAVAILABLE, Trouble("Unavailable", message, alarm=True, refresh=5))


def refused(name: str, message: str, hint: str) -> Outcome:
    """Somebody came, and the rules do not let the workspace run."""
    return Outcome(BAD_GATEWAY, Trouble(f"{name} cannot start", f"{message}.", hint))


def _failed(workspace: Workspace) -> Outcome:
    status = workspace.status
    reason = f"{status.error_reason}: " if status.error_reason else ""
    message = reason + (status.error_message or "no message was kept")
    said = Trouble(
        f"{workspace.name} needs a person",
        message,
        advise(workspace),
        (_where(workspace),),
        alarm=True,
    )
    return Outcome(BAD_GATEWAY, said)


def _suspended(workspace: Workspace) -> Outcome:
    message = "It is suspended, so nothing moves it."
    advice = f"remove 'suspend: true' in {workspace.declaration.source.file} to let it run"
    said = Trouble(f"{workspace.name} is suspended", message, advice, (_where(workspace),))
    return Outcome(BAD_GATEWAY, said)


def _busy(found: Found) -> Outcome:
    workspace = found.workspace
    status = workspace.status
    title, message = _DOING[status.operation]
    done = progress(status)
    since = f"for {short(found.read_at - status.op_started_at)}" if status.op_started_at else ""
    details = ", ".join(part for part in (done.words if done else "", since) if part)
    said = Waiting(
        title.format(name=workspace.name),
        message,
        tuple(each for each in (details, _trouble(workspace)) if each),
        done.part if done else None,
    )
    return Outcome(
        UNAVAILABLE, said, wakes=status.operation in (Operation.STOPPING, Operation.ARCHIVING)
    )


def _trouble(workspace: Workspace) -> str:
    """What went wrong before: it is being tried again, but whoever waits may want to know."""
    status = workspace.status
    if status.error_reason is None:
        return ""
    message = f": {status.error_message}" if status.error_message else ""
    return f"Tried again after {status.error_reason}{message}"


def _resting(found: Found) -> Outcome:
    workspace, now = found.workspace, found.read_at
    name, phase = workspace.name, workspace.status.phase
    if aim(workspace, now) is DesiredState.RUNNING:
        message = "It starts as soon as it is its turn."
        trouble = tuple(each for each in (_trouble(workspace),) if each)
        return Outcome(UNAVAILABLE, Waiting(f"{name} is about to start", message, trouble))
    if ceiling(workspace, now) is not DesiredState.RUNNING:
        return _held(found)
    wakes_archived = workspace.declaration.wake_from is DesiredState.ARCHIVED
    if phase is Phase.STANDBY or (phase is Phase.ARCHIVED and wakes_archived):
        said = Waiting(f"Waking {name}", "It was asleep. It opens here as soon as it answers.")
        return Outcome(UNAVAILABLE, said, wakes=True)
    if phase is Phase.ARCHIVED:
        message = "Nobody used it for a while, so its home was archived. Nothing is lost."
        advice = f"bring it back with 'codehub restore {name} --start'"
        return Outcome(BAD_GATEWAY, Trouble(f"{name} is archived", message, advice))
    message, advice = "It was never started.", f"start it with 'codehub start {name}'"
    return Outcome(BAD_GATEWAY, Trouble(f"{name} is not started", message, advice))


def _held(found: Found) -> Outcome:
    workspace = found.workspace
    highest = ceiling(workspace, found.read_at)
    override = active_override(workspace, found.read_at)
    if override is not None and not workspace.declaration.pinned:
        message = f"An override keeps it at {highest} until {override.until:%Y-%m-%d %H:%M %Z}."
        advice = "an admin can end it with 'codehub override --clear'"
        said = Trouble(f"{workspace.name} is held", message, advice, (override.reason,))
        return Outcome(BAD_GATEWAY, said)
    commit = f", commit {found.commit[:12]}" if found.commit else ""
    message = f"Its spec keeps it at {highest}: {workspace.declaration.source}{commit}."
    advice = f"change desiredState in {workspace.declaration.source.file}"
    return Outcome(BAD_GATEWAY, Trouble(f"{workspace.name} is held", message, advice))


def _where(workspace: Workspace) -> str:
    owner = f"owner {workspace.declaration.owner}"
    return owner if workspace.orphaned else f"Declared at {workspace.declaration.source}, {owner}"
