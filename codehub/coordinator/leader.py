"""Leader election: of any number of coordinators one acts, the others stand by.

The lock is held by one session of Postgres and dies with it. A leader cannot know at every moment
that it still leads, so it is not trusted: each term takes a new epoch, every write carries it, and
Postgres refuses those of the past (store/fence.py). What this module does is the rest: stand, lead,
notice the loss, step down, stand again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from codehub.coordinator.lead import Lead
from codehub.coordinator.term import serve
from codehub.errors import FenceLost, Unreachable
from codehub.store.advisory import Lock, try_lock_session
from codehub.store.circumstances import read_leadership
from codehub.store.fence import take_epoch
from codehub.store.hubs import ensure_hub_id
from codehub.store.pool import Pool
from codehub.store.session import ask, holds_lock, open_session, require_own_session
from codehub.telemetry.instruments import begin_term, end_term

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.coordinator.pace import Component, Failures
    from codehub.store.fence import Fence

    Components = Callable[[Lead], AbstractAsyncContextManager[Sequence[Component]]]
    Conn = AsyncConnection[DictRow]

log: Final = logging.getLogger("codehub.coordinator")

NAME: Final = "leader"
LOCK_NAME: Final = "coordinator"
"""The row of `system_locks` that has the epoch."""
CHECK: Final = 5.0
"""Seconds within which the session must answer."""
TAKING: Final = 70.0
"""Seconds for a new epoch. It waits for writes under way, so a little more than those may take."""


class Leader:
    """One coordinator's part in the election; `components` builds what runs while it leads."""

    def __init__(
        self,
        url: str,
        holder: str,
        *,
        interval: float,
        components: Components,
        failures: Failures,
        on_change: Callable[[bool], None] = lambda _leads: None,
    ) -> None:
        self._url = url
        self._holder = holder
        self._interval = interval
        self._components = components
        self._failures = failures
        self._on_change = on_change
        self._epoch: int | None = None
        self._problem: Exception | None = None

    @property
    def leads(self) -> bool:
        return self._epoch is not None

    @property
    def epoch(self) -> int | None:
        """The epoch of the term, None while another one leads or nobody."""
        return self._epoch

    @property
    def problem(self) -> Exception | None:
        """What keeps it from standing or ended its last term; None while all is well."""
        return self._problem

    async def run(self) -> None:
        """Stand, lead, step down and stand again, for ever; ends only by cancellation."""
        while True:
            try:
                async with open_session(self._url) as conn:
                    await self._stand(conn)
                    await self._lead(conn)
            except Exception as error:
                self._note(error)
            # Uneven, so that those who fail together do not try together.
            await asyncio.sleep(self._interval * random.uniform(0.5, 1.5))

    async def _stand(self, conn: Conn) -> None:
        told = False
        while not await ask(conn, try_lock_session(conn, Lock.LEADER), CHECK):
            self._problem = None
            if not told:
                other = (await ask(conn, read_leadership(conn), CHECK)).holder
                log.info("stands by: %s leads", other or "another coordinator")
                told = True
            await asyncio.sleep(self._interval)

    async def _lead(self, conn: Conn) -> None:
        fence = await ask(conn, take_epoch(conn, LOCK_NAME, self._holder), TAKING)

        def change(leads: bool) -> None:
            self._change(fence.epoch if leads else None)

        await serve(self._open(conn, fence), self._watch(conn), change)

    @asynccontextmanager
    async def _open(self, conn: Conn, fence: Fence) -> AsyncIterator[Sequence[Component]]:
        async with Pool(self._url) as pool:
            async with pool.connection() as other:
                await require_own_session(conn, other, Lock.LEADER)
                hub_id = await ensure_hub_id(other)
            async with self._components(Lead(hub_id, fence, pool)) as components:
                yield components

    async def _watch(self, conn: Conn) -> None:
        """Raises when the session that holds the lock is gone, or says nothing any more."""
        while True:
            await asyncio.sleep(self._interval)
            if not await ask(conn, holds_lock(conn, Lock.LEADER), CHECK):
                raise FenceLost("the leader's lock is gone from its session")
            self._problem = None

    def _change(self, epoch: int | None) -> None:
        if epoch == self._epoch:
            return
        log.info("leads, epoch %s" if epoch else "steps down from epoch %s", epoch or self._epoch)
        self._epoch = epoch
        if epoch is None:
            end_term()
        else:
            begin_term(epoch)
        try:
            self._on_change(self.leads)
        except Exception as error:
            self._failures.note(NAME, error)

    def _note(self, error: Exception) -> None:
        """Count it, and say it once: the same trouble comes back every second until it is over."""
        if _same(error, self._problem):
            self._failures.count(NAME)
        else:
            self._failures.note(NAME, error)
        self._problem = error


def _same(error: Exception, former: Exception | None) -> bool:
    """An outage has many words (refused, starting up, lost), and is one."""
    if isinstance(error, Unreachable):
        return isinstance(former, Unreachable)
    return type(error) is type(former) and str(error) == str(former)
