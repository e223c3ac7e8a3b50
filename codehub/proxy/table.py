"""The way to every running workspace, in memory: a request to one touches no database.

Postgres tells of changes, and what it tells of is read at once; all of it is read now and then, and
whenever telling was interrupted. While the database is away the last known ways hold: a running
workspace stays reachable.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from codehub.errors import CodeHubError
from codehub.proxy.held import Held, may_reach, soon
from codehub.store.listen import notifications
from codehub.store.routes import read_routes
from codehub.store.session import ask, open_session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from codehub.model.access import Person
    from codehub.model.route import Route
    from codehub.store.pool import Pool

log: Final = logging.getLogger("codehub.proxy")

CHANNELS: Final = ("ws_sse", "ws_wake", "ws_deleted")
ANSWER_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 0.5


class RouteTable:
    """`run` keeps it fresh, for ever. `url` is for a connection of its own, to be told on."""

    def __init__(self, pool: Pool, url: str, *, interval: float) -> None:
        self._pool = pool
        self._url = url
        self._interval = interval
        self._by_name: dict[str, Route] = {}
        self._by_id: dict[UUID, Route] = {}
        self._open = Held()
        self._changed: set[UUID] = set()
        self._all_due = True
        self._next_all = 0.0
        self._readings = 0
        """How often the table was read because it was due."""
        self._news = asyncio.Event()
        self.loaded = asyncio.Event()
        """Set once the table was read for the first time."""

    def find(self, name: str) -> Route | None:
        """The way to the workspace of this name, if it is known to run."""
        return self._by_name.get(name)

    def __len__(self) -> int:
        return len(self._by_id)

    def hold(self, route: Route, person: Person, hang_up: Callable[[], None]) -> Callable[[], None]:
        """Have `hang_up` called when the workspace is no longer this person's to reach.

        Call what is returned at the end. What was judged by `route` may be older than the table.
        """
        if not may_reach(self._by_id.get(route.id, route), person):
            return soon(hang_up)
        return self._open.add(route.id, person, hang_up)

    def doubt(self, workspace_id: UUID) -> None:
        """It did not answer: look where it is now."""
        self._changed.add(workspace_id)
        self._news.set()

    async def look(self, workspace_id: UUID) -> Route | None:
        """The way to it as the database has it now: it may have come a moment ago."""
        before = self._readings
        self._put({workspace_id}, await self._read({workspace_id}))
        if self._readings != before:
            # What was put in meanwhile may be newer than this, and is not told once more.
            self.doubt(workspace_id)
        return self._by_id.get(workspace_id)

    async def run(self) -> None:
        """Follow the database, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_listening())
            tasks.create_task(self._keep_reading())

    async def refresh(self) -> None:
        """Read everything."""
        routes = await self._read(None)
        self._by_id = {each.id: each for each in routes}
        self._by_name = {each.name: each for each in routes}
        self._review(routes)
        self.loaded.set()

    async def _keep_reading(self) -> None:
        reachable = True
        while True:
            try:
                await self._next()
                reachable = True
            except CodeHubError as error:
                if reachable:
                    log.warning("the ways to workspaces cannot be read: %s", error.message)
                reachable, self._all_due = False, True
                await asyncio.sleep(RETRY_SECONDS)

    async def _next(self) -> None:
        """One round: wait for news or for the time, and read what is due."""
        clock = asyncio.get_running_loop().time
        if not (self._all_due or self._changed):
            try:
                async with asyncio.timeout(self._next_all - clock()):
                    await self._news.wait()
            except TimeoutError:
                self._all_due = True
        self._news.clear()
        changed, self._changed = self._changed, set()
        # However much there is to hear: what is not told is found as well.
        if self._all_due or clock() >= self._next_all:
            self._all_due = False
            self._readings += 1
            await self.refresh()
            self._next_all = clock() + self._interval
        elif changed:
            self._readings += 1
            self._put(changed, await self._read(changed))

    def _put(self, changed: Iterable[UUID], routes: Collection[Route]) -> None:
        for each in changed:
            old = self._by_id.pop(each, None)
            if old is not None and self._by_name.get(old.name) is old:
                del self._by_name[old.name]
        for route in routes:
            self._by_id[route.id] = self._by_name[route.name] = route
        self._review(routes)

    def _review(self, routes: Iterable[Route]) -> None:
        """Whose these are may have changed. What is open to a way that is gone ends by itself."""
        for route in routes:
            self._open.end(route.id, unless=partial(may_reach, route))

    async def _read(self, ids: Iterable[UUID] | None) -> list[Route]:
        async with self._pool.connection() as conn:
            return await ask(conn, read_routes(conn, ids), ANSWER_SECONDS)

    async def _keep_listening(self) -> None:
        while True:
            try:
                async with open_session(self._url) as conn:
                    heard = await notifications(conn, CHANNELS)
                    # What happened while nobody listened was told to nobody.
                    self._all_due = True
                    self._news.set()
                    async with aclosing(heard):
                        async for each in heard:
                            self._hear(each.payload)
            except CodeHubError as error:
                log.info("changes of workspaces are not told at the moment: %s", error.message)
            await asyncio.sleep(RETRY_SECONDS)

    def _hear(self, payload: str) -> None:
        try:
            self._changed.add(UUID(json.loads(payload)["id"]))
        except (ValueError, TypeError, KeyError, AttributeError):
            log.warning("something was told on the channels of workspaces that is not ours")
            return
        self._news.set()
