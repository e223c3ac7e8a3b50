"""Following the audit: every event once, soon after it happened, none left out.

Events appear out of the order of their ids: an id is given out when a row is written, and others
see the row when its transaction commits. So each look begins where the last one stood two minutes
ago and leaves out what was told; a transaction that takes longer than that may be missed.
NOTIFY makes the next look come sooner, and losing it costs a second.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from codehub.store.connect import translated
from codehub.store.events import events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.events import Event

CHANNELS: Final = ("ws_sse", "ws_wake", "ws_deleted")
LOOKING_BACK: Final = 120.0
"""Seconds after which an id that has not appeared counts as never coming."""
PAGE: Final = 1000


class Follower:
    """What was told so far, across connections that break. `since` is the id to begin after."""

    def __init__(self, clock: Callable[[], float], *, since: int = 0) -> None:
        self._clock = clock
        self._since = since
        self._told: set[int] = set()
        self._marks: deque[tuple[float, int]] = deque()

    def leave_out(self, known: Iterable[Event]) -> None:
        """These need not be told."""
        self._told.update(each.id for each in known)

    async def look(
        self, conn: AsyncConnection[DictRow], workspace: str | UUID | None
    ) -> tuple[Event, ...]:
        """What has appeared since the last look, oldest first."""
        at = self._clock()
        found = await read_after(conn, workspace, self._since)
        fresh = tuple(each for each in found if each.id not in self._told)
        self._told.update(each.id for each in fresh)
        self._advance(at, max((each.id for each in found), default=self._since))
        return fresh

    def _advance(self, at: float, highest: int) -> None:
        """Begin later once what was highest then is old enough."""
        if not self._marks or self._marks[-1][1] < highest:
            self._marks.append((at, highest))
        while self._marks and self._marks[0][0] <= at - LOOKING_BACK:
            self._since = max(self._since, self._marks.popleft()[1])
        self._told = {each for each in self._told if each > self._since}


async def begin(
    conn: AsyncConnection[DictRow], workspace: str | UUID | None, clock: Callable[[], float]
) -> Follower:
    """A follower of what is not there yet, ids among the latest that appear late included."""
    known = await events(conn, workspace, limit=PAGE)
    follower = Follower(clock, since=known[0].id - 1 if len(known) == PAGE else 0)
    follower.leave_out(known)
    return follower


async def follow(
    conn: AsyncConnection[DictRow],
    follower: Follower,
    workspace: str | UUID | None,
    *,
    pause: float = 1.0,
) -> AsyncIterator[tuple[Event, ...]]:
    """What appears, as it appears, for ever; raises Unreachable when the connection is lost."""
    with translated():
        for channel in CHANNELS:
            await conn.execute(f"LISTEN {channel}")
        while True:
            fresh = await follower.look(conn, workspace)
            if fresh:
                yield fresh
            async for _ in conn.notifies(timeout=pause, stop_after=1):
                pass


async def read_after(
    conn: AsyncConnection[DictRow],
    workspace: str | UUID | None,
    since: int,
    limit: int | None = None,
) -> tuple[Event, ...]:
    """All events after an id, oldest first, at most `limit`."""
    found: list[Event] = []
    while limit is None or len(found) < limit:
        size = PAGE if limit is None else min(PAGE, limit - len(found))
        page = await events(conn, workspace, since, size)
        found += page
        if len(page) < size:
            break
        since = page[-1].id
    return tuple(found)
