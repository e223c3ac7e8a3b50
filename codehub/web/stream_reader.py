"""The one reader for all streams: what it reads, it hands out, one thing after the other.

Each read sees at least what the one before it saw, and is handed out before the next: so nobody
gets an old state of a workspace after a newer one, whether it comes in a snapshot or by itself.
However many clients there are, what they wait for is read together.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from codehub.errors import CodeHubError
from codehub.store.clock import read_now
from codehub.store.session import ask
from codehub.store.streams import (
    START,
    read_changes,
    read_horizon,
    read_named,
    read_owned,
    read_page,
    read_some,
)
from codehub.web.stream_telling import Telling, hand_out
from codehub.web.stream_text import event

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.config import Settings
    from codehub.store.pool import Pool
    from codehub.store.streams import Sight
    from codehub.web.stream_client import Client, Wish
    from codehub.web.stream_clients import Clients
    from codehub.web.stream_text import Spoken

    Request = tuple[Wish, UUID]

T = TypeVar("T")

log: Final = logging.getLogger("codehub.web")

GATHER_SECONDS: Final = 0.05
"""Between two reads: what is told meanwhile is read together."""
ANSWER_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 1.0
SOME: Final = 200
"""Changes that are read at once."""
PAGE: Final = 200
BATCH: Final = 50
"""Clients whose pages are read at once."""
BREATH: Final = 20
"""Workspaces that are put into words before others get their turn."""


class Reader:
    """`run` reads for ever; `hear` and `want` say what is to be read.

    `look_seconds` is how often it looks for changes that nobody told of.
    """

    def __init__(self, pool: Pool, clients: Clients, settings: Settings) -> None:
        self._pool = pool
        self._clients = clients
        self._telling = Telling(clients, settings)
        self._changed: dict[UUID, bool] = {}
        self._wanting: dict[Client, None] = {}
        self._news = asyncio.Event()
        self._horizon: str | None = None
        self._last = self._next_look = 0.0
        self._readable = True
        self.look_seconds = settings.web_look_seconds

    def hear(self, workspace_id: UUID, *, expiring: bool) -> None:
        """Something happened to a workspace; `expiring`: idleness will lower it soon."""
        if len(self._clients):
            self._changed[workspace_id] = expiring or self._changed.get(workspace_id, False)
            self._news.set()

    def want(self, client: Client) -> None:
        """The client has room for the next part of its snapshot."""
        if client.after is not None and not client.ended:
            self._wanting[client] = None
            self._news.set()

    def forget(self, client: Client) -> None:
        self._wanting.pop(client, None)

    def begin_anew(self) -> None:
        """All get a new snapshot: something may have been missed."""
        self._telling.forget()
        for client in self._clients:
            client.after = START
            self.want(client)

    def look_every(self, seconds: float) -> None:
        """Look for untold changes so often from now on, and at once."""
        self.look_seconds = seconds
        self._next_look = 0.0
        self._news.set()

    async def run(self) -> None:
        while True:
            try:
                await self._next()
            except Exception as error:
                self._fail(error)
                await asyncio.sleep(RETRY_SECONDS)

    def _fail(self, error: Exception) -> None:
        """Whatever was to be read is in the snapshots that follow once it can be."""
        if not isinstance(error, CodeHubError):
            log.error("the streams of events could not go on", exc_info=error)
        elif self._readable:
            log.warning("the streams of events stand still: %s", error.message)
        if self._readable:
            self._clients.put(event("resync", {"reason": "the database gives no answer"}))
        self._readable, self._horizon = False, None

    async def _next(self) -> None:
        await self._wait()
        if len(self._clients):
            await self._look()
            await self._read_changed()
            await self._read_pages()
        else:
            # Whoever comes gets all there is; until then there is nothing to know.
            self._readable, self._horizon = True, None
            self._telling.forget()
            self._changed.clear()

    async def _wait(self) -> None:
        """For news, or for the time to look. What comes in quick succession is taken together."""
        clock = asyncio.get_running_loop().time
        if self._readable and not (self._changed or self._wanting):
            left = self._next_look - clock() if len(self._clients) else None
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                pass
        await asyncio.sleep(self._last + GATHER_SECONDS - clock())
        self._news.clear()
        self._last = clock()

    async def _ask(
        self, question: Callable[[AsyncConnection[DictRow]], Coroutine[Any, Any, T]]
    ) -> T:
        async with self._pool.connection() as conn:
            return await ask(conn, question(conn), ANSWER_SECONDS)

    async def _look(self) -> None:
        """Now and then, find what nobody told of."""
        clock = asyncio.get_running_loop().time
        if self._horizon is not None and clock() < self._next_look:
            return
        before, self._horizon = self._horizon, await self._ask(read_horizon)
        if not self._readable:
            self._readable = True
            self.begin_anew()
        elif before is not None:
            versions = await self._ask(lambda conn: read_changes(conn, before))
            ended = self._telling.ended(await self._ask(read_now))
            for each in (*self._telling.untold(versions), *ended):
                self._changed.setdefault(each, False)
        self._next_look = clock() + self.look_seconds

    async def _read_changed(self) -> None:
        ids = [*islice(self._changed, SOME)]
        if not ids:
            return
        taken = {each: self._changed.pop(each) for each in ids}
        sights = await self._ask(lambda conn: read_some(conn, ids))
        found = {each.workspace.id: each for each in sights}
        for number, (each, expiring) in enumerate(taken.items(), 1):
            self._telling.tell(each, found.get(each), expiring=expiring)
            if number % BREATH == 0:
                await asyncio.sleep(0)

    async def _read_pages(self) -> None:
        requests: dict[Request, list[Client]] = defaultdict(list)
        for client in [*islice(self._wanting, BATCH)]:
            del self._wanting[client]
            if client.after is not None:
                requests[client.wish, client.after].append(client)
        pages = await self._pages([*requests])
        for request, clients in requests.items():
            (wish, after), page = request, pages[request]
            more = wish.names is None and len(page) > PAGE
            shown = page[:PAGE] if more else page
            going_on = shown[-1].workspace.id if more else None
            hand_out(await self._spoken(shown), clients, after, going_on)

    async def _spoken(self, sights: Sequence[Sight]) -> list[Spoken]:
        spoken: list[Spoken] = []
        for number, sight in enumerate(sights, 1):
            words = self._telling.note(sight)
            if words is not None:
                spoken.append(words)
            if number % BREATH == 0:
                await asyncio.sleep(0)
        return spoken

    async def _pages(self, requests: Sequence[Request]) -> dict[Request, list[Sight]]:
        """What follows for each, and one more where there is more."""
        owned = [each for each in requests if each[0].names is None and each[0].owner is not None]
        named = [each for each in requests if each[0].names is not None]
        pages: dict[Request, list[Sight]] = {}
        if owned:
            asked = [(wish.owner or "", after) for wish, after in owned]
            found = await self._ask(lambda conn: read_owned(conn, asked, PAGE + 1))
            pages |= {each: found[key] for each, key in zip(owned, asked, strict=True)}
        if named:
            names = {name for wish, _ in named for name in wish.names or ()}
            sights = await self._ask(lambda conn: read_named(conn, names))
            pages |= {each: [one for one in sights if _takes(each[0], one)] for each in named}
        for wish, after in requests:
            if (wish, after) not in pages:
                pages[wish, after] = await self._page(after)
        return pages

    async def _page(self, after: UUID) -> list[Sight]:
        return await self._ask(lambda conn: read_page(conn, after, PAGE + 1))


def _takes(wish: Wish, sight: Sight) -> bool:
    return wish.takes(sight.workspace.declaration.owner, sight.workspace.name)
