"""The front page: what there is to see for whoever is logged in.

Admins see the report of the fleet as the PageRenderer last wrote it, also while the database is
away; members see their own workspaces.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from codehub.errors import CodeHubError
from codehub.model.access import Scope
from codehub.proxy.notices import file, notice, redirect, refusal
from codehub.proxy.outcome import starting, unreadable
from codehub.proxy.seam import Ask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from codehub.model.access import Identity
    from codehub.proxy.hosts import Place
    from codehub.proxy.seam import Answer, RequestHead, Verdict


class Home:
    """Answers `/` on the hub's host. `own` renders the page of one person's workspaces."""

    def __init__(self, pages: Path, own: Callable[[str], Awaitable[str]]) -> None:
        self._index = pages / "index.html"
        self._own = own

    def judge(self, head: RequestHead, identity: Identity | None, place: Place) -> Verdict | None:
        if head.path != b"/" or place.workspace is not None:
            return None
        if head.method not in (b"GET", b"HEAD"):
            return None
        if identity is None:
            return redirect(b"/login")
        return Ask(partial(self._show, head, identity))

    async def _show(self, head: RequestHead, identity: Identity, _body: bytes) -> Answer:
        if not identity.may(Scope.READ):
            return refusal(HTTPStatus.FORBIDDEN, "this token may not look at workspaces")
        if identity.person.is_admin:
            return await self._report(head, identity)
        try:
            return file((await self._own(identity.person.name)).encode())
        except CodeHubError:
            return notice(head, unreadable(), identity)

    async def _report(self, head: RequestHead, identity: Identity) -> Answer:
        try:
            body = await asyncio.to_thread(self._index.read_bytes)
        except OSError:
            return notice(head, starting(), identity)
        return file(body)
