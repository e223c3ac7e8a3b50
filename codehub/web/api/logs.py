"""`…/logs`: what a workspace writes, the last lines and what comes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response

from codehub.errors import Unsupported
from codehub.service.asking import find_theirs
from codehub.web.api.documented import problems
from codehub.web.asking import Name, TheHub
from codehub.web.followers import Output
from codehub.web.who import Reader

if TYPE_CHECKING:
    from codehub.web.hub import Hub
    from codehub.web.who import Caller

router = APIRouter(tags=["workspaces"])

LINES: Final = 200
MOST_LINES: Final = 10_000
_TEXT: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Its output as it wrote it, colours and all; empty where there is none.",
        "content": {"text/plain": {"schema": {"type": "string"}, "example": "listening on 8080\n"}},
    }
}


@router.get(
    "/workspaces/{name}/logs",
    operation_id="readWorkspaceLogs",
    summary="Read or follow a workspace's output",
    response_class=Response,
    responses=_TEXT | problems(404, 422, 429, 501),
)
async def logs(
    name: Name,
    caller: Reader,
    hub: TheHub,
    tail: Annotated[
        int,
        Query(ge=0, le=MOST_LINES, description="How many of the last lines.", examples=[50]),
    ] = LINES,
    follow: Annotated[
        bool, Query(description="Go on with what comes, until it stops.", examples=[True])
    ] = False,
) -> Response:
    """Read where it runs: a web process that cannot reach its runtime says so (501, 503)."""
    found = await _theirs(hub, caller, name)
    if hub.logs is None:
        raise Unsupported(
            "this web process has no way to the output of workspaces",
            hint=f"use 'codehub logs {found.workspace.name}' where the coordinator runs",
        )
    place = hub.followers.take(caller.person)
    try:
        source = await hub.logs(found.workspace, tail, follow)
    except BaseException:
        place.leave()
        raise
    return Output(
        source,
        place,
        partial(hub.identities.hold, caller.identity),
        partial(_theirs, hub, caller, str(found.workspace.id)),
    )


async def _theirs(hub: Hub, caller: Caller, name: str) -> Any:
    async with hub.pool.connection() as conn:
        return await find_theirs(conn, name, caller.sees)
