"""What the API says of a workspace, and how the pages' scripts get to know it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from codehub.core.present import present
from codehub.model.states import DesiredState, ErrorReason, IntentSource, Operation, Phase
from codehub.model.view import Action
from codehub.model.voice import Voice
from codehub.model.workspace import Runtime
from codehub.service.planning import plan_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codehub.config import Settings
    from codehub.model.view import View
    from codehub.model.workspace import Workspace

EXAMPLE: Final[dict[str, Any]] = {
    "id": "0192d3b0-7c1e-7b8a-9a53-0f6f3e0c9d11",
    "name": "payments-api",
    "owner": "bob",
    "description": "The payments service",
    "memo": "",
    "labels": {"team": "payments"},
    "runtime": "docker",
    "image": "registry.example.com/dev:1.4",
    "phase": "STANDBY",
    "phaseChangedAt": "2026-11-16T09:12:00Z",
    "operation": "NONE",
    "progress": None,
    "desired": "STANDBY",
    "desiredBy": "ttl",
    "desiredSource": "ttl",
    "desiredAt": "2026-11-16T09:11:58Z",
    "declared": "RUNNING",
    "source": "workspaces.yaml:12",
    "orphaned": False,
    "pinned": False,
    "suspended": False,
    "override": None,
    "why": "declared RUNNING, now STANDBY: idle for 10m",
    "errorReason": None,
    "errorMessage": None,
    "advice": None,
    "actions": ["start", "archive"],
    "nextMove": {"at": "2026-11-16T09:42:00Z", "to": "ARCHIVED", "reason": "idle for 30m"},
    "lastAccessAt": "2026-11-16T09:01:55Z",
    "lastAccessSource": "input",
    "archiveBytes": None,
    "url": "/w/payments-api/",
    "generation": 3,
    "version": "6f1c0a2b9d3e4f508192a3b4c5d6e7f8",
}


class Shape(BaseModel):
    """Names in camelCase, as everywhere in what scripts read."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ProgressShape(Shape):
    words: str
    part: float | None = Field(None, ge=0, le=1, description="Of the whole, from 0 to 1.")


class MoveShape(Shape):
    at: datetime
    to: DesiredState
    reason: str


class OverrideShape(Shape):
    """Another ceiling than the declared one, for a while."""

    state: DesiredState
    until: datetime
    reason: str


class WorkspaceShape(Shape):
    """One workspace: what is declared, what is desired, what is, and what can be done."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    id: str
    name: str
    owner: str
    description: str = ""
    memo: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    runtime: Runtime
    image: str | None = None
    phase: Phase = Field(description="Where it is.")
    phase_changed_at: datetime | None = None
    operation: Operation = Field(description="What is under way; NONE for nothing.")
    progress: ProgressShape | None = Field(None, description="How far the operation is.")
    desired: DesiredState = Field(description="Where it should be, as was last asked for.")
    desired_by: str
    desired_source: IntentSource
    desired_at: datetime | None = None
    declared: DesiredState = Field(description="How high the specs let it go.")
    source: str | None = Field(None, description="Where it is declared; null for an orphan.")
    orphaned: bool = Field(description="No spec declares it any more.")
    pinned: bool = Field(False, description="The specs alone move it.")
    suspended: bool = Field(False, description="Nothing moves it.")
    override: OverrideShape | None = Field(None, description="What an admin set for a while.")
    why: str = Field(description="One sentence on why it is where it is.")
    error_reason: ErrorReason | None = None
    error_message: str | None = None
    advice: str | None = Field(None, description="What to do about an ERROR.")
    actions: list[Action] = Field(description="What can be done with it now.")
    next_move: MoveShape | None = Field(None, description="What idleness does to it next.")
    last_access_at: datetime | None = None
    last_access_source: str | None = None
    archive_bytes: int | None = None
    url: str = Field(description="Where its own pages are.")
    generation: int
    version: str = Field(description="Changes with everything one decides on; also the ETag.")


def view_of(
    workspace: Workspace, now: datetime, settings: Settings, voice: Voice = Voice.COMMANDS
) -> View:
    """One workspace as it is shown at this moment, by this hub's settings."""
    return present(workspace, now, plan_options(settings, frozenset(Runtime)), voice)


def views_of(workspaces: Iterable[Workspace], now: datetime, settings: Settings) -> list[View]:
    """Several of them, in their order."""
    options = plan_options(settings, frozenset(Runtime))
    return [present(each, now, options) for each in workspaces]


def workspace_shape(view: View, url: str) -> WorkspaceShape:
    """As the API says it. Values of env are never in it: they may be secrets."""
    workspace = view.workspace
    declared, intent, status = workspace.declaration, workspace.intent, workspace.status
    return WorkspaceShape(
        id=str(workspace.id),
        name=workspace.name,
        owner=declared.owner,
        description=declared.description,
        memo=declared.memo,
        labels=dict(declared.labels),
        runtime=declared.runtime,
        image=declared.image,
        phase=status.phase,
        phase_changed_at=status.phase_changed_at,
        operation=status.operation,
        progress=_progress(view),
        desired=intent.desired,
        desired_by=intent.by,
        desired_source=intent.source,
        desired_at=intent.at,
        declared=declared.declared_state,
        source=None if workspace.orphaned else str(declared.source),
        orphaned=workspace.orphaned,
        pinned=declared.pinned,
        suspended=declared.suspend,
        override=_override(view),
        why=view.why,
        error_reason=status.error_reason,
        error_message=status.error_message,
        advice=view.advice or None,
        actions=list(view.actions),
        next_move=_move(view),
        last_access_at=workspace.activity.last_access_at,
        last_access_source=workspace.activity.source,
        archive_bytes=status.archive_bytes,
        url=url,
        generation=workspace.generation,
        version=view.version,
    )


def _progress(view: View) -> ProgressShape | None:
    found = view.progress
    return ProgressShape(words=found.words, part=found.part) if found else None


def _override(view: View) -> OverrideShape | None:
    """One that has ended is none any more."""
    found = view.workspace.intent.override
    if found is None or found.until <= view.at:
        return None
    return OverrideShape(state=found.state, until=found.until, reason=found.reason)


def _move(view: View) -> MoveShape | None:
    move = view.next_move
    return MoveShape(at=move.at, to=DesiredState(move.new), reason=move.reason) if move else None
