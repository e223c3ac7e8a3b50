"""`/workspaces/{name}/logs`: what a workspace writes; the script goes on reading where it ends."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from codehub.errors import CodeHubError
from codehub.render.dashboard_workspace import logs_page
from codehub.service.asking import find_theirs
from codehub.web.hub import Hub, hub_of
from codehub.web.pages.answering import PageRoute, hint_of, html, hub_name, sentence, shell_of
from codehub.web.who import Reader

if TYPE_CHECKING:
    from codehub.model.workspace import Workspace

router = APIRouter(include_in_schema=False, route_class=PageRoute)

LINES: Final = 200
MOST_BYTES: Final = 256 * 1024
PATIENCE: Final = 10.0
_ESCAPES: Final = re.compile(r"\x1b(\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-_])")
"""Colours and the like: a page has its own."""


@router.get("/workspaces/{name}/logs")
async def logs(caller: Reader, name: str, hub: Annotated[Hub, Depends(hub_of)]) -> HTMLResponse:
    async with hub.pool.connection() as conn:
        found = await find_theirs(conn, name, caller.sees)
        shell = shell_of(caller, found.read_at, hub=await hub_name(conn))
    text, problem = "", ""
    try:
        text = await _tail(hub, found.workspace)
    except TimeoutError:
        problem = "Its output could not be read in time. Try again."
    except CodeHubError as error:
        hint = hint_of(error)
        problem = sentence(error.message) + (f" {sentence(hint)}" if hint else "")
    name = found.workspace.name
    follow = "" if problem else f"/api/v1/workspaces/{name}/logs?follow=true&tail={LINES}"
    return html(logs_page(name, text, shell, follow=follow, problem=problem))


async def _tail(hub: Hub, workspace: Workspace) -> str:
    """The last lines, without what only a terminal understands."""
    if hub.logs is None:
        raise CodeHubError(
            "this web process has no way to the output of workspaces",
            hint=f"an admin can see it with 'codehub logs {workspace.name}' where the "
            "coordinator runs",
        )
    gathered = b""
    async with asyncio.timeout(PATIENCE):
        async with aclosing(await hub.logs(workspace, LINES, False)) as source:
            async for chunk in source:
                gathered = (gathered + chunk)[-MOST_BYTES:]
    return shown(gathered)


def shown(output: bytes) -> str:
    """Output as a page shows it: line by line, each cleaned by itself by whoever renders it."""
    text = _ESCAPES.sub("", output.decode("utf-8", "replace"))
    return text.replace("\r\n", "\n").replace("\r", "\n")
