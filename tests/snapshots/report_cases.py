"""Hubs to report on: one with a bit of everything, an empty one, and one full of malice."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.core.recount import recount
from codehub.core.summarise import summarise
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.events import EventKind
from codehub.model.history import Move, Opening, Past
from codehub.model.people import Hub
from codehub.model.plan import Forecast, PlanOptions
from codehub.model.report import Held, HoldCause, OwnerUse, Storage, StoredFile
from codehub.model.revision import HubState, Origin, Revision
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Activity, Intent, Source, Status, Ttl, Workspace
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.model.report import Report

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
INTERACTIVE = Ttl(standby=3 * 3600, archive=24 * 3600, policy="interactive")
GOOD = Revision(
    id=7,
    digest="d7",
    origin=Origin("specs", commit="5c110904fbe7aa01", dirty=False),
    created_at=NOW - 2 * HOUR,
    author="alice",
)
BAD = Revision(
    id=8,
    digest="d8",
    origin=Origin("specs", commit="9a1b2c3d4e5f6071"),
    created_at=NOW - 3 * MINUTE,
    author="watcher",
    applied=False,
    problems=(
        'specs/ml.yaml:12:7: spec.ttl: unknown policy "interactve", did you mean "interactive"?',
        "specs/ml.yaml:20:3: spec.owner: is required",
    ),
)


def fleet() -> tuple[Workspace, ...]:
    lost = Condition(ConditionStatus.FALSE, "Exited", "the process ended with code 137")
    return (
        workspace(
            "payments-api",
            number=1,
            ttl=INTERACTIVE,
            status=Status(Phase.RUNNING, phase_changed_at=NOW - 5 * HOUR),
            activity=Activity(NOW - 4 * MINUTE, "traffic"),
        ),
        workspace(
            "storefront",
            number=2,
            owner="bob",
            ttl=INTERACTIVE,
            intent=Intent(DesiredState.STANDBY, IntentSource.TTL, NOW - HOUR, "ttl"),
            status=Status(Phase.STANDBY, phase_changed_at=NOW - HOUR),
            activity=Activity(NOW - 4 * HOUR - 12 * MINUTE, "input"),
        ),
        workspace(
            "data-science",
            number=3,
            owner="carol",
            status=Status(
                Phase.ARCHIVED,
                phase_changed_at=NOW - 26 * HOUR,
                operation=Operation.RESTORING,
                op_started_at=NOW - 2 * MINUTE,
                op_progress={"stage": "unpack", "bytes": 42 << 20, "total": 100 << 20},
            ),
            source=Source("specs/teams/science/notebooks.yaml", 118),
        ),
        workspace(
            "ml-gpu",
            number=4,
            owner="bob",
            status=Status(
                Phase.ERROR,
                phase_changed_at=NOW - 20 * MINUTE,
                error_reason=ErrorReason.DATA_LOST,
                error_message="the volume ws-4-home-g3 is not there any more",
                archive_key="hub/ws-4/op/1/home.tar.zst",
                archive_bytes=3 << 30,
            ),
        ),
        workspace(
            "old-poc",
            number=5,
            orphaned=True,
            intent=Intent(DesiredState.ARCHIVED, IntentSource.CLI, NOW - 50 * HOUR, "alice"),
            status=Status(Phase.ARCHIVED, phase_changed_at=NOW - 49 * HOUR),
        ),
        workspace(
            "crashing",
            number=6,
            status=Status(
                Phase.STANDBY,
                phase_changed_at=NOW - 10 * MINUTE,
                operation=Operation.STARTING,
                op_started_at=NOW - MINUTE,
                error_reason=ErrorReason.ACTION_FAILED,
                error_message="the command ended with code 1",
                error_count=2,
                retry_at=NOW + timedelta(seconds=8),
            ),
        ),
        workspace(
            "wiki",
            number=7,
            pinned=True,
            status=Status(
                Phase.RUNNING,
                phase_changed_at=NOW - 90 * HOUR,
                conditions={ConditionName.CONTAINER_READY: lost},
            ),
        ),
        workspace(
            "gone",
            number=8,
            intent=Intent(DesiredState.DELETED),
            status=Status(Phase.DELETED, deleted_at=NOW - HOUR),
        ),
    )


def word(number: int, at: datetime, old: str, new: str, source: str) -> Move:
    """Somebody asked something of a workspace."""
    return Move(UUID(int=number), at, EventKind.DESIRED, old, new, source)


def step(number: int, at: datetime, old: str, new: str) -> Move:
    """It went from one phase to another."""
    return Move(UUID(int=number), at, EventKind.PHASE, old, new, "controller")


def moves() -> tuple[Move, ...]:
    """How the fleet came to be where it is."""
    found = (
        step(1, NOW - 5 * HOUR, "STANDBY", "RUNNING"),
        word(1, NOW - 5 * HOUR - MINUTE, "STANDBY", "RUNNING", "visit"),
        word(1, NOW - 2 * DAY, "RUNNING", "STANDBY", "ttl"),
        step(1, NOW - 2 * DAY + MINUTE, "RUNNING", "STANDBY"),
        word(2, NOW - 30 * HOUR, "STANDBY", "RUNNING", "visit"),
        step(2, NOW - 30 * HOUR + MINUTE, "STANDBY", "RUNNING"),
        word(2, NOW - HOUR - MINUTE, "RUNNING", "STANDBY", "ttl"),
        step(2, NOW - HOUR, "RUNNING", "STANDBY"),
        step(3, NOW - 26 * HOUR, "STANDBY", "ARCHIVED"),
        step(4, NOW - 20 * MINUTE, "RUNNING", "ERROR"),
        word(5, NOW - 50 * HOUR, "STANDBY", "ARCHIVED", "cli"),
        step(5, NOW - 49 * HOUR, "STANDBY", "ARCHIVED"),
        step(6, NOW - 10 * MINUTE, "RUNNING", "STANDBY"),
        step(8, NOW - 3 * DAY, "RUNNING", "ARCHIVED"),
        step(8, NOW - HOUR, "ARCHIVED", "DELETED"),
    )
    return tuple(sorted(found, key=lambda each: each.at))


def past(*found: Move, asleep: tuple[int, ...] = ()) -> Past:
    """A week of these moves; those `asleep` were lowered by their TTL before it."""
    slept = Opening(told=True, asleep=True)
    return Past(NOW - 7 * DAY, NOW, found, {UUID(int=number): slept for number in asleep})


def aged(*workspaces: Workspace) -> tuple[Workspace, ...]:
    """They were there all the time."""
    return tuple(replace(each, created_at=NOW - 30 * DAY) for each in workspaces)


def everything() -> Report:
    there = aged(*fleet())
    state = HubState(Hub(), "0f9c2a4e-1111-2222-3333-444455556666", GOOD, there)
    history = recount(past(*moves(), asleep=(2, 3)), there)
    return summarise(state, last_load=BAD, now=NOW, options=PlanOptions(), history=history)


def busy(count: int = 30) -> Report:
    """A team's week: people come in the morning, and what they leave falls asleep."""
    there = aged(*(_of_team(number) for number in range(1, count + 1)))
    found = sorted(
        (each for number in range(1, count + 1) for each in _week(number)), key=lambda each: each.at
    )
    asleep = tuple(range(1, count + 1))
    state = HubState(Hub(), "0f9c2a4e-1111-2222-3333-444455556666", GOOD, there)
    history = recount(past(*found, asleep=asleep), there)
    return summarise(state, last_load=GOOD, now=NOW, options=PlanOptions(), history=history)


def _of_team(number: int) -> Workspace:
    archived = number % 4 == 0
    phase = Phase.ARCHIVED if archived else Phase.STANDBY
    return workspace(
        f"team-{number:02}-{'notebook' if number % 3 else 'service'}",
        number=number,
        owner=("alice", "bob", "carol", "dave")[number % 4],
        ttl=INTERACTIVE,
        suspend=number == 7,
        intent=Intent(DesiredState(phase.value), IntentSource.TTL, NOW - HOUR, "ttl"),
        status=Status(
            phase,
            phase_changed_at=NOW - number * HOUR,
            home_store_key=None if archived else f"ws-{number}-home-g1",
            archive_key=f"hub/ws-{number}/op/1/home.tar.zst" if archived else None,
            archive_bytes=(number << 28) if archived else None,
        ),
        activity=Activity(NOW - number * HOUR, "input"),
    )


def _week(number: int) -> Iterator[Move]:
    if number % 4 == 0:
        at = NOW - 5 * DAY + number * HOUR
        yield word(number, at, "STANDBY", "ARCHIVED", "ttl")
        yield step(number, at + MINUTE, "STANDBY", "ARCHIVED")
        return
    for day in range(7):
        if (day * 5 + number) % 3 == 0 or day in (0, 6):
            continue
        came = NOW - (7 - day) * DAY - (4 - number % 5) * HOUR
        went = came + (3 + number % 6) * HOUR
        yield word(number, came, "STANDBY", "RUNNING", "visit")
        yield step(number, came + MINUTE, "STANDBY", "RUNNING")
        by_hand = number % 7 == 3
        yield word(number, went, "RUNNING", "STANDBY", "cli" if by_hand else "ttl")
        if number == 11 and day == 4:
            yield step(number, went, "RUNNING", "ERROR")
            yield step(number, went + 5 * HOUR, "ERROR", "STANDBY")
        else:
            yield step(number, went + MINUTE, "RUNNING", "STANDBY")


def empty() -> Report:
    return summarise(HubState(), last_load=None, now=NOW, options=PlanOptions())


def hostile() -> Report:
    """Text that people and programs write, all of it meant to be read as something else."""
    markup = "<img src=x onerror=alert(1)>"
    sick = workspace(
        "api",
        owner=f"al\u202eice{markup}",
        source=Source(f"specs/{markup}.yaml", 1),
        env={"TOKEN": "canary"},
        intent=Intent(
            DesiredState.STANDBY, IntentSource.CLI, NOW, f"{markup}|`x`\x1b[31m@everyone"
        ),
        status=Status(
            Phase.ERROR,
            error_reason=ErrorReason.RETRY_EXCEEDED,
            error_message=f"{markup} | `code`\n# heading\x1b[2J",
        ),
    )
    load = Revision(
        id=9,
        digest="d9",
        origin=Origin(markup),
        created_at=NOW,
        author=markup,
        applied=False,
        problems=(f"{markup}`|\\",),
    )
    state = HubState(Hub(name=markup), None, GOOD, (sick,))
    report = summarise(
        state,
        last_load=load,
        now=NOW,
        options=PlanOptions(),
        history=recount(past(step(1, NOW - HOUR, "RUNNING", "ERROR")), aged(sick)),
    )
    # No spec may have such a name; whoever writes to the database past it may.
    evil = f'</title><script>alert(1)</script>"{markup}\u202e'
    assert report.history is not None
    (way,) = report.history.timelines
    return replace(
        report,
        history=replace(report.history, timelines=(replace(way, name=evil),)),
        coming=(Forecast(NOW + HOUR, evil, "RUNNING", "STANDBY", markup),),
        held=(Held(evil, markup, Phase.STANDBY, HoldCause.PERSON, markup),),
        owners=(OwnerUse(evil, 1),),
        storage=Storage(1, 1, 5, largest=(StoredFile(evil, markup, 5),)),
    )
