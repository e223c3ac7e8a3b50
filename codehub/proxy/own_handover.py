"""From the hub's login to a workspace's own host, which has a cookie of its own.

    workspace's host   /_codehub/begin      remembers the browser, sends it to the hub
    hub                /_codehub/handover   who is logged in there gets a code for that host
    workspace's host   /_codehub/enter      the code becomes a login, in the browser that began

The code is good once, for a minute, on that host, and in that browser alone: what it is bound to is
a hash of the cookie, so neither address of the way is worth anything to somebody who reads it.
"""

from __future__ import annotations

import re
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from codehub.core.fingerprint import fingerprint
from codehub.errors import CodeHubError, NotLetIn
from codehub.model.access import Way
from codehub.proxy.cookies import set_cookie
from codehub.proxy.hosts import NAME
from codehub.proxy.notices import line, redirect
from codehub.proxy.origin import local_path
from codehub.proxy.outcome import MISSING, Outcome, unreadable
from codehub.proxy.own_desk import not_allowed, tell
from codehub.proxy.own_forms import STATE
from codehub.proxy.seam import Ask
from codehub.render.pages import Link, Trouble
from codehub.service.links import arrive, hand_over

if TYPE_CHECKING:
    from codehub.model.access import Identity
    from codehub.proxy.own_desk import Caller, Desk
    from codehub.proxy.seam import Answer, Verdict

_NAME: Final = re.compile(NAME)
_STATE: Final = re.compile(r"[0-9a-f]{64}")
_READING: Final = (b"GET", b"HEAD")


class Handovers:
    """The three stations of the way, and the way back."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def hub(self, caller: Caller) -> Verdict:
        """From a workspace's host to a path of the hub's."""
        if caller.head.method not in _READING:
            return not_allowed(_READING)
        path = local_path(caller.query.get("to"))
        return redirect(f"{self._hub(caller)}{path}".encode())

    def begin(self, caller: Caller) -> Verdict:
        """On a workspace's host, somebody whom it does not know."""
        if caller.head.method not in _READING:
            return not_allowed(_READING)
        wanted = local_path(caller.query.get("next"))
        if caller.identity is not None:
            return redirect(wanted.encode())
        value, kept = STATE.keep(caller.head)
        query = {"name": caller.place.workspace, "state": fingerprint(value), "next": wanted}
        target = f"{self._hub(caller)}/_codehub/handover?{urlencode(query)}"
        return redirect(target.encode(), headers=[kept])

    def handover(self, caller: Caller) -> Verdict:
        """On the hub, sent by a workspace's host."""
        if caller.head.method not in _READING:
            return not_allowed(_READING)
        name, state = caller.query.get("name", ""), caller.query.get("state", "")
        host = self._desk.where.host(name)
        if host is None or not (_NAME.fullmatch(name) and _STATE.fullmatch(state)):
            return tell(caller, self._desk, MISSING)
        identity = caller.identity
        if identity is None:
            return redirect(f"/login?next={quote(caller.head.target, safe='')}".encode())
        if identity.way is not Way.SESSION:
            return line(HTTPStatus.FORBIDDEN, "only a login in a browser can be handed over")
        return Ask(partial(self._hand_over, caller, identity, name, host))

    async def _hand_over(
        self, caller: Caller, identity: Identity, name: str, host: str, _body: bytes
    ) -> Answer:
        state, lasting = caller.query["state"], self._desk.lasting
        try:
            async with self._desk.pool.connection() as conn:
                code = await hand_over(conn, identity.id, host, state=state, lasting=lasting)
        except NotLetIn:
            return redirect(f"/login?next={quote(caller.head.target, safe='')}".encode())
        except CodeHubError:
            return tell(caller, self._desk, unreadable())
        address = self._desk.where.workspace(caller.head, name)
        query = {"code": code, "next": local_path(caller.query.get("next"))}
        return redirect(f"{address}_codehub/enter?{urlencode(query)}".encode())

    def enter(self, caller: Caller) -> Verdict:
        """On a workspace's host, back from the hub."""
        if caller.head.method != b"GET":
            return not_allowed((b"GET",))
        return Ask(partial(self._enter, caller))

    async def _enter(self, caller: Caller, _body: bytes) -> Answer:
        wanted, host = local_path(caller.query.get("next")), caller.place.host
        code, visitor = caller.query.get("code", ""), self._desk.visitor(caller.head)
        states = STATE.find(caller.head)
        # Several are not ours alone: somebody else's could be among them.
        bound = fingerprint(states[0]) if len(states) == 1 else ""
        try:
            async with self._desk.pool.connection() as conn:
                opened = await arrive(conn, code, host, visitor, state=bound)
        except NotLetIn:
            return self._too_late(caller, wanted)
        except CodeHubError:
            return tell(caller, self._desk, unreadable())
        secure, lasts = caller.head.secure, self._desk.lasting.session
        cookie = set_cookie(opened.secret, secure=secure, seconds=int(lasts.total_seconds()))
        headers = [(b"Set-Cookie", cookie), STATE.forget(caller.head)]
        return redirect(wanted.encode(), headers=headers)

    def _too_late(self, caller: Caller, wanted: str) -> Answer:
        """Whoever is known here already, from another tab perhaps, needs no second login."""
        if caller.identity is not None:
            return redirect(wanted.encode())
        begin = f"/_codehub/begin?next={quote(wanted, safe='')}"
        shown = Trouble(
            "You could not be logged in here",
            "It took too long, or your browser keeps no cookies from this address.",
            "try again; if it fails again, allow cookies for this address",
            links=(Link("Try again", begin),),
            home=False,
        )
        return tell(caller, self._desk, Outcome(HTTPStatus.FORBIDDEN, shown))

    def _hub(self, caller: Caller) -> str:
        return self._desk.where.hub(caller.head, caller.place)
