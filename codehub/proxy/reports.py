"""What pages of workspaces tell the hub: the script they do it with, and the address for it."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from codehub.proxy.held import may_reach
from codehub.proxy.origin import origin_of, own_page
from codehub.proxy.seam import Answer
from codehub.proxy.watch import ALIVE_PATH, SCRIPT, SCRIPT_PATH

if TYPE_CHECKING:
    from codehub.model.access import Identity
    from codehub.proxy.hosts import Place
    from codehub.proxy.seam import RequestHead
    from codehub.proxy.table import RouteTable
    from codehub.proxy.watch import Watch

_SCRIPT: Final = Answer(
    HTTPStatus.OK,
    [
        (b"Content-Type", b"text/javascript; charset=utf-8"),
        (b"Cache-Control", b"private, max-age=3600"),
        (b"X-Content-Type-Options", b"nosniff"),
    ],
    SCRIPT,
)
_HEARD: Final = Answer(HTTPStatus.NO_CONTENT, [(b"Cache-Control", b"no-store")])
_UNHEARD: Final = Answer(HTTPStatus.NOT_FOUND, [(b"Cache-Control", b"no-store")])
_MOST_QUERY: Final = 200
_PAGE: Final = re.compile("[0-9a-f]{8}")


class Reports:
    """Answers the two addresses; hears only of workspaces that are the teller's to see."""

    def __init__(self, table: RouteTable, watch: Watch) -> None:
        self._table = table
        self._watch = watch

    def judge(self, head: RequestHead, identity: Identity | None, place: Place) -> Answer | None:
        path = head.path
        if path == SCRIPT_PATH and head.method in (b"GET", b"HEAD"):
            return _SCRIPT
        if path != ALIVE_PATH:
            return None
        origin = origin_of(head.get(b"host") or b"", secure=head.secure)
        if head.method != b"POST" or identity is None or not own_page(head, origin):
            return _UNHEARD
        return self._hear(head.target, identity, place)

    def _hear(self, target: bytes, identity: Identity, place: Place) -> Answer:
        query = target.partition(b"?")[2][:_MOST_QUERY].decode("latin-1")
        told = parse_qs(query)
        name = place.workspace or told.get("w", [""])[0]
        route = self._table.find(name)
        if route is None or not may_reach(route, identity.person):
            return _UNHEARD
        page = told.get("p", [""])[0]
        by_input, page = told.get("input") == ["1"], page if _PAGE.fullmatch(page) else ""
        self._watch.reported(route, identity, by_input=by_input, page=page)
        return _HEARD
