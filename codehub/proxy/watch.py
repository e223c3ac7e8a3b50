"""Watching what passes, to tell who works: the judge of every request and every frame.

Where a page tells of input, traffic tells nothing. But a page that was opened and does not tell may
be one that cannot, and may be where its person works: then traffic counts, whatever others tell.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from codehub.core.engage import (
    DOUBT_SECONDS,
    Polls,
    judged_by_input,
    tell_seconds,
)
from codehub.model.workspace import ActivityPolicy
from codehub.proxy.counting import count_down
from codehub.proxy.held import soon
from codehub.proxy.living import Living, came_from, page_of, who_of
from codehub.proxy.request_watch import RequestWatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from codehub.core.engage import OpenPages
    from codehub.model.access import Identity
    from codehub.model.route import Route
    from codehub.ports import Signals
    from codehub.proxy.activity import ActivityBuffer
    from codehub.proxy.identity import Identities
    from codehub.proxy.living import Who
    from codehub.proxy.seam import RequestHead
    from codehub.proxy.table import RouteTable

SCRIPT: Final = files("codehub.proxy").joinpath("activity.js").read_bytes()
SCRIPT_PATH: Final = b"/_codehub/activity.js"
ALIVE_PATH: Final = b"/_codehub/alive"
INPUT, TRAFFIC, CONNECTIONS = "input", "traffic", "connections"
TIDY_SECONDS: Final = 30.0


class Watch:
    """Who is active where, for all connections of this process. `run` is for as long as it is.

    `standby` are the idle seconds after which workspaces stop whose specs do not say; `most` are
    the WebSockets that one person may have open.
    """

    def __init__(
        self,
        buffer: ActivityBuffer,
        signals: Signals,
        identities: Identities,
        table: RouteTable,
        *,
        standby: int = 600,
        most: int = 500,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._buffer = buffer
        self._standby = standby
        self._most = most
        self._identities = identities
        self._table = table
        self._clock = clock
        self._pages = Living(signals, clock)
        self._polls: dict[Who, Polls] = {}
        self._sockets: Counter[UUID] = Counter()
        self._held_by: Counter[UUID] = Counter()
        """How many WebSockets each person has open."""
        buffer.before_flush(self.note_connections)

    def watcher(
        self, route: Route, head: RequestHead, identity: Identity, *, opens: bool = False
    ) -> RequestWatch:
        """`opens` says that the answer becomes a page of its own."""
        opens = opens and _is_told(route)
        return RequestWatch(self, route, head, identity, self._clock, opens=opens)

    def script(self, route: Route, head: RequestHead, base: bytes) -> bytes | None:
        """The tag that lets a document tell of input."""
        del base
        if not _is_told(route):
            return None
        tag = b'<script src="%b" data-codehub="%b" data-page="%b" data-every="%d" async></script>'
        every = tell_seconds(self._idle_seconds(route))
        return tag % (SCRIPT_PATH, route.name.encode(), page_of(head.path).encode(), every)

    def reported(self, route: Route, identity: Identity, *, by_input: bool, page: str = "") -> None:
        """A page says that it is open, or that its person did something."""
        self._pages.tell(who_of(identity, route), page)
        if by_input:
            self._buffer.record(route.id, INPUT)

    def gave_page(self, who: Who, head: RequestHead) -> None:
        """Somebody gets a page; until it tells of input, it may be one that cannot."""
        self._pages.open(who, page_of(head.path))

    def succeeded(self, route: Route, who: Who, head: RequestHead) -> None:
        """A request was answered well."""
        now, doubted = self._clock(), None
        if self._tells_nothing(route, who, now):
            doubted = self._doubted(route, who, now, head)
            if doubted is None:
                return
        polls = self._polls.get(who)
        if polls is None:
            polls = self._polls[who] = Polls()
        if not polls.is_repeated(head.method, head.path, now):
            self._buffer.record(route.id, TRAFFIC)
            if doubted is not None:
                doubted.see(came_from(head), now)

    def moved(self, route: Route, who: Who, *, anyway: bool) -> None:
        """A WebSocket, or a body that takes its time, carried data.

        `anyway` says that it counts whatever pages tell: it may be of one that cannot tell of its
        person's input, or is a file that somebody waits for, with hands off the keyboard.
        """
        if anyway or not self._tells_nothing(route, who, self._clock()):
            self._buffer.record(route.id, TRAFFIC)

    def doubts(self, route: Route, who: Who, head: RequestHead) -> bool:
        """Whether a request may come from a page that cannot tell of its person's input."""
        return self._doubted(route, who, self._clock(), head) is not None

    def silent(self, route: Route, who: Who, head: RequestHead) -> frozenset[str]:
        """The pages of theirs that do not tell, and may be where a request comes from."""
        if not _is_told(route):
            return frozenset()
        return self._pages.silent(who, head, self._clock(), self._doubt_seconds(route))

    def untold(self, who: Who, pages: frozenset[str], since: float) -> frozenset[str]:
        """Those of them that have not told of input since."""
        return self._pages.untold(who, pages, since)

    def use(self, identity: Identity) -> None:
        """Somebody who sends something is there, and so is their login."""
        self._identities.use(identity)

    def is_full(self, identity: Identity) -> bool:
        """Whether this person has as many WebSockets open as one may."""
        return self._held_by[identity.person.id] >= self._most

    def opened(
        self, route: Route, identity: Identity, hang_up: Callable[[], None], *, counts: bool
    ) -> Callable[[], None]:
        """A WebSocket is open; call what is returned when it is closed.

        `counts` is False where whoever opened it says that this is nobody's work. Many may be let
        in at once before the first of them is open, so what is too many is seen here at the latest.
        """
        person = identity.person.id
        if self.is_full(identity):
            soon(hang_up)
        self._held_by[person] += 1
        counts = counts and route.activity is ActivityPolicy.CONNECTIONS
        if counts:
            self._sockets[route.id] += 1
            self._buffer.record(route.id, CONNECTIONS)
        release = self.hold(route, identity, hang_up)

        def closed() -> None:
            release()
            count_down(self._held_by, person)
            if counts:
                self._buffer.record(route.id, CONNECTIONS)
                count_down(self._sockets, route.id)

        return closed

    def hold(
        self, route: Route, identity: Identity, hang_up: Callable[[], None]
    ) -> Callable[[], None]:
        """Have `hang_up` called when this login ends, or the workspace is no longer theirs.

        Call what is returned at the end.
        """
        login = self._identities.hold(identity, hang_up)
        theirs = self._table.hold(route, identity.person, hang_up)

        def release() -> None:
            login()
            theirs()

        return release

    async def run(self) -> None:
        """Hear of pages that tell other processes, and forget what is gone; until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pages.keep_hearing())
                tasks.create_task(self._keep_tidy())
        finally:
            await self.close()

    async def close(self) -> None:
        """What others are being told is told, or not, before the connection to them ends."""
        await self._pages.close()

    def note_connections(self) -> None:
        """Open WebSockets are activity, where the policy says so."""
        for workspace_id in self._sockets:
            self._buffer.record(workspace_id, CONNECTIONS, lasts=True)

    def tidy(self) -> None:
        now = self._clock()
        self._pages.tidy()
        self._polls = {who: each for who, each in self._polls.items() if not each.is_old(now)}

    def _doubted(self, route: Route, who: Who, now: float, head: RequestHead) -> OpenPages | None:
        """The pages of theirs, if one that does not tell may be where this comes from."""
        if not _is_told(route):
            return None
        return self._pages.doubted(who, head, now, self._doubt_seconds(route))

    def _doubt_seconds(self, route: Route) -> float:
        return max(DOUBT_SECONDS, self._idle_seconds(route))

    def _idle_seconds(self, route: Route) -> int:
        return self._standby if route.standby_ttl is None else route.standby_ttl

    def _tells_nothing(self, route: Route, who: Who, now: float) -> bool:
        """Whether traffic is no sign of a person here."""
        if route.activity is ActivityPolicy.CONNECTIONS:
            return True
        lives = route.inject and self._pages.lives(who, now)
        return judged_by_input(route.activity, page_lives=lives)

    async def _keep_tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            self.tidy()


def _is_told(route: Route) -> bool:
    """Whether pages of this workspace are to tell of input."""
    return route.inject and route.activity is ActivityPolicy.AUTO
