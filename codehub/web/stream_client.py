"""One open stream: what it is to get, and a bounded queue that a slow reader cannot outgrow.

A client that is idle costs the request that waits for it to leave, and nothing else: a task that
sends exists only while there is something to send.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.store.streams import START
from codehub.web.stream_text import event

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from starlette.types import Send

    from codehub.model.access import Identity

log: Final = logging.getLogger("codehub.web")

MOST_BYTES: Final = 1024 * 1024
"""What may wait for one client, its snapshot aside, which comes no faster than it is read."""

_DROPPED: Final = {"reason": "too much was waiting to be read here: connect again"}


@dataclass(frozen=True, slots=True)
class Wish:
    """Which workspaces somebody follows: an owner's or everybody's, of these names or of any."""

    owner: str | None = None
    names: frozenset[str] | None = None

    def takes(self, owner: str, name: str) -> bool:
        return self.owner in (None, owner) and (self.names is None or name in self.names)


class Client:
    """`after` is how far its snapshot has come in the order of ids, None once it has it all."""

    __slots__ = (
        *("_backlog", "_drained", "_pieces", "_sending", "_wire"),
        *("address", "after", "ended", "identity", "wish"),
    )

    def __init__(
        self,
        identity: Identity,
        wish: Wish,
        address: str,
        wire: Send,
        drained: Callable[[Client], None],
    ) -> None:
        self.identity = identity
        self.wish = wish
        self.address = address
        self.after: UUID | None = START
        self.ended = False
        self._wire = wire
        self._drained = drained
        self._pieces: deque[bytes] = deque()
        self._backlog = 0
        self._sending: asyncio.Task[None] | None = None

    def expects(self, workspace_id: UUID) -> bool:
        """Whether a part of its snapshot that is still to come has this one, if it is there."""
        return self.after is not None and workspace_id > self.after

    def put(self, piece: bytes) -> None:
        """Send this in its turn. Who reads too slowly is told so, and has to come again."""
        if self.ended:
            return
        self._backlog += len(piece)
        if self._backlog > MOST_BYTES:
            self._pieces.clear()
            self.end(event("dropped", _DROPPED))
        else:
            self._send(piece)

    def put_page(self, piece: bytes, after: UUID | None) -> None:
        """Send a part of the snapshot, which goes on after this id, or is whole."""
        if not self.ended:
            self.after = after
            self._send(piece)

    def end(self, piece: bytes) -> None:
        """Send this, and nothing more."""
        if not self.ended:
            self.ended = True
            self._send(piece)

    def release(self) -> None:
        """The connection is gone, or to be."""
        self.ended = True
        if self._sending is not None:
            self._sending.cancel()

    def _send(self, piece: bytes) -> None:
        self._pieces.append(piece)
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._pieces:
                await self._wire(
                    {"type": "http.response.body", "body": self._taken(), "more_body": True}
                )
            if self.ended:
                await self._wire({"type": "http.response.body", "body": b"", "more_body": False})
        except Exception:
            log.exception("a stream of events could not be written")
            self.ended = True
        finally:
            self._sending = None
        if not self.ended:
            self._drained(self)

    def _taken(self) -> bytes:
        pieces = [*self._pieces]
        self._pieces.clear()
        self._backlog = 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
