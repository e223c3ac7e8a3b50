"""The gate: who may reach which workspace, and what everybody else gets.

First the name the request is for, then who asks, then what they ask for. Whoever may not see a
workspace gets the answer of one that does not exist. The way to a running workspace is found in
memory; all else asks the database, and says so where it gives no answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from codehub.errors import CodeHubError, NotFound
from codehub.model.access import Scope, Way
from codehub.proxy.credentials import OWN_COOKIES
from codehub.proxy.held import may_reach
from codehub.proxy.hosts import HUB, Place
from codehub.proxy.identity import UNKNOWN
from codehub.proxy.notices import log_in_first, notice, redirect, refusal
from codehub.proxy.onward import onward_headers, onward_target
from codehub.proxy.origin import SAFE_METHODS, local_path, may_open_socket, may_send, origin_of
from codehub.proxy.outcome import (
    MISSING,
    limited,
    no_answer,
    outcome,
    refused,
    unasked,
    unreadable,
    vanished,
)
from codehub.proxy.passage import Passage
from codehub.proxy.seam import Ask, Forward
from codehub.proxy.visit import is_visit, note_again, opens_page, wants_page
from codehub.proxy.wanted import WORKSPACES, form_limit, may_be_own, workspace_of
from codehub.telemetry.traffic import Answered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codehub.model.access import Identity
    from codehub.model.route import Route
    from codehub.proxy.credentials import Trust
    from codehub.proxy.hosts import Hosts
    from codehub.proxy.identity import Identities
    from codehub.proxy.outcome import Outcome
    from codehub.proxy.passage import Again
    from codehub.proxy.seam import Answer, RequestHead, Verdict
    from codehub.proxy.table import RouteTable
    from codehub.proxy.wake import Wake
    from codehub.store.workspaces import Found

WAKE_HEADER: Final = b"x-codehub-wake"
_PROBES: Final = frozenset({b"/healthz", b"/readyz"})


class OwnAddresses(Protocol):
    """The hub's own pages and actions."""

    def judge(self, head: RequestHead, identity: Identity | None, place: Place) -> Verdict | None:
        """What an address of the hub's own gets; None for one that is none."""


class Watching(Protocol):
    """What is activity, and what a page needs to tell of it."""

    def watcher(self, route: Route, head: RequestHead, identity: Identity, *, opens: bool) -> Again:
        """Of one request; `opens` says that the answer becomes a page of its own."""

    def is_full(self, identity: Identity) -> bool:
        """Whether this person has as many WebSockets open as one may."""

    def script(self, route: Route, head: RequestHead, base: bytes) -> bytes | None:
        """The tag for a document that is about to be shown; None where none is wanted."""


@dataclass(frozen=True, slots=True)
class Ways:
    """What the gate asks: the database about one workspace, and the hub to wake one."""

    find: Callable[[str], Awaitable[Found | None]]
    wake: Wake


@dataclass(frozen=True, slots=True)
class Front:
    """How the world in front of the proxy looks."""

    hosts: Hosts
    trust: Trust
    secure: bool = False
    """Whether browsers see https, whoever ends it."""
    address: Callable[[RequestHead], str] = lambda head: head.peer
    """Where a request comes from, as far as those in front are believed."""


@dataclass(slots=True)
class _Wish:
    """A request for a workspace, from somebody who is known."""

    head: RequestHead
    name: str
    base: bytes
    identity: Identity
    place: Place

    def told(self, result: Outcome) -> Answer:
        answer = notice(self.head, result, self.identity, place=self.place)
        answer.counted = Answered.PAGE
        return answer


class ProxyGate:
    """Judges every request; see `codehub.proxy.seam.Gate`."""

    def __init__(
        self,
        front: Front,
        identities: Identities,
        table: RouteTable,
        ways: Ways,
        own: Sequence[OwnAddresses],
        watching: Watching,
    ) -> None:
        self._front = front
        self._identities = identities
        self._table = table
        self._ways = ways
        self._own = own
        self._watching = watching

    def judge(self, head: RequestHead) -> Verdict:
        passage = head.same.passage if head.same is not None else None
        if passage is not None and self._is_open(passage, head.target):
            return passage.take(head)
        place = self._front.hosts.place(head.get(b"host"))
        if place is None and head.target in _PROBES:
            place = HUB  # whoever asks whether it lives asks by an address, and learns no more
        if place is None:
            return refusal(
                HTTPStatus.MISDIRECTED_REQUEST, "this hub does not answer under that host name"
            )
        if self._front.secure:
            head.secure = True
        note_again(head)
        identity = self._identities.who(head, place.host)
        if identity is UNKNOWN:
            return Ask(partial(self._look_up, head, place), form_limit(head, place))
        return self._judge(head, place, identity)

    def refuse(self, head: RequestHead | None, status: int, reason: str) -> Answer:
        del head
        return refusal(HTTPStatus(status), reason)

    async def _look_up(self, head: RequestHead, place: Place, body: bytes) -> Answer | Forward:
        try:
            identity = await self._identities.look_up(head, place.host)
        except CodeHubError:
            return notice(head, unreadable(), None, place=place)
        verdict = self._judge(head, place, identity)
        return await verdict.handle(body) if isinstance(verdict, Ask) else verdict

    def _judge(self, head: RequestHead, place: Place, identity: Identity | None) -> Verdict:
        if may_be_own(head.target, place):
            for own in self._own:
                verdict = own.judge(head, identity, place)
                if verdict is not None:
                    return _gone_on(head) if _hands_over(head, verdict) else verdict
        name, base = workspace_of(head, place)
        if name is None:
            return notice(head, MISSING, identity, place=place)
        if place.workspace is None and head.path == base:
            return redirect(base + b"/" + head.target[len(base) :], permanent=True)
        if identity is None:
            return log_in_first(head, place)
        unfit = _unfit(head, identity)
        return unfit or self._admit(_Wish(head, name, base, identity, place))

    def _admit(self, wish: _Wish) -> Verdict:
        """What is somebody else's is asked about like what is not there: they must not differ."""
        route = self._table.find(wish.name)
        if route is None or not may_reach(route, wish.identity.person):
            return Ask(partial(self._without_route, wish))
        return self._let_through(wish, route)

    def _let_through(self, wish: _Wish, route: Route) -> Answer | Forward:
        head = wish.head
        if head.again:
            return _gone_on(head)
        if head.is_websocket and self._watching.is_full(wish.identity):
            return refusal(
                HTTPStatus.TOO_MANY_REQUESTS, "you have too many WebSockets open; close some first"
            )
        return self._forward(wish, route)

    def _is_open(self, passage: Passage, target: bytes) -> bool:
        """Whether the way that others with these headers took is open for this request, too."""
        route = passage.route
        return (
            passage.leads_to(target)
            and self._table.find(route.name) is route
            and self._identities.is_still(passage.login)
        )

    def _forward(self, wish: _Wish, route: Route) -> Forward:
        head, front = wish.head, self._front
        is_page = wants_page(head)
        script = self._watching.script(route, head, wish.base) if is_page else None
        opens = is_page and opens_page(head)
        headers = onward_headers(
            head,
            wish.base,
            front.trust,
            address=front.address(head),
            secure=head.secure,
            plain=script is not None,
        )
        watcher = self._watching.watcher(route, head, wish.identity, opens=opens)
        forward = Forward(
            upstream=route.upstream,
            target=onward_target(head.target, wish.base, route.path_prefix),
            base=wish.base,
            headers=headers,
            watcher=watcher,
            script=script,
            forbidden_cookies=OWN_COOKIES,
            failed=partial(self._failed, wish, route),
            hold=watcher.hold,
        )
        if head.same is not None and not is_page:
            head.same.passage = self._passage(wish, route, forward, watcher)
        return forward

    def _passage(
        self, wish: _Wish, route: Route, forward: Forward, watcher: Again
    ) -> Passage | None:
        """For the requests that follow; None where more than a login must be looked at again."""
        login = self._identities.login(wish.head)
        if login is None or login.identity is not wish.identity:
            return None
        passage = Passage(wish.head, route, login, forward, watcher)
        forward.failed = partial(self._failed_on, passage, wish)
        return passage

    async def _failed_on(self, passage: Passage, first: _Wish) -> Answer:
        return await self._failed(replace(first, head=passage.head), passage.route)

    async def _failed(self, wish: _Wish, route: Route) -> Answer:
        self._table.doubt(route.id)
        return wish.told(no_answer(wish.name))

    async def _without_route(self, wish: _Wish, _body: bytes) -> Answer | Forward:
        """It does not run, as far as we know: say what it does, and wake it for a visit."""
        try:
            found = await self._ways.find(wish.name)
            if found is None or not _is_theirs(found, wish.identity):
                return wish.told(MISSING)
            if found.workspace.name != wish.name:
                return _by_name(wish, found.workspace.name)
            result = outcome(found)
            if result is None:
                # It has come a moment ago, and we were not told yet; or it is already gone.
                route = await self._table.look(found.workspace.id)
                if route is not None and may_reach(route, wish.identity.person):
                    return self._let_through(wish, route)
                result = vanished(wish.name)
            return wish.told(await self._woken(wish, result))
        except NotFound:
            return wish.told(MISSING)
        except CodeHubError:
            return wish.told(unreadable())

    async def _woken(self, wish: _Wish, result: Outcome) -> Outcome:
        """What to say after a visit asked for the workspace, where visits do."""
        if not (result.wakes and _asks_to_wake(wish)):
            return unasked(result)
        address = self._front.address(wish.head)
        answer = await self._ways.wake(wish.name, wish.identity.person, address)
        if answer.coming:
            return result
        if answer.limit is not None:
            return limited(wish.name, answer.limit)
        return refused(wish.name, answer.message, answer.hint)


def _hands_over(head: RequestHead, verdict: Verdict) -> bool:
    return head.again and isinstance(verdict, Forward)


def _gone_on(head: RequestHead) -> Answer:
    """A page that asked again by itself is at its end: on to the address that was asked for."""
    return redirect(local_path(head.target.decode("latin-1")).encode())


def _by_name(wish: _Wish, name: str) -> Answer:
    """It was asked for by its id, which is for good; its name is what people know."""
    if not wish.base or wish.head.method not in SAFE_METHODS:
        return wish.told(MISSING)
    return redirect(WORKSPACES + name.encode() + wish.head.target[len(wish.base) :])


def _unfit(head: RequestHead, identity: Identity) -> Answer | None:
    """What another site's page, or a token made for something else, may not do."""
    if identity.way is Way.TOKEN and not identity.may(Scope.WAKE):
        return refusal(HTTPStatus.FORBIDDEN, "this token may not use workspaces")
    is_websocket = head.is_websocket
    if head.method in SAFE_METHODS and not is_websocket:
        return None
    origin = origin_of(head.get(b"host") or b"", secure=head.secure)
    fits = may_open_socket if is_websocket else may_send
    if fits(head, origin, identity.way):
        return None
    return refusal(HTTPStatus.FORBIDDEN, "pages of other sites may not do this")


def _is_theirs(found: Found, identity: Identity) -> bool:
    return identity.person.sees(found.workspace.declaration.owner)


def _asks_to_wake(wish: _Wish) -> bool:
    """A person's visit does, and a program that says so."""
    if wish.identity.way is Way.TOKEN:
        return wish.head.get(WAKE_HEADER) == b"1"
    return is_visit(wish.head, wish.base)
