"""The watcher of one request: what it hears tells who works, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codehub.core.engage import frame_counts, request_succeeded
from codehub.model.workspace import ActivityPolicy
from codehub.proxy.living import who_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.model.access import Identity
    from codehub.model.route import Route
    from codehub.proxy.seam import RequestHead
    from codehub.proxy.watch import Watch

NO_ACTIVITY: Final = b"x-codehub-no-activity"
MOMENT: Final = 0.5
"""The frames of a WebSocket are looked at once in so many seconds; it may carry many thousands."""


class RequestWatch:
    """The watcher of one request, and of the WebSocket that it may become."""

    __slots__ = (
        *("_again", "_clock", "_closed", "_counts", "_doubted", "_head", "_identity", "_opened_at"),
        *("_opens", "_route", "_watch", "_who"),
    )

    def __init__(
        self,
        watch: Watch,
        route: Route,
        head: RequestHead,
        identity: Identity,
        clock: Callable[[], float],
        *,
        opens: bool,
    ) -> None:
        self._watch = watch
        self._route = route
        self._head = head
        self._identity = identity
        self._who = who_of(identity, route)
        self._clock = clock
        self._counts = head.get(NO_ACTIVITY) is None
        self._opens = opens
        self._doubted: frozenset[str] = frozenset()
        """Pages that may have been open when it was opened, and that have not told of input yet."""
        self._opened_at = float("-inf")
        self._again = float("-inf")
        self._closed: Callable[[], None] | None = None

    def about(self, head: RequestHead) -> None:
        self._head = head

    def answered(self, status: int) -> None:
        if self._counts and request_succeeded(status):
            if self._opens:
                self._watch.gave_page(self._who, self._head)
            self._watch.succeeded(self._route, self._who, self._head)

    def moving(self, *, ends: bool) -> None:
        if self._counts:
            if ends:
                self._watch.use(self._identity)
            self._moved(anyway=ends and self._route.activity is ActivityPolicy.AUTO)

    def frame(self, opcode: int, length: int, first: bytes, *, from_client: bool) -> None:
        now = self._clock()
        if now >= self._again and self._counts and frame_counts(opcode, length, first):
            if self._doubted:
                self._doubted = self._watch.untold(self._who, self._doubted, self._opened_at)
            if from_client:
                self._watch.use(self._identity)
            if from_client or not self._doubted:
                # What comes from the workspace must not hide what a person sends right after it.
                self._again = now + MOMENT
            self._moved(anyway=from_client and bool(self._doubted))

    def hold(self, hang_up: Callable[[], None]) -> Callable[[], None]:
        return self._watch.hold(self._route, self._identity, hang_up)

    def opened(self, hang_up: Callable[[], None]) -> None:
        watch, route, identity = self._watch, self._route, self._identity
        self._doubted = watch.silent(route, self._who, self._head)
        self._opened_at = self._clock()
        self._closed = watch.opened(route, identity, hang_up, counts=self._counts)

    def closed(self) -> None:
        if self._closed is not None:
            self._closed()
            self._closed = None

    def _moved(self, *, anyway: bool) -> None:
        watch, route, who = self._watch, self._route, self._who
        anyway = anyway or watch.doubts(route, who, self._head)
        watch.moved(route, who, anyway=anyway)
