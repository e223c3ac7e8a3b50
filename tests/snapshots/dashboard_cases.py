"""Every page of the dashboard, each made from a state of the world that brings it about."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.core.explain import explain
from codehub.core.present import present
from codehub.core.summarise import summarise
from codehub.errors import Conflict, LimitReached
from codehub.model.access import AccessEvent, AccessKind, Issued, Person, Scope, Token
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.events import Event, EventKind
from codehub.model.explanation import Circumstances, Customs, Leadership, Queued
from codehub.model.history import Span
from codehub.model.people import Hub, Role
from codehub.model.plan import PlanOptions
from codehub.model.revision import HubState
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.voice import Voice
from codehub.model.webhook import Backlog, Receiver
from codehub.model.workspace import Activity, Intent, Runtime, Source, Status
from codehub.render.dashboard import Flash, Shell
from codehub.render.dashboard_admin import Administration, Someone, admin_page
from codehub.render.dashboard_home import (
    Filter,
    Home,
    Paging,
    Use,
    home_page,
    row_fragment,
    summary_fragment,
)
from codehub.render.dashboard_row import Row
from codehub.render.dashboard_tokens import Wish
from codehub.render.dashboard_tokens import tokens_page as page_of_tokens
from codehub.render.dashboard_workspace import About, logs_page, workspace_page
from codehub.render.pages import Frame, served
from codehub.web.pages.actions import limit_notice, refusal_notice
from tests.make import NOW, workspace
from tests.snapshots.report_cases import BAD, GOOD, INTERACTIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from codehub.model.workspace import Workspace
    from codehub.render.pages import Rendered

MIB = 1024 * 1024
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
OPTIONS = PlanOptions()
PROOF = "c0ffee" * 8
ALICE = Shell("alice", admin=True, csrf=PROOF, now=NOW, section="home", hub="atlas")
BOB = Shell("bob", admin=False, csrf=PROOF, now=NOW, section="home")
YOURS = "places of yours in use"
LEADER = Leadership(held=True, holder="hub-1:4711", epoch=7, since=NOW - 5 * HOUR)


def one(name: str, phase: Phase, *, number: int = 1, **more: Any) -> Workspace:
    """A workspace that is where it is desired to be, unless something else is said."""
    seen = {"phase_changed_at": NOW - 2 * HOUR, "observed_generation": 1}
    status = {**seen, **more.pop("status", {})}
    desired = DesiredState(phase.value) if phase.value in DesiredState.__members__ else None
    more.setdefault(
        "intent", Intent(desired or DesiredState.RUNNING, IntentSource.SPEC, NOW - 3 * HOUR, "git")
    )
    more.setdefault("ttl", INTERACTIVE)
    more.setdefault("source", Source(f"workspaces/{name}.yaml", 4))
    made = workspace(name, number=number, status=Status(phase, **status), **more)
    return replace(made, spec_revision=GOOD.id)


def running() -> Workspace:
    ready = Condition(ConditionStatus.TRUE, "Answers", "", NOW - 2 * HOUR)
    return one(
        "payments-api",
        Phase.RUNNING,
        number=1,
        description="The payments service and its sandbox",
        labels={"team": "payments", "tier": "1"},
        runtime=Runtime.DOCKER,
        image="registry.example.com/dev:1.4",
        memo="Ask #payments before you change its data",
        activity=Activity(NOW - 4 * MINUTE, "input"),
        status={
            "conditions": {
                ConditionName.VOLUME_READY: replace(ready, reason="Mounted"),
                ConditionName.CONTAINER_READY: ready,
                ConditionName.ARCHIVE_READY: Condition(
                    ConditionStatus.UNKNOWN, "Unreachable", "the store gave no answer", NOW - HOUR
                ),
                ConditionName.HEALTHY: replace(ready, reason="InvariantsHold"),
            },
            "home_store_key": "home-g3",
            "home_generation": 3,
            "archive_key": "hub/1/3/home.tar.zst",
            "archive_bytes": 700 * MIB,
            "archive_sha256": "5f2c" * 16,
            "observed_at": NOW - 3 * SECOND,
        },
    )


def restoring() -> Workspace:
    return one(
        "ml-notebooks",
        Phase.ARCHIVED,
        number=2,
        owner="bob",
        description="Notebooks of the forecasting team",
        intent=Intent(DesiredState.RUNNING, IntentSource.API, NOW - MINUTE, "bob"),
        status={
            "operation": Operation.RESTORING,
            "op_started_at": NOW - MINUTE,
            "op_progress": {"stage": "unpacking", "bytes": 503 * MIB, "total": 1198 * MIB},
            "archive_key": "hub/2/5/home.tar.zst",
            "archive_bytes": 1198 * MIB,
        },
    )


def asleep() -> Workspace:
    return one(
        "storefront",
        Phase.STANDBY,
        number=3,
        owner="bob",
        intent=Intent(DesiredState.STANDBY, IntentSource.TTL, NOW - 2 * HOUR, "ttl"),
        activity=Activity(NOW - 5 * HOUR, "traffic"),
    )


def failed(**status: Any) -> Workspace:
    told = {
        "error_reason": ErrorReason.RETRY_EXCEEDED,
        "error_message": "the command ended with exit code 137 before its port answered",
        "error_count": 4,
        "phase_changed_at": NOW - 12 * MINUTE,
    }
    return one("search-index", Phase.ERROR, number=4, status=told | status)


def _false(reason: str, message: str = "") -> Condition:
    return Condition(ConditionStatus.FALSE, reason, message, NOW - 12 * MINUTE)


def lost() -> Workspace:
    return failed(
        error_reason=ErrorReason.DATA_LOST,
        error_message="its volume is not there",
        archive_key="hub/4/1/home.tar.zst",
        archive_bytes=24 * MIB,
        conditions={
            ConditionName.VOLUME_READY: _false("VolumeMissing"),
            ConditionName.ARCHIVE_READY: Condition(ConditionStatus.TRUE, "ArchiveCommitted"),
            ConditionName.CONTAINER_READY: _false("NoContainer"),
            ConditionName.HEALTHY: _false("DataLost", "the volume home-g1 is gone"),
        },
    )


def waiting() -> Workspace:
    """Asked to run a while ago, and behind a limit."""
    return one(
        "docs-preview",
        Phase.STANDBY,
        number=5,
        intent=Intent(DesiredState.RUNNING, IntentSource.API, NOW - 3 * MINUTE, "alice"),
    )


def fleet() -> list[Workspace]:
    kept = {"archive_key": "hub/7/2/home.tar.zst", "archive_bytes": 12 * MIB}
    return [
        waiting(),
        restoring(),
        one("nightly-report", Phase.PENDING, number=6, owner="bob"),
        running(),
        one("old-prototype", Phase.ARCHIVED, number=7, orphaned=True, status=kept),
        failed(),
        asleep(),
    ]


PLACES = {
    "alice": ("payments-api", "docs-preview"),
    "bob": ("ml-notebooks", "nightly-report"),
}
"""What counts of the fleet: it runs, or is to run and may. Each of them may have two at once."""
ALL_PLACES, EVERYBODY = sum(map(len, PLACES.values())), 20


def uses(name: str) -> list[Use]:
    return [Use(len(PLACES[name]), 2, YOURS), Use(ALL_PLACES, EVERYBODY, "in all")]


def row(each: Workspace, now: datetime = NOW) -> Row:
    return Row(present(each, now, OPTIONS, Voice.BUTTONS), f"http://{each.name}.localhost:8080/")


def home(*, owner: str = "", **more: Any) -> Home:
    """As an admin sees it, or the owner of some."""
    found = sorted(fleet(), key=lambda each: each.name)
    if owner:
        found = [each for each in found if each.declaration.owner == owner]
    counts = {phase: sum(each.status.phase is phase for each in found) for phase in Phase}
    given: dict[str, Any] = {
        "rows": [row(each) for each in found],
        "counts": {phase: count for phase, count in counts.items() if count},
        "uses": uses(owner)[:1] if owner else uses("alice"),
        "owners": () if owner else ["alice", "bob"],
    }
    return Home(**given | more)


def narrowed(text: str) -> str:
    """A list as the hub answers a filter; what two letters find does not fit on one page."""
    rows = [each for each in home().rows if text in each.name]
    more = Paging(following="/?after=x") if len(text) < 3 else Paging()
    return home_page(home(rows=rows, paging=more, sought=Filter(text)), ALICE).text


def about(
    each: Workspace, *, queued: Queued | None = None, now: datetime = NOW, **more: Any
) -> About:
    events = _audit(each)
    around = Circumstances(
        now=now,
        commit="5c110904fbe7aa01",
        moved=next(event for event in events if event.kind is EventKind.DESIRED),
        leader=LEADER,
        queued=queued,
        drained_at=NOW - 20 * SECOND,
    )
    explanation = explain(each, around, Customs(voice=Voice.BUTTONS))
    return About(row(each, now), explanation, OPTIONS, events=events, spans=_spans(each), **more)


def _way(each: Workspace) -> tuple[Phase, Phase, Phase]:
    """How it came to be where it is."""
    match each.status.phase:
        case Phase.STANDBY:
            return Phase.ARCHIVED, Phase.RUNNING, Phase.STANDBY
        case Phase.ERROR:
            return Phase.STANDBY, Phase.RUNNING, Phase.ERROR
        case phase:
            return Phase.RUNNING, Phase.STANDBY, phase


def _turned(each: Workspace) -> datetime:
    """When it left the first of them."""
    asked = each.intent.at or NOW
    return asked + MINUTE if each.status.phase is Phase.ERROR else NOW - 15 * HOUR


def _spans(each: Workspace) -> tuple[Span, ...]:
    times = (NOW - 20 * HOUR, _turned(each), each.status.phase_changed_at or NOW, NOW)
    return tuple(map(Span, _way(each), times, times[1:]))


def _audit(each: Workspace) -> tuple[Event, ...]:
    """The same way as the hub tells of it, the latest first."""
    first, then, phase = _way(each)
    status, intent = each.status, each.intent
    changed, asked, turned = status.phase_changed_at or NOW, intent.at or NOW, _turned(each)
    stood = phase if asked > changed else then if asked > turned else first
    said = "asked on a page, from 192.0.2.7" if intent.source is IntentSource.API else ""
    by_hub, by_git = ("controller", "controller"), ("git", "git")
    found = [
        (changed, EventKind.PHASE, then, phase, *by_hub, ""),
        (asked, EventKind.DESIRED, stood, intent.desired, intent.source, intent.by, said),
        (turned, EventKind.PHASE, first, then, *by_hub, ""),
        (NOW - 16 * HOUR, EventKind.ERROR, "", "Timeout", *by_hub, "slow"),
        (NOW - 30 * HOUR, EventKind.DECLARED, "", "RUNNING", *by_git, "new"),
    ]
    if phase is Phase.RUNNING:
        begun = changed - MINUTE
        found.append((begun, EventKind.OPERATION, "NONE", "STARTING", *by_hub, ""))
    if status.error_reason is not None:
        told = status.error_message or ""
        found.append((changed, EventKind.ERROR, "", status.error_reason, *by_hub, told))
    found.sort(key=lambda one: one[0], reverse=True)
    return tuple(
        Event(len(found) - place, at, each.id, each.name, kind, old, new, source, by, why)
        for place, (at, kind, old, new, source, by, why) in enumerate(found)
    )


def token(
    name: str,
    *scopes: Scope,
    left: timedelta,
    used: timedelta | None = None,
    age: timedelta = 40 * HOUR,
) -> Token:
    alice = Person(UUID(int=1), "alice", Role.ADMIN)
    seen = None if used is None else NOW - used
    return Token(UUID(int=2), alice, name, frozenset(scopes), NOW - age, NOW + left, seen)


def just_made() -> Token:
    return token("ci-apply", Scope.WRITE, left=30 * 24 * HOUR, age=0 * HOUR)


def tokens() -> list[Token]:
    return [
        token("ci-plan", Scope.PLAN, left=30 * 24 * HOUR, used=3 * MINUTE),
        token("laptop", Scope.READ, Scope.WAKE, left=-HOUR),
    ]


def tokens_page(given: Sequence[Token], shell: Shell, **more: Any) -> Rendered:
    return page_of_tokens(given, shell, address="http://localhost:8080", **more)


def administration(**more: Any) -> Administration:
    found = tuple(fleet())
    state = HubState(Hub("atlas"), "0192d3b0-7c1e", GOOD, found)
    report = summarise(state, last_load=BAD, now=NOW, options=OPTIONS)
    given: dict[str, Any] = {
        "report": report,
        "people": [
            Someone(
                *("alice", "Alice", True, False, "users.yaml:5", 4),
                *(PLACES["alice"], 2, NOW - 4 * MINUTE),
            ),
            Someone(
                *("bob", "bob", False, False, "users.yaml:13", 3),
                *(PLACES["bob"], 2, NOW - 5 * HOUR),
            ),
            Someone("carol", "", False, True, "users.yaml:21", 0, (), 2, None),
        ],
        "revisions": [BAD, replace(GOOD, summary={"create": 6, "update": 1})],
        "access": [
            _access(AccessKind.LOGIN, "alice", 2 * MINUTE),
            _access(AccessKind.FAILED, "", 9 * MINUTE),
            _access(AccessKind.TOKEN_CREATED, "bob", HOUR, "ci-plan (plan)"),
        ],
        "webhooks": [
            Backlog(
                Receiver(UUID(int=9), "chat", "https://x", ("workspace.error",), "s", NOW),
                pending=2,
                failing=2,
                delivered=40,
                last_delivered_at=NOW - HOUR,
            )
        ],
        "leader": LEADER,
        "use": Use(ALL_PLACES, EVERYBODY),
        "limit_each": 2,
    }
    return Administration(**given | more)


def _access(kind: AccessKind, user: str, ago: timedelta, reason: str = "") -> AccessEvent:
    return AccessEvent(1, NOW - ago, kind, user, user, "192.0.2.7", "Firefox", reason)


def too_many() -> LimitReached:
    return LimitReached(
        "alice may run 2 at once, and old-prototype would be number 3 "
        "(running or waiting: payments-api, docs-preview)",
        hint="stop one first, for example 'codehub stop payments-api'",
        limit=2,
        position=3,
        running=PLACES["alice"],
        stoppable=PLACES["alice"],
        owner="alice",
    )


def in_frame(notice: Any) -> str:
    return served(notice, Frame(csrf=PROOF, wanted="/", person="alice", logout="/logout")).text


def moved(shell: Shell, **changes: Any) -> Shell:
    return replace(shell, **changes)


OTHERS = ("payments-api", "search-index")
QUEUED = Queued(1, 2, "alice", OTHERS, OTHERS)
TODAY = moved(ALICE, section="")
FOLLOW = "/api/v1/workspaces/payments-api/logs?follow=true"
ODD = "listening on 8080\n\tGET / 200\n<b>not bold</b> \x1b[31mred\u202e\n"
LOG = """\
2026-11-01T09:59:58Z payments-api 1.4.2, built from 5c110904fbe7
2026-11-01T09:59:58Z migrations: 0 to run, the newest is 0042_refunds
2026-11-01T09:59:59Z listening on 0.0.0.0:8080
2026-11-01T11:58:41Z GET /healthz 200 in 2 ms
2026-11-01T11:59:07Z POST /v1/payments 201 in 48 ms
2026-11-01T11:59:09Z POST /v1/payments 409 in 11 ms: already paid
2026-11-01T11:59:30Z GET /v1/payments/7c1e 200 in 5 ms
"""

PAGES: dict[str, Callable[[], str]] = {
    "home": lambda: home_page(home(failed=BAD, in_force=GOOD), ALICE).text,
    "home-done": lambda: (
        home_page(home(), moved(ALICE, flash=Flash("payments-api counts as in use from now."))).text
    ),
    "home-member": lambda: home_page(home(owner="bob"), BOB).text,
    "home-paged": lambda: (
        home_page(
            home(paging=Paging("/", "/?after=storefront"), sought=Filter(owner="bob")), ALICE
        ).text
    ),
    "home-nothing": lambda: (
        home_page(home(rows=(), sought=Filter("xyz", Phase.ERROR, "bob")), ALICE).text
    ),
    "home-empty-admin": lambda: (
        home_page(Home((), {}, [Use(0, 2, YOURS), Use(0, EVERYBODY, "in all")]), ALICE).text
    ),
    "home-empty-member": lambda: home_page(Home((), {}, [Use(0, 2, YOURS)]), BOB).text,
    "workspace": lambda: workspace_page(about(running(), older="/?before=1"), TODAY).text,
    "workspace-restoring": lambda: workspace_page(about(restoring()), TODAY).text,
    "workspace-error": lambda: workspace_page(about(lost()), TODAY).text,
    "workspace-queued": lambda: workspace_page(about(waiting(), queued=QUEUED), TODAY).text,
    "logs": lambda: logs_page("payments-api", LOG, TODAY, follow=FOLLOW).text,
    "logs-odd": lambda: logs_page("payments-api", ODD, TODAY, follow=FOLLOW).text,
    "logs-away": lambda: (
        logs_page("payments-api", "", TODAY, follow="", problem="The engine gives no answer.").text
    ),
    "tokens": lambda: tokens_page(tokens(), moved(ALICE, section="tokens")).text,
    "tokens-made": lambda: (
        tokens_page(
            [just_made(), *tokens()],
            moved(ALICE, section="tokens"),
            made=Issued(just_made(), "chub_S3cr3t"),
        ).text
    ),
    "tokens-refused": lambda: (
        tokens_page(
            (),
            moved(BOB, section="tokens"),
            wish=Wish("ci", frozenset({Scope.READ}), 30, "There is one already."),
        ).text
    ),
    "admin": lambda: admin_page(administration(), moved(ALICE, section="admin")).text,
    "limit": lambda: in_frame(limit_notice("old-prototype", too_many(), "/")),
    "refused": lambda: in_frame(
        refusal_notice(Conflict("it is being stopped", hint="try again in a moment"), "/")
    ),
}
"""Each page by its name."""

FRAGMENTS: dict[str, Callable[[], str]] = {
    "row": lambda: row_fragment(row(running()), ALICE),
    "row-busy": lambda: row_fragment(row(restoring()), ALICE),
    "row-lost": lambda: row_fragment(row(lost()), ALICE),
    "summary": lambda: summary_fragment(home(), ALICE),
    "summary-failed": lambda: summary_fragment(home(failed=BAD, in_force=GOOD), ALICE),
}
"""What the script asks for."""
