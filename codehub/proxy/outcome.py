"""What a request gets that cannot be forwarded, by the state of its workspace.

A pure table: first match wins. A visit is a person's; only visits wake, and whoever did not wake
anything is told so (`unasked`). Whoever gets to see these answers may also press their buttons:
everybody else is told that there is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from codehub.core.advise import advise
from codehub.core.express import short
from codehub.core.hold import active_override
from codehub.core.summarise import progress
from codehub.core.target import aim, ceiling
from codehub.model.reasons import WORDS
from codehub.model.states import DesiredState, ErrorReason, Operation, Phase
from codehub.model.voice import Voice
from codehub.proxy.buttons import act, in_the_way, logs, recoveries
from codehub.proxy.causes import why_archived, why_stopped
from codehub.render.pages import Sign, Trouble, Waiting
from codehub.render.words import capital

if TYPE_CHECKING:
    from codehub.errors import LimitReached
    from codehub.model.workspace import Workspace
    from codehub.store.workspaces import Found

BAD_GATEWAY: Final = HTTPStatus.BAD_GATEWAY
UNAVAILABLE: Final = HTTPStatus.SERVICE_UNAVAILABLE
TOO_MANY: Final = HTTPStatus.TOO_MANY_REQUESTS

FOLLOW: Final = "/_codehub/follow/"


@dataclass(frozen=True, slots=True)
class _Doing:
    """What is said of an operation: where the workspace comes afterwards, and where it does not."""

    title: str
    coming: str
    staying: str


_LATER: Final = "It can be started when that is done."
_DOING: Final = {
    Operation.PROVISIONING: _Doing(
        "Preparing {name}",
        "Its home is being made; then it starts and opens here.",
        f"Its home is being made. {_LATER}",
    ),
    Operation.CREATE_EMPTY_ARCHIVE: _Doing(
        "Preparing {name}",
        "Its archive is being made; then it starts and opens here.",
        f"Its archive is being made. {_LATER}",
    ),
    Operation.RESTORING: _Doing(
        "Restoring {name}",
        "Its home is coming back from the archive; then it starts and opens here.",
        f"Its home is coming back from the archive. {_LATER}",
    ),
    Operation.STARTING: _Doing(
        "Starting {name}",
        "It opens here as soon as it answers.",
        "It is still starting, and will be stopped again as soon as it runs.",
    ),
    Operation.STOPPING: _Doing(
        "Stopping {name}",
        "It is being stopped; then it starts again and opens here.",
        "It is being stopped.",
    ),
    Operation.ARCHIVING: _Doing(
        "Archiving {name}",
        "Its home is being archived; then it comes back and opens here.",
        "Its home is being archived.",
    ),
    Operation.DELETING: _Doing(
        "Deleting {name}",
        "It is being deleted; its last archive is kept.",
        "It is being deleted; its last archive is kept.",
    ),
}
_LOGGED: Final = frozenset({ErrorReason.TIMEOUT, ErrorReason.RETRY_EXCEEDED})
"""Errors of which its logs may show the cause."""
_WITH_HOME: Final = frozenset(_DOING) - {Operation.CREATE_EMPTY_ARCHIVE, Operation.DELETING}
"""Operations in which there is a home, or will be: a visit asks for what goes on from there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer in place of the workspace's own; `wakes` where a visit asks for it first.

    `resting` is what to say instead where nobody did. `told` is the status for programs, where it
    is another one than for people. `of_hub` is for what is no workspace's matter: there a problem
    is titled by its status, as the API's are.
    """

    status: HTTPStatus
    said: Waiting | Trouble
    wakes: bool = False
    resting: Waiting | Trouble | None = None
    told: HTTPStatus | None = None
    of_hub: bool = False


MISSING: Final = Outcome(
    HTTPStatus.NOT_FOUND,
    Trouble(
        "Not found", "There is no such workspace here.", "check the address", sign=Sign.MISSING
    ),
)


def outcome(found: Found | None) -> Outcome | None:
    """What to answer; None to forward the request."""
    if found is None or found.workspace.status.phase is Phase.DELETED:
        return MISSING
    workspace = found.workspace
    status = workspace.status
    if status.phase is Phase.ERROR:
        return _failed(workspace)
    if workspace.intent.desired is DesiredState.DELETED:
        return MISSING
    if status.phase is Phase.RUNNING and status.operation is Operation.NONE:
        return None
    if workspace.declaration.suspend:
        return _suspended(workspace)
    if ceiling(workspace, found.read_at) is not DesiredState.RUNNING:
        return _held(found)
    if status.operation is not Operation.NONE:
        return _busy(found)
    return _resting(found)


def unasked(result: Outcome) -> Outcome:
    """What to say of it to somebody who did not wake it: a tab that reloads itself, a program."""
    if not result.wakes:
        return result
    return replace(result, said=result.resting or result.said, wakes=False, resting=None)


def no_answer(name: str) -> Outcome:
    """The workspace runs, as far as we know, but nothing answers at its port."""
    message = "It is running, but does not answer at its port."
    said = Trouble(
        f"{name} does not answer",
        message,
        f"see what it says with 'codehub logs {name}'",
        refresh=5,
        alarm=True,
        links=(logs(name),),
        pressing="see in its logs what it says",
    )
    return Outcome(BAD_GATEWAY, said)


def vanished(name: str) -> Outcome:
    """The workspace was running a moment ago; the hub will notice."""
    message = "It has just stopped; the hub is looking into it."
    return Outcome(UNAVAILABLE, Waiting(f"{name} has stopped", message, follow=FOLLOW + name))


def unreadable() -> Outcome:
    """Nobody can say what there is: the database gives no answer."""
    message = "The hub cannot read its database. Workspaces and their files are not affected."
    said = Trouble("Unavailable", message, alarm=True, refresh=5, home=False)
    return Outcome(UNAVAILABLE, said, of_hub=True)


def unattended() -> Outcome:
    """What is behind the proxy gives no answer: the database and the workspaces may well be fine.

    The way home is left open: in place of the dashboard there is what the proxy knows itself.
    """
    message = (
        "The part of the hub that serves dashboard and API cannot be reached. "
        "Workspaces run on, and open at their addresses."
    )
    advice = (
        "wait a moment; if it stays so, tell an admin: "
        "'codehub serve web' has to run where WEB_URL says"
    )
    said = Trouble("The dashboard does not answer", message, advice, alarm=True, refresh=5)
    return Outcome(UNAVAILABLE, said, of_hub=True)


def starting() -> Outcome:
    """The hub itself has only just begun."""
    said = Waiting("CodeHub is starting", "The first report is on its way.", home=False)
    return Outcome(UNAVAILABLE, said, of_hub=True)


def refused(name: str, message: str, hint: str) -> Outcome:
    """Somebody came, and the rules do not let the workspace run."""
    said = Trouble(f"{name} cannot start", f"{message}.", hint, sign=Sign.HELD)
    return Outcome(BAD_GATEWAY, said)


def limited(name: str, limit: LimitReached) -> Outcome:
    """Somebody came, and as many run as may: one of them can be stopped instead."""
    # Those that run are listed below the sentence, with buttons.
    message = limit.message.partition(" (running or waiting")[0].replace("this hub", "This hub")
    said = Trouble(
        f"{name} cannot start yet",
        f"{message}.",
        limit.hint or "",
        sign=Sign.HELD,
        choices=in_the_way(name, limit.running, limit.stoppable),
        buttons=(act(name, "start", "Try again"),),
        pressing="stop one of these; then it starts" if limit.stoppable else "",
    )
    return Outcome(BAD_GATEWAY, said, told=TOO_MANY)


def _failed(workspace: Workspace) -> Outcome:
    status = workspace.status
    if workspace.intent.recover_requested is not None:
        message = "Recovery was asked for; the hub tries again in a moment."
        title = f"Recovering {workspace.name}"
        said = Waiting(title, message, follow=FOLLOW + workspace.name)
        return Outcome(BAD_GATEWAY, said)
    reason = status.error_reason
    words = capital(WORDS[reason] if reason else "something went wrong")
    trouble = Trouble(
        f"{workspace.name} has a problem",
        f"{words}: {status.error_message}" if status.error_message else f"{words}.",
        advise(workspace),
        (_where(workspace),),
        alarm=True,
        buttons=tuple(recoveries(workspace)),
        links=(logs(workspace.name),) if reason in _LOGGED else (),
        pressing=advise(workspace, Voice.BUTTONS),
        code=reason or "",
    )
    return Outcome(BAD_GATEWAY, trouble)


def _suspended(workspace: Workspace) -> Outcome:
    message = "It is suspended, so nothing moves it."
    advice = f"remove 'suspend: true' in {workspace.declaration.source.file} to let it run"
    said = Trouble(
        f"{workspace.name} is suspended", message, advice, (_where(workspace),), sign=Sign.HELD
    )
    return Outcome(BAD_GATEWAY, said)


def _busy(found: Found) -> Outcome:
    workspace = found.workspace
    status = workspace.status
    doing = _DOING[status.operation]
    done = progress(status)
    span = f"for {short(found.read_at - status.op_started_at)}" if status.op_started_at else ""
    words = ", ".join(part for part in (done.words, span) if part) if done else span
    details = words[:1].upper() + words[1:] if done or not span else f"Under way {span}"
    coming = Waiting(
        doing.title.format(name=workspace.name),
        doing.coming,
        tuple(each for each in (details, _trouble(workspace)) if each),
        done.part if done else None,
        follow=FOLLOW + workspace.name,
    )
    if aim(workspace, found.read_at) is DesiredState.RUNNING:
        return Outcome(UNAVAILABLE, coming)
    staying = replace(coming, message=doing.staying)
    if _visits_wake(workspace):
        return Outcome(UNAVAILABLE, coming, wakes=True, resting=staying)
    return Outcome(UNAVAILABLE, staying)


def _visits_wake(workspace: Workspace) -> bool:
    """Whether a visit asks for it during the operation in flight.

    `wakeFrom` keeps visits from restoring. A restore under way was asked for by somebody else.
    """
    operation = workspace.status.operation
    if operation is Operation.CREATE_EMPTY_ARCHIVE:
        return workspace.declaration.wake_from is DesiredState.ARCHIVED
    return operation in _WITH_HOME


def _trouble(workspace: Workspace) -> str:
    """What went wrong before: it is being tried again, but whoever waits may want to know."""
    status = workspace.status
    if status.error_reason is None:
        return ""
    message = f": {status.error_message}" if status.error_message else ""
    return f"Trying again, since {WORDS[status.error_reason]} ({status.error_reason}){message}"


def _resting(found: Found) -> Outcome:
    workspace, now = found.workspace, found.read_at
    name, phase = workspace.name, workspace.status.phase
    if aim(workspace, now) is DesiredState.RUNNING:
        return _coming(found)
    wakes_archived = workspace.declaration.wake_from is DesiredState.ARCHIVED
    if phase is Phase.STANDBY or (phase is Phase.ARCHIVED and wakes_archived):
        return _waking(found)
    if phase is Phase.ARCHIVED:
        return Outcome(BAD_GATEWAY, _restorable(name, why_archived(found)))
    return Outcome(BAD_GATEWAY, _startable(name, f"{name} is not started", "It was never started."))


def _startable(name: str, title: str, message: str) -> Trouble:
    """It rests, and whoever sees this may start it."""
    return Trouble(
        title,
        message,
        f"start it with 'codehub start {name}'",
        sign=Sign.ASLEEP,
        buttons=(act(name, "start", f"Start {name}"),),
        pressing="start it here",
    )


def _restorable(name: str, message: str) -> Trouble:
    """Its home is archived, and whoever sees this may have it back."""
    return Trouble(
        f"{name} is archived",
        message,
        f"restore it with 'codehub restore {name} --start'",
        sign=Sign.ARCHIVED,
        buttons=(act(name, "restore", f"Restore {name}"),),
        pressing="restore it here",
    )


def _coming(found: Found) -> Outcome:
    """It wants to run, and may; it begins as soon as a limit leaves it a place."""
    workspace, queued = found.workspace, found.queued
    trouble = tuple(each for each in (_trouble(workspace),) if each)
    follow = FOLLOW + workspace.name
    if queued is None:
        title = f"{workspace.name} is about to start"
        message = "It starts as soon as it is its turn."
        return Outcome(UNAVAILABLE, Waiting(title, message, trouble, follow=follow))
    whose = f"{queued.owner} may run" if queued.owner else "This hub runs"
    said = Waiting(
        f"{workspace.name} waits for a place",
        f"{whose} {queued.limit} at once. It is number {queued.position} in the queue.",
        trouble,
        follow=follow,
        choices=in_the_way(workspace.name, queued.running, queued.stoppable),
    )
    return Outcome(BAD_GATEWAY, said, told=TOO_MANY)


def _waking(found: Found) -> Outcome:
    name = found.workspace.name
    if found.workspace.status.phase is Phase.ARCHIVED:
        message = "Its home comes back from the archive; then it starts and opens here."
        resting = _restorable(name, why_archived(found))
    else:
        message = "It was asleep. It opens here as soon as it answers."
        resting = _startable(name, f"{name} is asleep", why_stopped(found))
    said = Waiting(f"Waking {name}", message, follow=FOLLOW + name)
    return Outcome(UNAVAILABLE, said, wakes=True, resting=resting)


def _held(found: Found) -> Outcome:
    workspace = found.workspace
    title, highest = f"{workspace.name} is held", ceiling(workspace, found.read_at)
    override = active_override(workspace, found.read_at)
    if override is not None and not workspace.declaration.pinned:
        message = f"An override keeps it at {highest} until {override.until:%Y-%m-%d %H:%M %Z}."
        advice = "an admin can end it with 'codehub override --clear'"
        said = Trouble(title, message, advice, (override.reason,), sign=Sign.HELD)
        return Outcome(BAD_GATEWAY, said)
    commit = f", commit {found.commit[:12]}" if found.commit else ""
    message = f"Its spec keeps it at {highest}: {workspace.declaration.source}{commit}."
    advice = f"change desiredState in {workspace.declaration.source.file}"
    return Outcome(BAD_GATEWAY, Trouble(title, message, advice, sign=Sign.HELD))


def _where(workspace: Workspace) -> str:
    owner = f"owner {workspace.declaration.owner}"
    return owner if workspace.orphaned else f"Declared at {workspace.declaration.source}, {owner}"
