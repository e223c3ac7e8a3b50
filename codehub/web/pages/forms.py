"""Forms of the dashboard: read, and found to be sent by whoever is logged in, from our pages."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from codehub.errors import NotAllowed, NotLetIn
from codehub.model.access import Scope
from codehub.proxy.origin import local_path
from codehub.proxy.own_forms import MOST_BYTES, Bad, is_proven, read_form
from codehub.web.who import Caller, find_caller

if TYPE_CHECKING:
    from collections.abc import Mapping

_OLD: Final = "this page was opened under another login, so nothing was done"


@dataclass(frozen=True, slots=True)
class Form:
    """What somebody sent. `back` is the page they sent it from."""

    caller: Caller
    fields: Mapping[str, str]

    def get(self, name: str) -> str:
        return self.fields.get(name, "")

    @property
    def back(self) -> str:
        return local_path(self.get("next"))


async def sent_form(
    request: Request, caller: Annotated[Caller | None, Depends(find_caller)]
) -> Form:
    """For `Depends`: the form of somebody who is known, and meant to send it."""
    if caller is None:
        raise NotLetIn("nobody is logged in", hint="log in, and try again")
    body = await _body(request)
    try:
        fields = read_form(caller.head, body)
    except Bad as bad:
        raise HTTPException(bad.status, bad.message) from None
    if not is_proven(caller.head, fields, caller.identity):
        raise NotAllowed(_OLD, hint="open the page again, and try once more")
    if not caller.identity.may(Scope.WRITE):
        raise NotAllowed("this token may not do that", hint="make one with the scope write")
    return Form(caller, fields)


Sent = Annotated[Form, Depends(sent_form)]


async def _body(request: Request) -> bytes:
    """All of it, unless it is more than any form of ours."""
    gathered = b""
    async for piece in request.stream():
        gathered += piece
        if len(gathered) > MOST_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "this form is too large")
    return gathered
