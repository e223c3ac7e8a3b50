"""The beaten way: requests whose headers are, byte for byte, those of one before on the connection.

Only their addresses differ, so what was made of the headers is kept: for whom it is, who asks, and
what the workspace gets to read. What may change from one request to the next is looked at each
time: whether the login still holds, and whether the workspace is still there and theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from codehub.proxy.heads import header_lines
from codehub.proxy.seam import Watcher
from codehub.proxy.wanted import OWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.model.route import Route
    from codehub.proxy.known import Entry
    from codehub.proxy.seam import Forward, RequestHead


class Again(Watcher, Protocol):
    """A watcher that can be used for one request after the other."""

    def about(self, head: RequestHead) -> None:
        """What it hears from now on is about this one, with the same headers as the last."""

    def hold(self, hang_up: Callable[[], None]) -> Callable[[], None]:
        """As `Forward.hold`, for whoever asked."""


class Passage:
    """The way of one request, for those that follow it on its connection, one after the other.

    `head` is the latest that took it, and `login` what was known of whoever asked. What becomes a
    page takes no such way: what is put into one depends on its address.
    """

    __slots__ = ("_begin", "_forward", "_stripped", "_watcher", "head", "login", "route")

    def __init__(
        self, head: RequestHead, route: Route, login: Entry, forward: Forward, watcher: Again
    ) -> None:
        self.head = head
        self.route: Final = route
        self.login: Final = login
        self._forward = forward
        self._watcher = watcher
        self._begin = forward.base + b"/"
        self._stripped = len(head.target) - len(forward.target)

    def leads_to(self, target: bytes) -> bool:
        """Whether an address is one of the workspace's, and nothing of the hub's own is in it."""
        begin = self._begin
        return target.startswith(begin) and (len(begin) > 1 or not target.startswith(OWN))

    def take(self, head: RequestHead) -> Forward:
        """What becomes of a request that this leads to."""
        self.head = head
        self._watcher.about(head)
        forward = self._forward
        forward.target = head.target[self._stripped :]
        if forward.lines is None:
            forward.lines = header_lines(forward.headers)
        return forward
