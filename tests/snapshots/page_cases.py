"""Every page that the hub serves, each made from the state of the world that brings it about."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.errors import LimitReached
from codehub.model.access import Identity, Person, Way
from codehub.model.explanation import Queued
from codehub.model.people import Role
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Intent, Override, Status
from codehub.proxy.hosts import HUB, Place
from codehub.proxy.notices import notice
from codehub.proxy.outcome import (
    MISSING,
    limited,
    no_answer,
    outcome,
    refused,
    unasked,
    unattended,
    unreadable,
    vanished,
)
from codehub.proxy.own_desk import old_page
from codehub.proxy.own_login import logged
from codehub.proxy.seam import RequestHead
from codehub.render.login_page import Login, login_link_page, login_page
from codehub.render.pages import Frame
from codehub.store.workspaces import Found
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.proxy.outcome import Outcome

MIB = 1024 * 1024
ALICE = Identity(
    Person(UUID(int=1), "alice", Role.MEMBER), Way.SESSION, UUID(int=2), csrf="c0ffee" * 8
)
AT_HOME = Place("payments-api.localhost", "payments-api")
LOWERED = Intent(DesiredState.STANDBY, IntentSource.TTL)
FORGOTTEN = Intent(DesiredState.ARCHIVED, IntentSource.TTL)
NAME = "payments-api"
FRAME = Frame(csrf="S" * 43, wanted="/w/payments-api/")


def found(
    phase: Phase,
    operation: Operation = Operation.NONE,
    *,
    queued: Queued | None = None,
    **fields: Any,
) -> Found:
    status = {"op_started_at": NOW - timedelta(seconds=8), **fields.pop("status", {})}
    fields.setdefault("intent", LOWERED)
    one = workspace(NAME, status=Status(phase, operation=operation, **status), **fields)
    return Found(one, NOW, "5c110904fbe7aa01", queued)


def said(result: Outcome | None, place: Place = HUB, identity: Identity | None = ALICE) -> str:
    """The page as alice gets it, or somebody who is not logged in."""
    assert result is not None
    target = b"/" if place.workspace else f"/w/{NAME}/lab?file=a".encode()
    browser = [(b"Accept", b"text/html"), (b"Sec-Fetch-Mode", b"navigate")]
    head = RequestHead(b"GET", target, browser, "127.0.0.1")
    answer = notice(head, result, identity, place=place)
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


def failed(reason: ErrorReason, message: str, **status: Any) -> Outcome | None:
    told = {"error_reason": reason, "error_message": message, **status}
    return outcome(found(Phase.ERROR, status=told))


def too_many(
    stoppable: tuple[str, ...] = ("web", "data-science"),
    hint: str = "stop one first, for example 'codehub stop web'",
) -> Outcome:
    return limited(
        NAME,
        LimitReached(
            f"alice may run 2 at once, and {NAME} would be number 3 "
            "(running or waiting: web, data-science)",
            hint=hint,
            limit=2,
            position=3,
            running=("web", "data-science"),
            stoppable=stoppable,
        ),
    )


def restoring() -> Outcome | None:
    progress = {"stage": "unpacking", "bytes": 503 * MIB, "total": 1198 * MIB}
    return outcome(found(Phase.ARCHIVED, Operation.RESTORING, status={"op_progress": progress}))


def queued() -> Outcome | None:
    place = Queued(1, 2, "alice", ("web", "data-science"), ("web", "data-science"))
    return outcome(found(Phase.STANDBY, intent=Intent(DesiredState.RUNNING), queued=place))


def overridden() -> Outcome | None:
    override = Override(DesiredState.STANDBY, NOW + timedelta(hours=1), "database maintenance")
    return outcome(found(Phase.STANDBY, intent=Intent(DesiredState.STANDBY, override=override)))


def asleep(**fields: Any) -> Outcome:
    return unwoken(found(Phase.STANDBY, **fields))


def unwoken(state: Found) -> Outcome:
    result = outcome(state)
    assert result is not None
    return unasked(result)


def asked(state: DesiredState) -> Intent:
    return Intent(state, IntentSource.CLI, NOW - timedelta(hours=2), "bob")


PAGES: dict[str, Callable[[], str]] = {
    "loading": lambda: said(outcome(found(Phase.STANDBY, Operation.STARTING))),
    "waking": lambda: said(outcome(found(Phase.STANDBY))),
    "waking-archived": lambda: said(
        outcome(found(Phase.ARCHIVED, wake_from=DesiredState.ARCHIVED))
    ),
    "provisioning": lambda: said(outcome(found(Phase.PENDING, Operation.PROVISIONING))),
    "stopping": lambda: said(outcome(found(Phase.RUNNING, Operation.STOPPING))),
    "restoring": lambda: said(restoring()),
    "provisioning-unasked": lambda: said(unwoken(found(Phase.PENDING, Operation.PROVISIONING))),
    "asleep": lambda: said(asleep()),
    "asleep-asked": lambda: said(asleep(intent=asked(DesiredState.STANDBY))),
    "asleep-new": lambda: said(asleep(intent=Intent(DesiredState.STANDBY))),
    "archived": lambda: said(outcome(found(Phase.ARCHIVED, intent=FORGOTTEN))),
    "archived-asked": lambda: said(
        outcome(found(Phase.ARCHIVED, intent=asked(DesiredState.ARCHIVED)))
    ),
    "pending": lambda: said(outcome(found(Phase.PENDING))),
    "error": lambda: said(
        failed(ErrorReason.RETRY_EXCEEDED, "the command ended with code 1 right after its start")
    ),
    "lost": lambda: said(
        failed(ErrorReason.DATA_LOST, "its volume is not there", archive_key="hub/1/2/home.tar.zst")
    ),
    "old-page": lambda: said(old_page(f"/w/{NAME}/")),
    "suspended": lambda: said(outcome(found(Phase.STANDBY, suspend=True))),
    "held": lambda: said(outcome(found(Phase.STANDBY, declared_state=DesiredState.STANDBY))),
    "overridden": lambda: said(overridden()),
    "refused": lambda: said(refused(NAME, "it is being deleted", "put it back into the specs")),
    "limit": lambda: said(too_many()),
    "limit-in-part": lambda: said(too_many(stoppable=("web",))),
    "limit-for-good": lambda: said(
        too_many((), "none of them can be stopped now: try again later")
    ),
    "limit-at-home": lambda: said(too_many(), AT_HOME),
    "queued": lambda: said(queued()),
    "missing": lambda: said(MISSING),
    "gone": lambda: said(no_answer(NAME)),
    "gone-at-home": lambda: said(no_answer(NAME), AT_HOME),
    "vanished": lambda: said(vanished(NAME)),
    "unavailable": lambda: said(unreadable()),
    "dashboard-away": lambda: said(unattended()),
    "logout": lambda: said(logged(ALICE)),
    "logged-out": lambda: said(logged(None), identity=None),
    "login": lambda: login_page(Login(), FRAME).text,
    "login-again": lambda: (
        login_page(
            Login("alice", "Too many failed logins; the next one can be tried in 4 seconds."), FRAME
        ).text
    ),
    "login-link": lambda: login_link_page("A" * 43, FRAME).text,
}
"""Each page by its name."""
