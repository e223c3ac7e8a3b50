"""`/api/v1/report`: the report of the fleet for admins, of what is theirs for members."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from codehub.model.history import DAYS, MOST_DAYS
from codehub.model.states import Phase
from codehub.render.report_json import report_json
from codehub.render.report_markdown import report_markdown
from codehub.service.reporting import fleet_page, own_page, read_report
from codehub.web.api.documented import problems
from codehub.web.api.examples import REPORT, REPORTS
from codehub.web.api.forms import Form, answer, choose, contents
from codehub.web.api.places import Places
from codehub.web.asking import TheHub
from codehub.web.shapes import Shape
from codehub.web.who import Caller, Reader

if TYPE_CHECKING:
    from codehub.web.hub import Hub

PLACES: Final = Places(4, "makes reports")
"""Each reads the whole hub."""
FORMS: Final = (Form.JSON, *REPORTS)

router = APIRouter(tags=["report"])


class ReportShape(Shape):
    """As of `codehub report --format json`, which has more fields than are told of here."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"example": REPORT})

    format_version: Literal[1]
    generated_at: datetime
    hub: dict[str, Any]
    phases: dict[Phase, int] = Field(description="How many are in which phase.")
    workspaces: list[dict[str, Any]]
    errors: list[dict[str, Any]] = Field(description="What needs a person, with advice.")


class ReportWish(Shape):
    """What is asked of a report."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["json", "md", "html"] | None = Field(
        None, description="Wins over `Accept`; JSON where neither says.", examples=["md"]
    )
    days: int = Field(
        DAYS, ge=1, le=MOST_DAYS, description="How far back its history goes.", examples=[30]
    )


@router.get(
    "/report",
    operation_id="getReport",
    summary="Report",
    response_class=Response,
    responses={
        200: {
            "model": ReportShape,
            "description": "The report.",
            "content": contents(ReportShape, REPORTS),
        },
        **problems(422),
    },
)
async def report(
    request: Request, caller: Reader, hub: TheHub, asked: Annotated[ReportWish, Query()]
) -> Response:
    """Phases, what is held and why, errors with advice, what idleness does next, and the past.

    An admin's is about the whole fleet, a member's about what is theirs.
    """
    form = choose(asked.format, request.headers.get("accept", ""), FORMS)
    with PLACES.take():
        return answer(await _text(hub, caller, form, asked.days), form)


async def _text(hub: Hub, caller: Caller, form: Form, days: int) -> str:
    async with hub.pool.connection() as conn:
        if form is Form.HTML and caller.owner is None:
            return await fleet_page(conn, hub.settings, days=days, refresh=None)
        if form is Form.HTML:
            name = caller.person.name
            return await own_page(conn, hub.settings, name, days=days, refresh=None, opens=False)
        made = await read_report(conn, hub.settings, owner=caller.owner, days=days)
    render = report_json if form is Form.JSON else report_markdown
    return await asyncio.to_thread(render, made)
