"""Who reads a workspace's output just now: so many at once, and for as long as they may.

Somebody who follows an output stays for hours. Meanwhile they may log out, the workspace may become
another's, and this process may end: then the answer ends too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import aclosing, suppress
from random import randint
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from codehub.errors import CodeHubError, NotFound, TooManyTries

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from uuid import UUID

    from starlette.types import Receive, Scope, Send

    from codehub.model.access import Person

    Hold = Callable[[Callable[[], None]], Callable[[], None]]
    """Has something called when a login ends; gives what ends that."""

log: Final = logging.getLogger("codehub.web")

MOST: Final = 32
"""Followers in one process: each looks at a file or holds a thread."""
MOST_EACH: Final = 8
RETRY_SECONDS: Final = (5, 15)
LOOK_SECONDS: Final = 30.0
_HEADERS: Final = {"Content-Type": "text/plain; charset=utf-8", "X-Accel-Buffering": "no"}


class Followers:
    """All of one process. `look` is how often it is seen to that they still may."""

    def __init__(
        self, most: int = MOST, most_each: int = MOST_EACH, look: float = LOOK_SECONDS
    ) -> None:
        self.look: Final = look
        self._most = most
        self._most_each = most_each
        self._of: Counter[UUID] = Counter()
        self._open: set[Place] = set()

    def __len__(self) -> int:
        return len(self._open)

    def take(self, person: Person) -> Place:
        """One more, until the place is left. Raises TooManyTries where none is free.

        To be taken before the output is opened, which may take long: many come at once.
        """
        own = self._of[person.id] >= self._most_each
        if own or len(self._open) >= self._most:
            raise TooManyTries(
                f"{'you read' if own else 'this hub shows'} as many logs as it can at once",
                hint="close one, or try again in a while",
                seconds=randint(*RETRY_SECONDS),
            )
        place = Place(self, person)
        self._open.add(place)
        self._of[person.id] += 1
        return place

    def leave(self, place: Place) -> None:
        self._open.discard(place)
        self._of[place.person.id] -= 1
        self._of += Counter()  # forgets those who are gone

    def close(self) -> None:
        """Nobody stays."""
        for place in self._open:
            place.ended.set()


class Place:
    """What somebody who follows has; `ended` says that they must go. To be left once."""

    def __init__(self, followers: Followers, person: Person) -> None:
        self.followers: Final = followers
        self.person: Final = person
        self.ended: Final = asyncio.Event()

    def leave(self) -> None:
        self.followers.leave(self)


class Output(Response):
    """An answer that goes on until its source ends, the client leaves, or they may no longer.

    Then it leaves its place. `still_theirs` raises NotFound once the workspace is another's.
    """

    def __init__(
        self,
        source: AsyncGenerator[bytes, None],
        place: Place,
        hold: Hold,
        still_theirs: Callable[[], Awaitable[object]],
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._source = source
        self._place = place
        self._hold = hold
        self._still_theirs = still_theirs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        ended = self._place.ended
        release = self._hold(ended.set)
        tasks: list[asyncio.Task[object]] = []
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            works = (self._copy(send), _left(receive), ended.wait(), self._lost())
            tasks += [asyncio.create_task(each) for each in works]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._place.leave()
            release()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b""})

    async def _copy(self, send: Send) -> None:
        try:
            async with aclosing(self._source) as source:
                async for chunk in source:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except CodeHubError as error:
            log.warning("an output ended early: %s", error.message)

    async def _lost(self) -> None:
        """Returns once it is no longer theirs; that nobody can say is no reason to end."""
        while True:
            await asyncio.sleep(self._place.followers.look)
            try:
                await self._still_theirs()
            except NotFound:
                return
            except CodeHubError:
                continue


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
