"""`…/explain`: all there is to say of one workspace, as `codehub explain --format json` says it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field, WithJsonSchema

from codehub.errors import NotFound
from codehub.model.conditions import ConditionStatus
from codehub.model.explanation import BlockKind
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.render.explain_text import FORMAT_VERSION, explain_data
from codehub.service.asking import missing, name_theirs
from codehub.service.explaining import customs_of, explain_workspace
from codehub.web.api.documented import problems
from codehub.web.asking import Name, TheHub
from codehub.web.shapes import Shape
from codehub.web.who import Reader

router = APIRouter(tags=["workspaces"])

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""As the command line writes it: a document that is the same in both places."""

_EXAMPLE: Final[dict[str, Any]] = {
    "formatVersion": 1,
    "name": "payments-api",
    "id": "0192d3b0-7c1e-7b8a-9a53-0f6f3e0c9d11",
    "owner": "bob",
    "readAt": "2026-11-16T09:22:00+00:00",
    "phase": "STANDBY",
    "phaseChangedAt": "2026-11-16T09:12:00+00:00",
    "declared": {
        "state": "RUNNING",
        "file": "workspaces.yaml",
        "line": 12,
        "commit": "9d1f6c2b7e0a4d35b8c1f2e3a4b5c6d7e8f90a1b",
        "revision": 41,
        "generation": 3,
        "observedGeneration": 3,
        "orphaned": False,
        "pinned": False,
        "suspend": False,
    },
    "asked": {
        "desired": "STANDBY",
        "by": "ttl",
        "source": "ttl",
        "at": "2026-11-16T09:11:58+00:00",
        "reason": "idle for 10m",
        "recover": None,
        "override": None,
    },
    "way": ["STANDBY"],
    "operation": {"name": "NONE", "startedAt": None, "progress": {}},
    "error": None,
    "activity": {"lastAccessAt": "2026-11-16T09:01:55+00:00", "source": "input"},
    "next": {
        "at": "2026-11-16T09:42:00+00:00",
        "to": "ARCHIVED",
        "reason": "ttl archive=30m (the hub's setting)",
        "remindAt": "2026-11-16T09:37:00+00:00",
    },
    "queue": None,
    "blockedBy": [
        {
            "kind": "hold",
            "message": "declared RUNNING, now STANDBY: idle for 10m; wakes on visit",
            "advice": "'codehub start payments-api' starts it now",
            "until": None,
        }
    ],
    "conditions": {
        "policy.healthy": {
            "status": "True",
            "reason": "",
            "message": "",
            "lastTransitionTime": "2026-11-16T09:12:00+00:00",
        }
    },
    "leader": {
        "held": True,
        "holder": "hub-1",
        "epoch": 12,
        "since": "2026-11-16T06:00:00+00:00",
    },
    "deletedAt": None,
    "archiveKeptUntil": None,
    "sentences": {
        "phase": "nothing runs, its home is there",
        "asked": "STANDBY by idleness 10m ago: idle for 10m",
        "heading": "nowhere: it is where it should be",
    },
}


class _Part(Shape):
    """All of it is told, nothing else is."""

    model_config = ConfigDict(extra="forbid")


class DeclaredPart(_Part):
    state: DesiredState
    file: str
    line: int
    commit: str | None
    revision: int | None
    generation: int
    observed_generation: int
    orphaned: bool
    pinned: bool
    suspend: bool


class OverridePart(_Part):
    state: DesiredState
    until: Time
    reason: str


class AskedPart(_Part):
    desired: DesiredState
    by: str
    source: IntentSource
    at: Time | None
    reason: str
    recover: str | None
    override: OverridePart | None


class OperationPart(_Part):
    name: Operation
    started_at: Time | None
    progress: dict[str, Any]


class ErrorPart(_Part):
    reason: ErrorReason
    message: str | None
    count: int
    retry_at: Time | None


class ActivityPart(_Part):
    last_access_at: Time | None
    source: str | None


class NextPart(_Part):
    at: Time
    to: DesiredState
    reason: str
    remind_at: Time | None


class QueuePart(_Part):
    position: int
    limit: int
    owner: str | None
    running: list[str]


class BlockPart(_Part):
    kind: BlockKind
    message: str
    advice: str | None
    until: Time | None


class ConditionPart(_Part):
    status: ConditionStatus
    reason: str
    message: str
    last_transition_time: Time | None


class LeaderPart(_Part):
    held: bool
    holder: str | None
    epoch: int
    since: Time | None


class ExplanationShape(_Part):
    """Why a workspace is where it is, what comes next, and what is in its way."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    format_version: Literal[1] = Field(description="Moves when a field changes its meaning.")
    name: str
    id: str
    owner: str
    read_at: Time
    phase: Phase
    phase_changed_at: Time | None
    declared: DeclaredPart
    asked: AskedPart
    way: list[str] = Field(description="Phases and operations to come, from where it is.")
    operation: OperationPart
    error: ErrorPart | None
    activity: ActivityPart
    next: NextPart | None = Field(description="What idleness does to it next.")
    queue: QueuePart | None = Field(description="Its place among those that wait for a limit.")
    blocked_by: list[BlockPart]
    conditions: dict[str, ConditionPart]
    leader: LeaderPart
    deleted_at: Time | None
    archive_kept_until: Time | None
    sentences: dict[str, str] = Field(description="The same in words, by what they are about.")


assert FORMAT_VERSION == 1, "the shape above is of another version"


@router.get(
    "/workspaces/{name}/explain",
    operation_id="explainWorkspace",
    summary="Explain a workspace",
    response_model=ExplanationShape,
    responses=problems(404),
)
async def explain(name: Name, caller: Reader, hub: TheHub) -> JSONResponse:
    """Deleted ones included, while nobody else has the name."""
    async with hub.pool.connection() as conn:
        meant = await name_theirs(conn, name, caller.sees)
        try:
            found = await explain_workspace(conn, meant, customs_of(hub.settings), hub.limits)
        except NotFound:
            raise missing() from None
    if not caller.sees(found.workspace.declaration.owner):
        raise missing()
    return JSONResponse(explain_data(found))
