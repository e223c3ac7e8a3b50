"""Pages that are open, as far as they tell of it, and those that were opened and do not.

Several processes may serve one address, and a page's reports may reach another one than its traffic
does. So what one process learns is passed around; one that does not hear of it counts traffic,
which is in the user's favour.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Final
from uuid import UUID
from zlib import crc32

from codehub.core.engage import LivingPages, OpenPages
from codehub.errors import CodeHubError
from codehub.proxy.visit import referring_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from codehub.model.access import Identity
    from codehub.model.route import Route
    from codehub.ports import Signals
    from codehub.proxy.seam import RequestHead

log: Final = logging.getLogger("codehub.proxy")

Who = bytes
"""A session and a workspace, in few bytes: it is looked up for every request."""

CHANNEL: Final = "codehub:living"
LIVES, OPENED = "lives", "opened"
RETRY_SECONDS: Final = 1.0


class Living:
    """The pages of all sessions on all workspaces. `keep_hearing` is for as long as it is."""

    def __init__(self, signals: Signals, clock: Callable[[], float]) -> None:
        self._signals = signals
        self._clock = clock
        self._alive = LivingPages()
        self._opened: dict[Who, OpenPages] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many have a page that tells."""
        return len(self._alive)

    @property
    def known(self) -> int:
        """Of how many is known which pages they opened."""
        return len(self._opened)

    def lives(self, who: Who, now: float) -> bool:
        """Whether a page of theirs would tell of input."""
        return self._alive.lives(who, now)

    def doubted(self, who: Who, head: RequestHead, now: float, within: float) -> OpenPages | None:
        """Their pages, if one that does not tell may be where this request comes from.

        Of one that gave no sign `within` this time, only its own requests do tell.
        """
        pages = self._opened.get(who)
        if pages is None:
            return None
        doubtful = pages.in_doubt(now, within) or pages.is_silent(came_from(head))
        return pages if doubtful else None

    def silent(self, who: Who, head: RequestHead, now: float, within: float) -> frozenset[str]:
        """Which of their pages that is: all that do not tell, as `doubted` has it."""
        pages = self._opened.get(who)
        return frozenset() if pages is None else pages.silent(now, within, came_from(head))

    def untold(self, who: Who, pages: frozenset[str], since: float) -> frozenset[str]:
        """Those of these pages that have not told of themselves since."""
        known = self._opened.get(who)
        if known is None:
            return pages
        return frozenset(each for each in pages if not known.has_told(each, since))

    def tell(self, who: Who, page: str) -> None:
        """A page says that it is open; one of an older hub does not say which."""
        self._tell(who, page)
        self._pass_on(who, page, LIVES)

    def open(self, who: Who, page: str) -> None:
        """Somebody gets a page; until it tells of input, it may be one that cannot."""
        if self._of(who).open(page, self._clock()):
            self._pass_on(who, page, OPENED)

    def hear(self, message: str) -> None:
        """What another process passed on."""
        try:
            session, workspace, page, word = json.loads(message)
            who = UUID(session).bytes + UUID(workspace).bytes
            if not isinstance(page, str) or word not in (LIVES, OPENED):
                raise ValueError(word)
        except (ValueError, TypeError, AttributeError):
            log.warning("something was told on the channel of living pages that is not ours")
            return
        if word == LIVES:
            self._tell(who, page)
        else:
            self._of(who).open(page, self._clock())

    def tidy(self) -> None:
        now = self._clock()
        self._alive.forget_gone(now)
        self._opened = {who: each for who, each in self._opened.items() if not each.is_old(now)}

    async def keep_hearing(self) -> None:
        """Hear of what others learn, until cancelled."""
        while True:
            try:
                async for message in self._signals.subscribe(CHANNEL):
                    self.hear(message)
            except CodeHubError as error:
                log.info("living pages of others are not heard of: %s", error.message)
            await asyncio.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        """What others are being told is told, or not, before the connection to them ends."""
        await asyncio.gather(*self._telling, return_exceptions=True)

    def _tell(self, who: Who, page: str) -> None:
        now = self._clock()
        self._alive.tell(who, now)
        if page:
            self._of(who).tell(page, now)

    def _of(self, who: Who) -> OpenPages:
        pages = self._opened.get(who)
        if pages is None:
            pages = self._opened[who] = OpenPages()
        return pages

    def _pass_on(self, who: Who, page: str, word: str) -> None:
        session, workspace = (str(UUID(bytes=each)) for each in (who[:16], who[16:]))
        message = json.dumps([session, workspace, page, word])

        async def tell() -> None:
            try:
                await self._signals.publish(CHANNEL, message)
            except CodeHubError as error:
                log.info("others are not told of a living page: %s", error.message)

        task = asyncio.get_running_loop().create_task(tell())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)


def who_of(identity: Identity, route: Route) -> Who:
    """A session on a workspace."""
    return identity.id.bytes + route.id.bytes


def page_of(path: bytes) -> str:
    """What a page is called: short, and free of what its address may say."""
    return f"{crc32(path):08x}"


def came_from(head: RequestHead) -> str:
    """The page that a request names as where it comes from; nothing for one that names none."""
    path = referring_path(head)
    return page_of(path) if path else ""
