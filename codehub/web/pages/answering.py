"""How a page is answered: with its policy, and with a page for whatever goes wrong.

A person who is not logged in is shown the way; somebody else's workspace looks like none.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from codehub.errors import CodeHubError, NotFound, NotLetIn, Refused, Unreachable
from codehub.model.access import Way
from codehub.proxy.origin import local_path
from codehub.proxy.outcome import unreadable
from codehub.render.dashboard import Shell
from codehub.render.pages import Frame, Link, Sign, Trouble, served
from codehub.render.words import capital
from codehub.store.hubs import READ_HUB
from codehub.store.workspaces import fetch
from codehub.telemetry.logs import this_request
from codehub.web.hub import hub_of
from codehub.web.pages.flashing import without_flash
from codehub.web.problems import headers_of, plain_headers, problem, problem_of, status_of
from codehub.web.who import find_caller

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping
    from datetime import datetime

    from fastapi import Request, Response
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.render.dashboard import Flash
    from codehub.render.pages import Rendered, Waiting
    from codehub.web.who import Caller

MISSING: Final = Trouble(
    "Not found",
    "There is nothing here, or it is not yours.",
    "check the address",
    sign=Sign.MISSING,
)
MISTAKE: Final = Trouble(
    "That went wrong", "The hub made a mistake; its log tells more.", "try again", alarm=True
)
_NONE: Final[Mapping[str, str]] = {}


class PageRoute(APIRoute):
    """A route whose answers, errors too, are for people to look at."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except CodeHubError as error:
                return await refused(request, error)

        return answered


def html(
    rendered: Rendered, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] = _NONE
) -> HTMLResponse:
    policy = rendered.policy
    if "frame-ancestors" not in policy:
        policy += "; frame-ancestors 'none'"
    return HTMLResponse(rendered.text, status, {**headers, "Content-Security-Policy": policy})


def shell_of(
    caller: Caller, now: datetime, section: str = "", *, flash: Flash | None = None, hub: str = ""
) -> Shell:
    """What is around the content of a page, for whoever asks."""
    return Shell(
        person=caller.person.name,
        admin=caller.person.is_admin,
        csrf=caller.identity.csrf,
        now=now,
        section=section,
        here=local_path(without_flash(caller.head.target.decode("latin-1"))),
        hub=hub,
        flash=flash,
        can_log_out=caller.identity.way is Way.SESSION,
    )


async def hub_name(conn: AsyncConnection[DictRow]) -> str:
    """What the specs call this hub; empty before anything was applied."""
    rows = await fetch(conn, READ_HUB)
    return str(rows[0]["name"]) if rows else ""


def told(
    notice: Waiting | Trouble,
    caller: Caller | None,
    status: HTTPStatus,
    back: str = "/",
    headers: Mapping[str, str] = _NONE,
) -> HTMLResponse:
    """A notice in the frame of all our pages; `headers` are what programs need of it.

    Where it is the hub that failed, it says what the log has it under.
    """
    name = this_request()
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and name is not None:
        notice = replace(notice, details=(*notice.details, f"Request {name}"))
    frame = Frame(home="/")
    if caller is not None:
        has_session = caller.identity.way is Way.SESSION
        frame = Frame(
            csrf=caller.identity.csrf,
            wanted=back,
            home="/",
            person=caller.person.name,
            logout="/logout" if has_session else "",
        )
    return html(served(notice, frame), status, headers)


async def refused(request: Request, error: CodeHubError) -> Response:
    """What went wrong, as a page; the way to the login for whom nobody knows."""
    if isinstance(error, NotLetIn):
        return _log_in_first(request)
    if not wants_page(request):
        return problem_of(error)
    caller = await _caller(request)
    names = (caller.person.name,) if caller else ()
    return told(_notice(error, names), caller, status_of(error), headers=headers_of(error))


def _notice(error: CodeHubError, names: Collection[str]) -> Waiting | Trouble:
    if isinstance(error, NotFound):
        return MISSING
    if isinstance(error, Unreachable):
        return unreadable().said
    links = (Link("Back", "/"),)
    said = sentence(error.message, names)
    return Trouble("That is not possible", said, hint_of(error), links=links)


async def lost(request: Request, error: HTTPException) -> Response | None:
    """A page for an address that leads nowhere; None where no person looks at it."""
    if not wants_page(request):
        return None
    notice = MISSING
    if error.status_code != HTTPStatus.NOT_FOUND:
        notice = Trouble("That is not possible", sentence(str(error.detail)))
    caller, status = await _caller(request), HTTPStatus(error.status_code)
    return told(notice, caller, status, headers=plain_headers(request, error))


def mistaken(request: Request) -> Response:
    """What is said of what nobody foresaw. Who asks is not looked up: that may be what failed."""
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    if wants_page(request):
        return told(MISTAKE, None, status)
    return problem(status, "the hub made a mistake; its log tells more")


def wants_page(request: Request) -> bool:
    """Whether a person will look at the answer."""
    if request.url.path.startswith("/api/"):
        return False
    navigates = request.headers.get("sec-fetch-mode") in (None, "navigate")
    return navigates and "text/html" in request.headers.get("accept", "").lower()


def sentence(text: str, names: Collection[str] = ()) -> str:
    """With a capital letter, or one of these names, and a full stop, as pages speak."""
    return capital(text, names) + ("" if text.endswith((".", "!", "?")) else ".")


def hint_of(error: CodeHubError) -> str:
    """What to do about it on a page."""
    return (error.on_page if isinstance(error, Refused) else None) or error.hint or ""


def see_other(target: str) -> RedirectResponse:
    return RedirectResponse(target, HTTPStatus.SEE_OTHER)


def _log_in_first(request: Request) -> Response:
    if request.method != "GET" or not wants_page(request):
        return problem_of(NotLetIn("nobody is logged in", hint="log in, and try again"))
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return see_other(f"/login?next={quote(target, safe='')}")


async def _caller(request: Request) -> Caller | None:
    """Who asks, as far as that can be said."""
    try:
        return await find_caller(request, hub_of(request))
    except CodeHubError:
        return None
