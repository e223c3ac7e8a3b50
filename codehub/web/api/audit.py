"""`/api/v1/audit` and `…/events` of one workspace: who moved what, when and why; latest first."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from codehub.model.events import EventKind
from codehub.service.asking import missing, name_theirs
from codehub.store.listing import read_audit
from codehub.web.api.documented import problems
from codehub.web.asking import Name, TheHub
from codehub.web.paging import USUAL, IdCursor, Limit
from codehub.web.shapes import Shape
from codehub.web.who import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.model.events import Event

_EXAMPLE: Final[dict[str, Any]] = {
    "id": 4711,
    "at": "2026-11-16T09:11:58Z",
    "workspaceId": "0192d3b0-7c1e-7b8a-9a53-0f6f3e0c9d11",
    "workspace": "payments-api",
    "kind": "desired",
    "old": "STANDBY",
    "new": "RUNNING",
    "source": "api",
    "by": "bob",
    "reason": "asked with a token, from 192.0.2.7",
}

router = APIRouter(tags=["audit"])


class EventShape(Shape):
    """One thing that happened to a workspace; it is never changed."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    id: int
    at: datetime
    workspace_id: str
    workspace: str = Field(description="Its name at that time.")
    kind: EventKind
    old: str
    new: str
    source: str
    by: str
    reason: str


class EventPage(Shape):
    """Some of the audit, latest first."""

    model_config = ConfigDict(json_schema_extra={"example": {"items": [_EXAMPLE], "next": "4711"}})

    items: list[EventShape]
    next: str | None = Field(
        None, description="The `cursor` of the next page, which is older; null for the last one."
    )


@router.get("/audit", operation_id="listAudit", summary="Read the audit", responses=problems(422))
async def audit(
    caller: Reader, hub: TheHub, limit: Limit = USUAL, cursor: IdCursor = None
) -> EventPage:
    """Of one's own workspaces, deleted ones included; for an admin, of all."""
    before = None if cursor is None else int(cursor)
    async with hub.pool.connection() as conn:
        found = await read_audit(conn, seen_by=caller.owner, before=before, limit=limit + 1)
    return _page(found or (), limit)


@router.get(
    "/workspaces/{name}/events",
    operation_id="listWorkspaceEvents",
    summary="Read a workspace's audit",
    responses=problems(404, 422),
)
async def events(
    name: Name, caller: Reader, hub: TheHub, limit: Limit = USUAL, cursor: IdCursor = None
) -> EventPage:
    """Of the workspace that has this name, and of those that had it."""
    before = None if cursor is None else int(cursor)
    async with hub.pool.connection() as conn:
        meant = await name_theirs(conn, name, caller.sees)
        found = await read_audit(
            conn, seen_by=caller.owner, name=meant, before=before, limit=limit + 1
        )
    if found is None:
        raise missing()
    return _page(found, limit)


def event_shape(event: Event) -> EventShape:
    """One line of the audit as the API says it."""
    return EventShape(
        id=event.id,
        at=event.at,
        workspace_id=str(event.workspace_id),
        workspace=event.workspace,
        kind=event.kind,
        old=event.old,
        new=event.new,
        source=event.source,
        by=event.by,
        reason=event.reason,
    )


def _page(found: Sequence[Event], limit: int) -> EventPage:
    shown = found[:limit]
    return EventPage(
        items=[event_shape(each) for each in shown],
        next=str(shown[-1].id) if len(found) > limit else None,
    )
