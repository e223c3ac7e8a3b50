"""What nobody foresaw: logged under the name of its request, and told like everything else.

It stands inside the shell. Starlette's own place for such errors is around it, where an answer gets
none of our headers and a line of the log no request id.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from codehub.web.pages.answering import mistaken

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log: Final = logging.getLogger("codehub.web")


class Mistakes:
    """Wraps the application. An answer that has begun cannot be taken back: it breaks off."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def send_noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_noting)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if begun:
                raise
            await mistaken(Request(scope))(scope, receive, send)
