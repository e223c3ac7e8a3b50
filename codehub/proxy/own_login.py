"""Coming in and going out: the login form, the one-time link, and logging out."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from math import ceil
from typing import TYPE_CHECKING, Final

from codehub.core.fingerprint import looks_like_secret
from codehub.errors import CodeHubError, NotLetIn, TooManyTries
from codehub.model.access import Way
from codehub.proxy.cookies import clear_cookie, set_cookie
from codehub.proxy.notices import page, problem, redirect
from codehub.proxy.origin import local_path
from codehub.proxy.outcome import Outcome
from codehub.proxy.own_desk import not_allowed, old_page, tell
from codehub.proxy.own_forms import (
    LOGIN,
    MOST_BYTES,
    Bad,
    is_login_form,
    is_proven,
    read_form,
)
from codehub.proxy.seam import Ask
from codehub.render.login_page import Login, login_link_page, login_page
from codehub.render.pages import Button, Frame, Link, Sign, Trouble
from codehub.service.links import USED_UP, redeem
from codehub.service.sessions import log_in, log_out

if TYPE_CHECKING:
    from uuid import UUID

    from codehub.core.throttle import Paces
    from codehub.model.access import Identity, Opened
    from codehub.proxy.own_desk import Caller, Desk
    from codehub.proxy.seam import Answer, Header, Verdict
    from codehub.service.passwords import Passwords

AWAY: Final = "The hub cannot reach its database, so nobody can log in at the moment."
STALE_FORM: Final = "This form was open for too long. Try again."
NO_COOKIES: Final = "Your browser keeps no cookies from this hub. Allow them, and try again."


class Logins:
    """`/login`, `/login/link` and `/logout`, on the hub's own host."""

    def __init__(self, desk: Desk, passwords: Passwords, paces: Paces) -> None:
        self._desk = desk
        self._passwords = passwords
        self._paces = paces

    # Name and password

    def login(self, caller: Caller) -> Verdict:
        match caller.head.method:
            case b"GET" | b"HEAD":
                wanted = local_path(caller.query.get("next"))
                if caller.identity is not None and caller.identity.way is not Way.TOKEN:
                    return redirect(wanted.encode())
                return self._form(caller, Login(), HTTPStatus.OK, wanted)
            case b"POST":
                return Ask(partial(self._log_in, caller), MOST_BYTES)
        return not_allowed((b"GET", b"POST"))

    async def _log_in(self, caller: Caller, body: bytes) -> Answer:
        try:
            form = read_form(caller.head, body)
        except Bad as bad:
            return problem(bad.status, bad.message)
        name, wanted = form.get("name", ""), local_path(form.get("next"))
        if not is_login_form(caller.head, form):
            return self._stale(caller, name, wanted)
        try:
            opened = await log_in(
                self._desk.pool,
                self._passwords,
                name,
                form.get("password", ""),
                self._desk.visitor(caller.head),
                lasting=self._desk.lasting,
                replaces=_session(caller),
                paces=self._paces,
            )
        except CodeHubError as error:
            return self._refused(caller, name, wanted, error)
        return self._let_in(caller, opened, wanted)

    def _stale(self, caller: Caller, name: str, wanted: str) -> Answer:
        problem = STALE_FORM if LOGIN.find(caller.head) else NO_COOKIES
        return self._form(caller, Login(name, problem), HTTPStatus.FORBIDDEN, wanted)

    def _refused(self, caller: Caller, name: str, wanted: str, error: CodeHubError) -> Answer:
        status, headers = HTTPStatus.SERVICE_UNAVAILABLE, list[tuple[bytes, bytes]]()
        text = AWAY
        if isinstance(error, NotLetIn):
            status, text = HTTPStatus.FORBIDDEN, f"{error.message.capitalize()}."
        elif isinstance(error, TooManyTries):
            status, text = HTTPStatus.TOO_MANY_REQUESTS, f"{error.message.capitalize()}."
            headers.append((b"Retry-After", str(ceil(error.seconds)).encode()))
        return self._form(caller, Login(name, text), status, wanted, headers)

    def _form(
        self,
        caller: Caller,
        login: Login,
        status: HTTPStatus,
        wanted: str,
        headers: list[Header] | None = None,
    ) -> Answer:
        """The form, or for a program what is wrong."""
        if not caller.looks and login.problem:
            return problem(status, login.problem, headers or ())
        frame, kept = self._frame(caller, wanted)
        return page(status, login_page(login, frame), [kept, *(headers or ())])

    def _frame(self, caller: Caller, wanted: str) -> tuple[Frame, Header]:
        token, kept = LOGIN.keep(caller.head)
        forms = self._desk.where.forms(caller.head)
        return Frame(csrf=token, wanted=wanted, forms=forms), kept

    def _let_in(self, caller: Caller, opened: Opened, wanted: str) -> Answer:
        secure, lasts = caller.head.secure, self._desk.lasting.session
        cookie = set_cookie(opened.secret, secure=secure, seconds=int(lasts.total_seconds()))
        headers = [(b"Set-Cookie", cookie), LOGIN.forget(caller.head)]
        return redirect(wanted.encode(), headers=headers)

    # The one-time link

    def link(self, caller: Caller) -> Verdict:
        """To open a link does not use it up: mail and chat programs open links to preview them,
        and browsers to be faster. So it leads to a page with one button, and nothing presses that
        button but a person: a script would do it for those programs too.
        """
        match caller.head.method:
            case b"GET" | b"HEAD":
                code = caller.query.get("code", "")
                if not looks_like_secret(code.encode("utf-8", "replace")):
                    return self._used_up(caller)
                frame, kept = self._frame(caller, local_path(caller.query.get("next")))
                return page(HTTPStatus.OK, login_link_page(code, frame), [kept])
            case b"POST":
                return Ask(partial(self._redeem, caller), MOST_BYTES)
        return not_allowed((b"GET", b"POST"))

    async def _redeem(self, caller: Caller, body: bytes) -> Answer:
        try:
            form = read_form(caller.head, body)
        except Bad as bad:
            return problem(bad.status, bad.message)
        wanted = local_path(form.get("next"))
        if not is_login_form(caller.head, form):
            return self._stale(caller, "", wanted)
        visitor, old = self._desk.visitor(caller.head), _session(caller)
        try:
            async with self._desk.pool.connection() as conn:
                opened = await redeem(
                    conn, form.get("code", ""), visitor, lasting=self._desk.lasting
                )
                if old is not None:
                    await log_out(conn, old, visitor)
        except NotLetIn:
            return self._used_up(caller)
        except CodeHubError as error:
            return self._refused(caller, "", wanted, error)
        return self._let_in(caller, opened, wanted)

    def _used_up(self, caller: Caller) -> Answer:
        shown = Trouble(
            "This link is used up",
            f"{USED_UP.capitalize()}.",
            "an administrator makes a new one with 'codehub open --as NAME'",
            home=False,
            links=(Link("Log in with a password", "/login"),),
        )
        return tell(caller, self._desk, Outcome(HTTPStatus.GONE, shown))

    # Going out

    def logout(self, caller: Caller) -> Verdict:
        match caller.head.method:
            case b"GET" | b"HEAD":
                return tell(caller, self._desk, logged(caller.identity), wanted="")
            case b"POST":
                return Ask(partial(self._log_out, caller), MOST_BYTES)
        return not_allowed((b"GET", b"POST"))

    async def _log_out(self, caller: Caller, body: bytes) -> Answer:
        identity, session = caller.identity, _session(caller)
        if identity is None or session is None:
            return redirect(b"/logout")
        try:
            form = read_form(caller.head, body)
            if not is_proven(caller.head, form, identity):
                return tell(caller, self._desk, old_page("/logout"), wanted="")
            async with self._desk.pool.connection() as conn:
                await log_out(conn, session, self._desk.visitor(caller.head))
        except Bad as bad:
            return problem(bad.status, bad.message)
        except CodeHubError:
            shown = Trouble(
                "You are still logged in",
                "The hub cannot reach its database.",
                "try again in a moment",
                alarm=True,
                links=(Link("Try again", "/logout"),),
            )
            return tell(caller, self._desk, Outcome(HTTPStatus.SERVICE_UNAVAILABLE, shown))
        gone = (b"Set-Cookie", clear_cookie(secure=caller.head.secure))
        return redirect(b"/logout", headers=[gone])


def _session(caller: Caller) -> UUID | None:
    identity = caller.identity
    return identity.id if identity is not None and identity.way is Way.SESSION else None


def logged(identity: Identity | None) -> Outcome:
    """The page of those who want to go, of those who went, and of those who cannot."""
    if identity is None:
        links = (Link("Log in again", "/login"),)
        shown = Trouble(
            "Logged out", "You are logged out.", home=False, sign=Sign.DONE, links=links
        )
        return Outcome(HTTPStatus.OK, shown)
    if identity.way is not Way.SESSION:
        shown = Trouble(
            f"Logged in as {identity.person.name}",
            "Your organisation's login lets you in here.",
            "log out there",
        )
        return Outcome(HTTPStatus.OK, shown)
    shown = Trouble(
        "Log out?",
        "Your workspaces stay as they are. Their pages in this browser stop working.",
        buttons=(Button("Log out", "/logout"),),
    )
    return Outcome(HTTPStatus.OK, shown)
