"""What is around every request: the names we answer to, its own, and the headers of every answer.

A request is called as whoever stands in front calls it; the log and the answer say the same name.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.datastructures import MutableHeaders

from codehub.proxy.hosts import HUB
from codehub.render.pages import REFERRER
from codehub.service.fronting import FRONT_HEADER
from codehub.telemetry.logs import bound, request_id
from codehub.web.problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from codehub.web.hub import Hub

REQUEST_ID: Final = "X-Request-Id"
PROBES: Final = frozenset({"/healthz", "/readyz"})
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": REFERRER,
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
"""Where a route says otherwise, that counts."""


class Shell:
    """Wraps the application. A name that is not ours gets nothing, health aside.

    Otherwise a page from elsewhere could make its own name point here, and be let in as ours.
    """

    def __init__(self, app: ASGIApp, hub: Hub) -> None:
        self._app = app
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        called = request_id(dict(scope["headers"]).get(REQUEST_ID.lower().encode()))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = called
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        app: ASGIApp = self._app if self._is_ours(scope) else _misdirect
        with bound(request_id=called):
            await app(scope, receive, send_with_headers)

    def _is_ours(self, scope: Scope) -> bool:
        if scope["path"] in PROBES:
            return True
        headers = dict(scope["headers"])
        fronted = headers.get(FRONT_HEADER) == self._hub.front_key
        name = headers.get(b"x-forwarded-host" if fronted else b"host")
        return self._hub.hosts.place(name) == HUB


async def _misdirect(scope: Scope, receive: Receive, send: Send) -> None:
    told = problem(HTTPStatus.MISDIRECTED_REQUEST, "this hub does not answer under that host name")
    await told(scope, receive, send)
