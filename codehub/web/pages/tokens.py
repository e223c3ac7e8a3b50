"""`/tokens`: one's own tokens for programs. The secret of a new one is shown once, here."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from codehub.errors import NotAllowed, NotFound, Refused, UsageError
from codehub.model.access import Scope, Way
from codehub.proxy.hosts import HUB
from codehub.render.dashboard_tokens import DAYS, USUAL_DAYS, Wish, tokens_page
from codehub.service.tokens import create_token, revoke_token
from codehub.store.clock import read_now
from codehub.store.tokens import read_tokens
from codehub.web.hub import Hub, hub_of
from codehub.web.pages.answering import (
    PageRoute,
    hint_of,
    html,
    hub_name,
    see_other,
    sentence,
    shell_of,
)
from codehub.web.pages.flashing import flash_of, with_flash
from codehub.web.pages.forms import Form, Sent
from codehub.web.who import Reader

if TYPE_CHECKING:
    from codehub.model.access import Issued
    from codehub.render.dashboard import Flash
    from codehub.web.who import Caller

router = APIRouter(include_in_schema=False, route_class=PageRoute)

HERE: Final = "/tokens"


@router.get(HERE)
async def tokens(
    caller: Reader,
    hub: Annotated[Hub, Depends(hub_of)],
    did: Annotated[str, Query()] = "",
    to: Annotated[str, Query()] = "",
) -> Response:
    return await _shown(hub, caller, flash=flash_of(did, to))


@router.post(HERE)
async def create(form: Sent, hub: Annotated[Hub, Depends(hub_of)]) -> Response:
    _check_person(form.caller)
    wish, caller = _wish(form), form.caller
    person = caller.person.name
    try:
        async with hub.pool.connection() as conn:
            made = await create_token(
                conn,
                person,
                wish.name,
                wish.scopes,
                timedelta(days=wish.days),
                by=person,
                visitor=caller.visitor,
            )
    except (Refused, UsageError) as error:
        hint = f" {sentence(hint_of(error))}" if hint_of(error) else ""
        said = sentence(error.message, (person,)) + hint
        told = Wish(wish.name, wish.scopes, wish.days, said)
        return await _shown(hub, caller, wish=told, status=HTTPStatus.CONFLICT)
    return await _shown(hub, caller, made=made)


@router.post(f"{HERE}/revoke")
async def revoke(form: Sent, hub: Annotated[Hub, Depends(hub_of)]) -> Response:
    name, person = form.get("name").replace("\0", ""), form.caller.person.name
    try:
        async with hub.pool.connection() as conn:
            await revoke_token(conn, person, name, by=person, visitor=form.caller.visitor)
    except NotFound:
        return see_other(HERE)  # it is gone, as was wanted
    return see_other(with_flash(HERE, "revoked", name))


async def _shown(
    hub: Hub,
    caller: Caller,
    *,
    made: Issued | None = None,
    wish: Wish | None = None,
    flash: Flash | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    async with hub.pool.connection() as conn:
        now = await read_now(conn)
        found = await read_tokens(conn, caller.person.name)
        shell = shell_of(caller, now, "tokens", hub=await hub_name(conn), flash=flash)
    address = hub.where.hub(caller.head, HUB)
    return html(tokens_page(found, shell, address=address, made=made, wish=wish), status)


def _wish(form: Form) -> Wish:
    days = form.get("days")
    return Wish(
        name=form.get("name").strip().replace("\0", ""),
        scopes=frozenset(scope for scope in Scope if form.get(scope.value)),
        days=int(days) if days in map(str, DAYS) else USUAL_DAYS,
    )


def _check_person(caller: Caller) -> None:
    """One that leaked could otherwise outlive its own end."""
    if caller.identity.way is Way.TOKEN:
        raise NotAllowed("a token cannot make tokens", hint="log in, and make it there")
