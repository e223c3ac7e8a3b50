"""Hubs to report on: one with a bit of everything, an empty one, and one full of malice."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from codehub.core.summarise import summarise
from codehub.model.conditions import Condition, ConditionName, ConditionStatus
from codehub.model.people import Hub
from codehub.model.plan import PlanOptions
from codehub.model.revision import HubState, Origin, Revision
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.workspace import Activity, Intent, Source, Status, Ttl, Workspace
from tests.make import NOW, workspace

if TYPE_CHECKING:
    from codehub.model.report import Report

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


def everything() -> Report:
    state = HubState(Hub(), "0f9c2a4e-1111-2222-3333-444455556666", GOOD, fleet())
    return summarise(state, last_load=BAD, now=NOW, options=PlanOptions())


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
    return summarise(state, last_load=load, now=NOW, options=PlanOptions())
