"""`/report`: the fleet for admins, what is theirs for everybody else."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from codehub.model.access import Way
from codehub.render.pages import Frame
from codehub.render.report_html import report_served
from codehub.service.reporting import read_report
from codehub.web.api.report import PLACES
from codehub.web.hub import Hub, hub_of
from codehub.web.pages.answering import PageRoute, html
from codehub.web.who import Reader

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/report")
async def report(caller: Reader, hub: Annotated[Hub, Depends(hub_of)]) -> HTMLResponse:
    with PLACES.take():
        async with hub.pool.connection() as conn:
            found = await read_report(conn, hub.settings, owner=caller.owner)
        has_session = caller.identity.way is Way.SESSION
        frame = Frame(home="/", person=caller.person.name, logout="/logout" if has_session else "")
        own = caller.owner is not None
        return html(await asyncio.to_thread(report_served, found, frame, own=own))
