"""`GET /api/v1/events`: what happens to one's workspaces, as it happens."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from codehub.model.scalars import NAME_LENGTH, NAME_PATTERN
from codehub.web.api.documented import problems
from codehub.web.hub import Hub, hub_of
from codehub.web.problems import problem
from codehub.web.stream_client import Wish
from codehub.web.stream_text import MARK
from codehub.web.who import Caller, Reader

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from codehub.web.stream import Streams

router = APIRouter(tags=["events"])

STREAM: Final = "text/event-stream"
MOST_NAMES: Final = 100
_NAMES: Final = r"^[a-z0-9-]+(,[a-z0-9-]+)*$"
_ABOUT_NAMES: Final = "Only those of these names, separated by commas."
_ACCEPTED: Final = {STREAM, "text/*", "*/*"}
_HEAD: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_EXAMPLE: Final = """retry: 2000

id: 5f0c2a71-1
event: snapshot
data: {"first":true,"last":true,"items":[{"id":"0192d3b0-…","name":"payments-api",…}]}

id: 5f0c2a71-2
event: workspace_updated
data: {"id":"0192d3b0-…","name":"payments-api","phase":"STANDBY","operation":"STARTING",…}

id: 5f0c2a71-3
event: heartbeat
data: {}
"""
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A stream without an end.",
        "content": {STREAM: {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    **problems(406, 422, 429),
}


@router.get(
    "/events",
    operation_id="followEvents",
    summary="Follow what happens",
    response_class=Response,
    responses=_ANSWERS,
)
async def follow(
    request: Request,
    caller: Reader,
    hub: Annotated[Hub, Depends(hub_of)],
    owner: Annotated[
        str | None,
        Query(
            pattern=NAME_PATTERN,
            max_length=NAME_LENGTH,
            description="Only what is this user's.",
            examples=["ana"],
        ),
    ] = None,
    names: Annotated[
        str | None,
        Query(
            pattern=_NAMES,
            max_length=MOST_NAMES * (NAME_LENGTH + 1),
            description=_ABOUT_NAMES,
            examples=["payments-api,docs"],
        ),
    ] = None,
) -> Response:
    """First a `snapshot` of all one's workspaces, in one or more parts, then `workspace_updated`
    with the whole object, `workspace_deleted`, `workspace_expiring` and a `heartbeat` now and then.
    `resync` says that changes come late until the next snapshot; `dropped` and `bye`, that the
    stream ends. Whoever connects again gets a snapshot, so nothing can be missed."""
    if not _accepts(request):
        return problem(HTTPStatus.NOT_ACCEPTABLE, f"this is a stream: accept {STREAM}")
    hub.streams.require_room(caller.person)
    address = hub.where.workspace(caller.head, MARK)
    return EventStream(hub.streams, caller, _wish(caller, owner, names), address)


class EventStream(Response):
    """An answer that goes on until the client leaves, or its stream ends."""

    def __init__(self, streams: Streams, caller: Caller, wish: Wish, address: str) -> None:
        super().__init__()
        self._streams = streams
        self._identity = caller.identity
        self._wish = wish
        self._address = address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEAD]})
        with self._streams.join(self._identity, self._wish, self._address, send):
            while (await receive())["type"] != "http.disconnect":
                pass


def _wish(caller: Caller, owner: str | None, names: str | None) -> Wish:
    """What they ask for, of what they may see."""
    chosen = None if names is None else frozenset(names.split(","))
    if caller.owner is None:
        return Wish(owner, chosen)
    if owner not in (None, caller.owner):
        chosen = frozenset()
    return Wish(caller.owner, chosen)


def _accepts(request: Request) -> bool:
    ranges = ",".join(request.headers.getlist("accept")) or "*/*"
    for each in ranges.split(","):
        kind, *parameters = (part.strip().lower() for part in each.split(";"))
        if kind in _ACCEPTED and not any(_is_refused(part) for part in parameters):
            return True
    return False


def _is_refused(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and value.strip().rstrip("0") in ("0.", "")
