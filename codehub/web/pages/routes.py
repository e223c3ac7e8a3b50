"""All pages together, and a page for what is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response

from codehub.web import assets
from codehub.web.pages import actions, admin, home, logs, report, tokens, workspace
from codehub.web.pages.answering import lost

if TYPE_CHECKING:
    from fastapi import FastAPI, Request


def add_pages(app: FastAPI) -> None:
    """The dashboard. Call it after everything else: it also answers where nothing is."""
    for each in (assets, home, workspace, logs, actions, tokens, report, admin):
        app.include_router(each.router)
    otherwise = app.exception_handlers[HTTPException]

    async def told(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        found = await lost(request, error)
        if found is not None:
            return found
        answer = otherwise(request, error)
        return answer if isinstance(answer, Response) else await answer

    app.add_exception_handler(HTTPException, told)
