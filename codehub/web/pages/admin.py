"""`/admin`: people and limits, specs and drift. For everybody else there is no such page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from codehub.errors import NotFound
from codehub.model.people import Role
from codehub.model.workspace import Runtime
from codehub.render.dashboard_admin import Administration, Someone, admin_page
from codehub.render.dashboard_home import Use
from codehub.render.plan_html import plan_html
from codehub.service.planning import plan_options, plan_specs
from codehub.service.reporting import read_report
from codehub.service.revising import read_recorded
from codehub.store.access import access_events
from codehub.store.circumstances import read_leadership
from codehub.store.clock import read_now
from codehub.store.connect import transaction
from codehub.store.hubs import read_hub_state
from codehub.store.overview import read_in_use, read_people
from codehub.store.revisions import list_revisions
from codehub.store.webhooks import read_backlogs
from codehub.web.api.report import PLACES
from codehub.web.hub import Hub, hub_of
from codehub.web.pages.answering import PageRoute, html, shell_of
from codehub.web.who import Caller, Reader

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.report import Report
    from codehub.store.overview import PersonInUse

router = APIRouter(include_in_schema=False, route_class=PageRoute)

REVISIONS: Final = 8
LOGINS: Final = 12


async def an_admin(caller: Reader) -> Caller:
    """A dependency: an admin; to all others, nothing is here."""
    if not caller.person.is_admin:
        raise NotFound("there is nothing here")
    return caller


AnAdmin = Annotated[Caller, Depends(an_admin)]


@router.get("/admin")
async def admin(caller: AnAdmin, hub: Annotated[Hub, Depends(hub_of)]) -> HTMLResponse:
    with PLACES.take():
        async with hub.pool.connection() as conn:
            report = await read_report(conn, hub.settings, days=1)
            given = await _administration(conn, hub, caller, report)
    shell = shell_of(caller, report.generated_at, "admin", hub=report.hub)
    return html(admin_page(given, shell))


@router.get("/admin/plan")
async def plan(caller: AnAdmin, hub: Annotated[Hub, Depends(hub_of)]) -> HTMLResponse:
    """What applying the specs in force once more would do."""
    del caller
    options = plan_options(hub.settings, frozenset(Runtime))
    with PLACES.take():
        async with hub.pool.connection() as conn, transaction(conn, snapshot=True):
            now = await read_now(conn)
            state = await read_hub_state(conn)
            recorded = await read_recorded(conn, None)
        made = await asyncio.to_thread(plan_specs, state, recorded.specs, now=now, options=options)
        text = await asyncio.to_thread(plan_html, made, back="/admin")
    # It is a file with its policy in it; a stricter one would take away its style.
    return HTMLResponse(text, headers={"Content-Security-Policy": "frame-ancestors 'none'"})


async def _administration(
    conn: AsyncConnection[DictRow], hub: Hub, caller: Caller, report: Report
) -> Administration:
    used = await read_in_use(conn, caller.person.name)
    limits = hub.limits
    everybody = limits.max_running_global if used.limit is None else used.limit
    each = limits.max_running_per_user if used.limit_each is None else used.limit_each
    return Administration(
        report=report,
        people=[_someone(person, each) for person in await read_people(conn)],
        revisions=await list_revisions(conn, REVISIONS),
        access=(await access_events(conn, limit=LOGINS))[::-1],
        webhooks=await read_backlogs(conn),
        leader=await read_leadership(conn),
        use=Use(used.everybody, everybody),
        limit_each=each,
    )


def _someone(person: PersonInUse, limit: int) -> Someone:
    return Someone(
        name=person.name,
        display_name=person.display_name,
        admin=person.role is Role.ADMIN,
        disabled=person.disabled,
        source=person.source,
        workspaces=person.workspaces,
        running=person.running_names,
        limit=limit if person.limit is None else person.limit,
        last_access_at=person.last_access_at,
    )
