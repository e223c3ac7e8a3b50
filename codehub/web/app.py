"""The application: all routes together, with one way to say what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import FastAPI

from codehub import __version__
from codehub.web import probes
from codehub.web.api import (
    audit,
    explain,
    hubinfo,
    live,
    logs,
    me,
    moves,
    plan,
    report,
    revisions,
    tokens,
    workspaces,
)
from codehub.web.api.documented import describe
from codehub.web.head import Head
from codehub.web.mistakes import Mistakes
from codehub.web.pages.routes import add_pages
from codehub.web.problems import add_handlers
from codehub.web.shell import Shell

if TYPE_CHECKING:
    from codehub.web.hub import Hub

API: Final = "/api/v1"
ABOUT: Final = """
Everything that the dashboard and `codehub` itself do. Send a token of `codehub token create` as
`Authorization: Bearer …`. What goes wrong is told as a problem (RFC 9457): `title`, `status`,
`detail`, a `hint` where there is something to do about it, and the `requestId` under which the
hub's log has it. Every answer has that one as `X-Request-Id` too.
"""


def create_app(hub: Hub) -> FastAPI:
    """An application for this hub."""
    app = FastAPI(
        title="CodeHub",
        version=__version__,
        description=ABOUT,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.hub = hub
    app.add_middleware(Mistakes)
    app.add_middleware(Head)
    app.add_middleware(Shell, hub=hub)
    add_handlers(app)
    app.include_router(me.router, prefix=API)
    app.include_router(live.router, prefix=API)
    for part in (workspaces, moves, explain, logs, audit):
        app.include_router(part.router, prefix=API)
    for part in (plan, revisions, report, hubinfo, tokens):
        app.include_router(part.router, prefix=API)
    app.include_router(probes.router)
    add_pages(app)
    describe(app)
    return app
