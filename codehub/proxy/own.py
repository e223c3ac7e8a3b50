"""The hub's own addresses: logging in and out, the pages' script and events, actions, health.

On the hub's host there are more of them than on a workspace's own, where everything but
`/_codehub/` belongs to the workspace. What is not known here is somebody else's to answer.
"""

from __future__ import annotations

import re
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from codehub.core.throttle import PACES
from codehub.errors import CodeHubError
from codehub.model.access import Scope
from codehub.proxy.follow import Follow
from codehub.proxy.hosts import HUB, NAME
from codehub.proxy.notices import line, problem, redirect
from codehub.proxy.outcome import MISSING, unreadable
from codehub.proxy.own_actions import Actions
from codehub.proxy.own_desk import Caller, Desk, is_theirs, log_in, not_allowed, tell
from codehub.proxy.own_handover import Handovers
from codehub.proxy.own_login import Logins
from codehub.proxy.queueing import finder
from codehub.proxy.seam import Answer, Ask
from codehub.proxy.whereabouts import whereabouts_of
from codehub.render.pages import SCRIPT, script_path
from codehub.render.template import script
from codehub.service.passwords import Passwords
from codehub.service.rules import limits_of
from codehub.service.sessions import lasting_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.config import Settings
    from codehub.core.throttle import Paces
    from codehub.model.access import Identity
    from codehub.proxy.gate import Front
    from codehub.proxy.hosts import Place
    from codehub.proxy.seam import RequestHead, Verdict
    from codehub.store.pool import Pool

    Hold = Callable[[Identity, Callable[[], None]], Callable[[], None]]

_ABOUT: Final = re.compile(rf"/_codehub/(follow|do|limit|go)/({NAME})".encode())
_SCRIPT: Final = re.compile(rb"/_codehub/pages\.[0-9a-f]{16}\.js")
_READING: Final = (b"GET", b"HEAD")
_EVENTS: Final = [
    (b"Content-Type", b"text/event-stream; charset=utf-8"),
    (b"Cache-Control", b"no-store"),
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
    (b"X-Accel-Buffering", b"no"),
]


def _let_stay(identity: Identity, hang_up: Callable[[], None]) -> Callable[[], None]:
    del identity, hang_up
    return lambda: None


class Own:
    """Answers them. `front` is how the world in front of the proxy looks.

    `hold` is `Identities.hold`: a page that follows ends with its login. `routed` says whether a
    request to a workspace would reach it, `ready` whether this process can serve. Close it.
    """

    def __init__(
        self,
        pool: Pool,
        settings: Settings,
        front: Front,
        *,
        passwords: Passwords | None = None,
        hold: Hold = _let_stay,
        routed: Callable[[str], bool] = lambda _: True,
        ready: Callable[[], bool] = lambda: True,
        paces: Paces = PACES,
    ) -> None:
        limits, where = limits_of(settings), whereabouts_of(settings)
        self._desk = Desk(pool, where, lasting_of(settings), limits, front.address)
        self._passwords = passwords or Passwords(threads=settings.auth_password_threads)
        self._hold = hold
        self._ready = ready
        self._draining = False
        self._find = finder(pool, limits)
        self.follow = Follow(self._find, routed=routed)
        self._actions = Actions(self._desk)
        logins, handovers = Logins(self._desk, self._passwords, paces), Handovers(self._desk)
        self._on_hub: dict[bytes, Callable[[Caller], Verdict]] = {
            b"/login": logins.login,
            b"/login/link": logins.link,
            b"/logout": logins.logout,
            b"/healthz": lambda _: self.health(),
            b"/readyz": lambda _: self.readiness(),
            b"/_codehub/handover": handovers.handover,
            b"/_codehub/hub": handovers.hub,
        }
        self._on_workspace: dict[bytes, Callable[[Caller], Verdict]] = {
            b"/_codehub/begin": handovers.begin,
            b"/_codehub/enter": handovers.enter,
            b"/_codehub/hub": handovers.hub,
        }

    def judge(
        self, head: RequestHead, identity: Identity | None, place: Place = HUB
    ) -> Verdict | None:
        """What an address of the hub's own gets; None for one that is none."""
        path = head.path
        known = self._on_hub if place.workspace is None else self._on_workspace
        found = known.get(path)
        if found is not None:
            return found(Caller(head, identity, place))
        if not path.startswith(b"/_codehub/"):
            return None
        if _SCRIPT.fullmatch(path):
            return _script(head)
        about = _ABOUT.fullmatch(path)
        if about is None:
            return None
        return self._about(Caller(head, identity, place), about[1], about[2].decode())

    def health(self) -> Answer:
        """This process lives."""
        return line(HTTPStatus.OK, "ok")

    def readiness(self) -> Answer:
        """This process can serve.

        A database that is away does not change that: known workspaces stay reachable, and would not
        if whoever asks this took all proxies out of service at once.
        """
        if self._draining or not self._ready():
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "not ready")
        return line(HTTPStatus.OK, "ready")

    def drain(self) -> None:
        """This process ends soon: be ready for nobody, and let pages that follow go elsewhere."""
        self._draining = True
        self.follow.close()

    def close(self) -> None:
        """Check no more passwords."""
        self.drain()
        self._passwords.close()

    def _about(self, caller: Caller, what: bytes, name: str) -> Verdict | None:
        if what == b"do":
            return self._actions.do(caller, name)
        if what in (b"limit", b"go") and caller.place.workspace is not None:
            return None
        if what == b"limit":
            return self._actions.limit(caller, name)
        if what == b"go":
            return redirect(self._desk.where.workspace(caller.head, name).encode())
        if caller.head.method != b"GET":
            return not_allowed((b"GET",))
        if caller.identity is None:
            return log_in(caller)
        return Ask(partial(self._follow, caller, caller.identity, name))

    async def _follow(self, caller: Caller, identity: Identity, name: str, _body: bytes) -> Answer:
        if not identity.may(Scope.READ):
            return problem(HTTPStatus.FORBIDDEN, "this token may not look at workspaces")
        try:
            found = await self._find(name)
        except CodeHubError:
            return tell(caller, self._desk, unreadable())
        may_see = partial(is_theirs, identity=identity, place=caller.place)
        if found is None or not may_see(found):
            return tell(caller, self._desk, MISSING)
        if self.follow.full:
            return problem(
                HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are waiting; try again in a moment"
            )
        events = self.follow.events(name, may_see, partial(self._hold, identity))
        return Answer(HTTPStatus.OK, list(_EVENTS), events)


def _script(head: RequestHead) -> Answer:
    """Under any name it ever had: while a hub is updated, its processes differ for a moment."""
    if head.method not in _READING:
        return not_allowed(_READING)
    current = head.path == script_path().encode()
    caching = b"public, max-age=31536000, immutable" if current else b"no-store"
    headers = [
        (b"Content-Type", b"text/javascript; charset=utf-8"),
        (b"Cache-Control", caching),
        (b"X-Content-Type-Options", b"nosniff"),
        (b"Cross-Origin-Resource-Policy", b"same-origin"),
    ]
    return Answer(HTTPStatus.OK, headers, script(SCRIPT).encode())
