"""`/workspaces/{name}/do`: what the buttons do.

Everything goes through the intent service, as for the API and the command line. What is done leads
back to where one came from and is told there; what the rules refuse is told on a page, and where a
limit is in the way, that page has the buttons to make room.

The script sends the same forms and asks for JSON. To it a refusal is an answer like any other, not
a status: browsers complain of those in the console, of a click that only came too late.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from codehub.errors import CodeHubError, LimitReached, NotFound, Refused, UsageError
from codehub.model.states import DesiredState, IntentSource, Operation, Phase, RecoverMode
from codehub.model.view import Action
from codehub.render.pages import Button, Choice, Link, Sign, Trouble
from codehub.render.words import clean
from codehub.service.asking import Only, find_theirs, is_name
from codehub.service.intent import request_recover, touch
from codehub.web.asking import Ask
from codehub.web.hub import Hub, hub_of
from codehub.web.pages.answering import PageRoute, hint_of, see_other, sentence, told
from codehub.web.pages.flashing import with_flash
from codehub.web.pages.forms import Form, Sent
from codehub.web.problems import status_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from codehub.store.workspaces import Found
    from codehub.web.asking import Conn

router = APIRouter(include_in_schema=False, route_class=PageRoute)

STOP_SECONDS: Final = 15.0
"""How long a form waits for one workspace to stop before the next is asked for."""
LOOK_SECONDS: Final = 0.2

TOUCH: Final = "touch"
_GOALS: Final = {
    Action.START: DesiredState.RUNNING,
    Action.RESTORE: DesiredState.RUNNING,
    Action.STOP: DesiredState.STANDBY,
    Action.ARCHIVE: DesiredState.ARCHIVED,
    Action.DELETE: DesiredState.DELETED,
}
_ONLY: Final = {Action.STOP: Only.DOWN, Action.RESTORE: Only.UP}
"""Stopping must not restore what is archived, nor restoring stop what runs."""
_MODES: Final = {
    Action.RECOVER: RecoverMode.PLAIN,
    Action.RECOVER_FROM_ARCHIVE: RecoverMode.FROM_ARCHIVE,
    Action.RECOVER_EMPTY: RecoverMode.ACCEPT_EMPTY,
}


@router.post("/workspaces/{name}/do")
async def do(
    request: Request, name: str, form: Sent, hub: Annotated[Hub, Depends(hub_of)]
) -> Response:
    by_script = "application/json" in request.headers.get("accept", "")
    try:
        target = await _do(hub, form, name)
    except NotFound:
        raise
    except Refused as error:
        return _refused_script(error, name, form) if by_script else _refused(error, name, form)
    return JSONResponse({}) if by_script else see_other(target)


async def _do(hub: Hub, form: Form, name: str) -> str:
    """What the form asks for; gives where to go on to."""
    action, then = form.get("action"), form.get("then")
    await _carry_out(hub, form, name, action)
    if action == Action.STOP and is_name(then):
        await _until_stopped(hub, form, name)
        await _carry_out(hub, form, then, Action.START)
        return with_flash(form.back, Action.START, then)
    return with_flash(_after(form.back, name, action), action, name)


def _refused(error: Refused, name: str, form: Form) -> Response:
    if isinstance(error, LimitReached):
        status, then = HTTPStatus.TOO_MANY_REQUESTS, form.get("then")
        wanted = then if form.get("action") == Action.STOP and then else name
        return told(limit_notice(wanted, error, form.back), form.caller, status, form.back)
    notice = refusal_notice(error, form.back, _names(name, form))
    return told(notice, form.caller, status_of(error), form.back)


def _refused_script(error: Refused, name: str, form: Form) -> Response:
    """What to say, or that the page is wanted which can make room."""
    if isinstance(error, LimitReached):
        return JSONResponse({"limit": True})
    detail = sentence(error.message, _names(name, form))
    return JSONResponse({"detail": clean(detail), "hint": clean(hint_of(error))})


def _names(name: str, form: Form) -> tuple[str, ...]:
    """What a refusal may begin with."""
    return name, form.get("then")


def limit_notice(name: str, error: LimitReached, back: str) -> Trouble:
    """As many run as may: one of them can be stopped instead."""
    message = error.message.partition(" (running or waiting")[0]
    again = _button(name, Action.START, "Try again")
    return Trouble(
        f"{name} cannot start yet",
        sentence(message, (name, error.owner)),
        "stop one of these; then it starts" if error.stoppable else hint_of(error),
        sign=Sign.HELD,
        choices=tuple(
            Choice(each, button=_stop(each, name) if each in error.stoppable else None)
            for each in error.running
        ),
        buttons=(again,),
        links=(Link("Back", back),),
    )


def refusal_notice(error: CodeHubError, back: str, names: Collection[str] = ()) -> Trouble:
    return Trouble(
        "That is not possible",
        sentence(error.message, names),
        hint_of(error),
        sign=Sign.HELD,
        links=(Link("Back", back),),
    )


def _stop(name: str, then: str) -> Button:
    return _button(name, Action.STOP, "Stop", then=then)


def _button(name: str, action: Action, label: str, **more: str) -> Button:
    return Button(label, f"/workspaces/{name}/do", (("action", action.value), *more.items()))


async def _carry_out(hub: Hub, form: Form, name: str, action: str) -> None:
    ask = Ask(hub, form.caller, name, None, Response())
    if action == TOUCH:
        await ask.change(partial(_touched, ask))
    elif action in _MODES:
        await ask.change(partial(_recovering, ask, _MODES[Action(action)]))
    elif action in _GOALS:
        await ask.toward(_GOALS[Action(action)], only=_ONLY.get(Action(action)))
    else:
        raise UsageError("there is no such button", hint="load the page again")


async def _touched(ask: Ask, conn: Conn, found: Found) -> None:
    await touch(conn, found.workspace.name, by=ask.by, source=IntentSource.API, reason=ask.reason())


async def _recovering(ask: Ask, mode: RecoverMode, conn: Conn, found: Found) -> None:
    await request_recover(
        conn,
        found.workspace.name,
        mode,
        by=ask.by,
        source=IntentSource.API,
        reason=ask.reason(),
    )


async def _until_stopped(hub: Hub, form: Form, name: str) -> None:
    """Wait until its place is free, but not for ever: the limit says whether it is."""
    ends = asyncio.get_running_loop().time() + STOP_SECONDS
    while asyncio.get_running_loop().time() < ends:
        async with hub.pool.connection() as conn:
            found = await find_theirs(conn, name, form.caller.sees)
        status = found.workspace.status
        moving = status.operation in (Operation.STARTING, Operation.STOPPING)
        if status.phase is not Phase.RUNNING and not moving:
            return
        await asyncio.sleep(LOOK_SECONDS)


def _after(back: str, name: str, action: str) -> str:
    """A workspace that is being deleted has no page to come back to for long."""
    own = back.partition("?")[0].startswith(f"/workspaces/{name}")
    return "/" if action == Action.DELETE and own else back
