"""`/workspaces/{name}`: everything about one workspace."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse

from codehub.core.recount import recount
from codehub.model.voice import Voice
from codehub.model.workspace import Runtime
from codehub.render.dashboard_workspace import About, workspace_page
from codehub.service.asking import find_theirs
from codehub.service.explaining import customs_of, explain_workspace
from codehub.service.planning import plan_options
from codehub.store.history import read_past
from codehub.store.listing import read_audit
from codehub.web.hub import Hub, hub_of
from codehub.web.pages.answering import PageRoute, html, hub_name, shell_of
from codehub.web.pages.flashing import flash_of
from codehub.web.pages.home import row_of
from codehub.web.who import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.history import Span
    from codehub.store.workspaces import Found

router = APIRouter(include_in_schema=False, route_class=PageRoute)

WINDOW: Final = timedelta(days=1)
EVENTS: Final = 30
MOST_MOVES: Final = 2000


@router.get("/workspaces/{name}")
async def workspace(
    caller: Reader,
    name: str,
    hub: Annotated[Hub, Depends(hub_of)],
    before: Annotated[str, Query()] = "",
    did: Annotated[str, Query()] = "",
    to: Annotated[str, Query()] = "",
) -> HTMLResponse:
    older_than = int(before) if before.isdecimal() and len(before) < 19 else None
    async with hub.pool.connection() as conn:
        found = await find_theirs(conn, name, caller.sees)
        name = found.workspace.name
        customs = replace(customs_of(hub.settings), voice=Voice.BUTTONS)
        explanation = await explain_workspace(conn, name, customs, hub.limits)
        events = await read_audit(
            conn, seen_by=caller.owner, name=name, before=older_than, limit=EVENTS + 1
        )
        spans = await _spans(conn, found)
        called = await hub_name(conn)
    shown = (events or ())[:EVENTS]
    here = f"/workspaces/{name}"
    about = About(
        row=row_of(explanation.workspace, explanation.now, hub, caller),
        explanation=explanation,
        options=plan_options(hub.settings, frozenset(Runtime)),
        events=shown,
        spans=spans,
        older=f"{here}?before={shown[-1].id}#audit" if len(events or ()) > EVENTS else "",
        newer=f"{here}#audit" if older_than is not None else "",
    )
    # What its sentences say of times is known by their moment, so the page is of the same one.
    shell = shell_of(caller, explanation.now, hub=called, flash=flash_of(did, to))
    return html(workspace_page(about, shell))


async def _spans(conn: AsyncConnection[DictRow], found: Found) -> Sequence[Span]:
    """Its phases within the last day."""
    now, each = found.read_at, found.workspace
    past = await read_past(conn, now - WINDOW, now, ids=[each.id], most=MOST_MOVES)
    timelines = recount(past, [each]).timelines
    return timelines[0].spans if timelines else ()
