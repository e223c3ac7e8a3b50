"""What the buttons of the hub's pages do: start, stop, restore, recover.

Everything goes through the intent service, as for the command line, with who asked and from where
in the audit. What the rules refuse is told on a page; all else leads back to where one came from.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from codehub.errors import CodeHubError, LimitReached, UsageError
from codehub.model.access import Scope, Way
from codehub.model.states import LEVELS, DesiredState, IntentSource, Operation, Phase, RecoverMode
from codehub.proxy.notices import problem, redirect
from codehub.proxy.origin import local_path
from codehub.proxy.outcome import MISSING, limited, unreadable
from codehub.proxy.own_desk import is_theirs, log_in, not_allowed, old_page, refusal, tell
from codehub.proxy.own_forms import MOST_BYTES, Bad, is_proven, read_form
from codehub.proxy.seam import Ask
from codehub.service.asking import held_still, missing
from codehub.service.intent import request_recover, set_desired
from codehub.service.limits import check_limits
from codehub.store.workspaces import find_live

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.access import Identity
    from codehub.proxy.own_desk import Caller, Desk
    from codehub.proxy.seam import Answer, Verdict
    from codehub.store.workspaces import Found

STOP_SECONDS: Final = 15.0
"""How long a page waits for one workspace to stop before the next is asked for."""
LOOK_SECONDS: Final = 0.2
_GOALS: Final = {
    "start": DesiredState.RUNNING,
    "restore": DesiredState.RUNNING,
    "stop": DesiredState.STANDBY,
}
_RECOVER: Final = "recover"


class Actions:
    """`/_codehub/do/{name}`, and the page to make room at `/_codehub/limit/{name}`."""

    def __init__(self, desk: Desk, *, patience: float = STOP_SECONDS) -> None:
        self._desk = desk
        self._patience = patience

    def do(self, caller: Caller, name: str) -> Verdict:
        if caller.head.method != b"POST":
            return not_allowed((b"POST",))
        return Ask(partial(self._do, caller, name), MOST_BYTES)

    async def _do(self, caller: Caller, name: str, body: bytes) -> Answer:
        try:
            form = read_form(caller.head, body)
            back = self._back(caller, name, form)
            if caller.identity is None:
                return _outside(caller, back)
            if not is_proven(caller.head, form, caller.identity):
                return tell(caller, self._desk, old_page(back), wanted=back)
            return await self._done(caller, caller.identity, name, form)
        except Bad as bad:
            return problem(bad.status, bad.message)

    async def _done(
        self, caller: Caller, identity: Identity, name: str, form: dict[str, str]
    ) -> Answer:
        back = self._back(caller, name, form)
        action = form.get("action", "")
        if not _may(identity, action):
            return problem(HTTPStatus.FORBIDDEN, "this token may not do that")
        try:
            await self._carry_out(caller, identity, name, form)
            if action == "stop" and form.get("then"):
                await self._until_stopped(name)
        except UsageError as error:
            return problem(HTTPStatus.BAD_REQUEST, error.message)
        except CodeHubError as error:
            wanted = "" if form.get("then") else back
            return tell(caller, self._desk, refusal(error, name, back), wanted=wanted)
        return redirect(back.encode())

    async def _carry_out(
        self, caller: Caller, identity: Identity, name: str, form: dict[str, str]
    ) -> None:
        """Whose it is gets looked at with the row locked, in the transaction that changes it."""
        counted = _GOALS.get(form.get("action", "")) is DesiredState.RUNNING
        sees = identity.person.sees
        async with (
            self._desk.pool.connection() as conn,
            held_still(conn, name, sees, counted=counted) as found,
        ):
            if not is_theirs(found, identity, caller.place):
                raise missing()
            await self._ask(conn, caller, identity, found, form)

    async def _ask(
        self,
        conn: AsyncConnection[DictRow],
        caller: Caller,
        identity: Identity,
        found: Found,
        form: dict[str, str],
    ) -> None:
        name = found.workspace.name
        by, source = identity.person.name, IntentSource.API
        reason = f"asked on a page, from {self._desk.address(caller.head)}"
        if identity.way is Way.TOKEN:
            reason = f"asked with a token, from {self._desk.address(caller.head)}"
        if form.get("action") == _RECOVER:
            mode = _mode(form.get("mode", ""))
            await request_recover(conn, name, mode, by=by, source=source, reason=reason)
            return
        goal = _goal(form.get("action", ""))
        if not _is_beyond(found, goal):
            await set_desired(
                conn, name, goal, source=source, by=by, reason=reason, limits=self._desk.limits
            )

    async def _until_stopped(self, name: str) -> None:
        """Wait until its place is free, but not for ever: the page tells where it stands."""
        ends = asyncio.get_running_loop().time() + self._patience
        while asyncio.get_running_loop().time() < ends:
            async with self._desk.pool.connection() as conn:
                found = await find_live(conn, name)
            if found is None or not _has_place(found):
                return
            await asyncio.sleep(LOOK_SECONDS)

    # Making room

    def limit(self, caller: Caller, name: str) -> Verdict:
        """On the hub: those that run, to stop one of them for this one."""
        if caller.head.method not in (b"GET", b"HEAD"):
            return not_allowed((b"GET",))
        if caller.identity is None:
            return log_in(caller)
        return Ask(partial(self._limit, caller, caller.identity, name))

    async def _limit(self, caller: Caller, identity: Identity, name: str, _body: bytes) -> Answer:
        if not identity.may(Scope.READ):
            return problem(HTTPStatus.FORBIDDEN, "this token may not look at workspaces")
        try:
            async with self._desk.pool.connection() as conn:
                found = await find_live(conn, name)
                if found is None or not is_theirs(found, identity, caller.place):
                    return tell(caller, self._desk, MISSING)
                await check_limits(conn, found.workspace, self._desk.limits)
        except LimitReached as error:
            return tell(caller, self._desk, limited(name, error), wanted="")
        except CodeHubError:
            return tell(caller, self._desk, unreadable())
        return redirect(self._desk.where.workspace(caller.head, name).encode())

    def _back(self, caller: Caller, name: str, form: dict[str, str]) -> str:
        """Where the form came from; else the workspace that it was about."""
        if caller.place.workspace is not None:
            return local_path(form.get("next"))
        own = self._desk.where.workspace(caller.head, form.get("then") or name)
        return local_path(form.get("next"), own)


def _outside(caller: Caller, back: str) -> Answer:
    """Whose login ended while the page was open is led to a new one, and back."""
    if not caller.looks or not back.startswith("/"):
        return log_in(caller)
    begin = "/_codehub/begin" if caller.place.workspace is not None else "/login"
    return redirect(f"{begin}?next={quote(back, safe='')}".encode())


def _may(identity: Identity, action: str) -> bool:
    """A token does what it was made for; people do what is theirs."""
    return identity.may(Scope.WAKE if action == "start" else Scope.WRITE)


def _goal(action: str) -> DesiredState:
    if action not in _GOALS:
        raise UsageError("action is one of start, stop, restore and recover")
    return _GOALS[action]


def _mode(text: str) -> RecoverMode:
    try:
        return RecoverMode(text or RecoverMode.PLAIN)
    except ValueError:
        raise UsageError(f"mode is one of {', '.join(RecoverMode)}") from None


def _is_beyond(found: Found, goal: DesiredState) -> bool:
    """Whether it is asked for already, and more: stopping must not restore what is archived."""
    wanted = found.workspace.intent.desired
    lowering = goal is DesiredState.STANDBY and found.workspace.status.phase is not Phase.ERROR
    return lowering and LEVELS[wanted] < LEVELS[goal] and wanted is not DesiredState.DELETED


def _has_place(found: Found) -> bool:
    """Whether it still takes one of the places that limits leave."""
    status = found.workspace.status
    moving = status.operation in (Operation.STARTING, Operation.STOPPING)
    return status.phase is Phase.RUNNING or moving
