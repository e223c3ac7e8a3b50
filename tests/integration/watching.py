"""A spec directory, a hub, and watchers that lead it: what tests of the watcher share."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.config import Settings
from codehub.coordinator.hints import Hints
from codehub.coordinator.lead import Lead
from codehub.coordinator.pace import Failures
from codehub.coordinator.watch import SpecWatcher
from codehub.model.workspace import Runtime
from codehub.store.fence import take_epoch
from codehub.store.pool import Pool
from codehub.store.revisions import list_revisions
from codehub.store.workspaces import read_workspaces
from tests.integration.repository import commit, git

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from codehub.model.revision import Revision
    from codehub.service.loading import Outcome
    from codehub.store.fence import Fence

LOCK = "coordinator"
PATIENCE = 100
TABLES = ("hub", "users", "workspaces", "spec_revisions", "workspace_events")


class NotedWatcher(SpecWatcher):
    """Keeps what came of each of its looks."""

    seen: list[Outcome]

    async def tick(self) -> Outcome:
        outcome = await super().tick()
        self.seen.append(outcome)
        return outcome


class World:
    """One hub and the right to lead it."""

    def __init__(self, pool: Pool, fence: Fence) -> None:
        self.pool = pool
        self.fence = fence
        self.hints = Hints()
        self.failures = Failures()

    def watcher(
        self,
        root: Path,
        ref: str | None = None,
        *,
        enabled: frozenset[Runtime] = frozenset(Runtime),
        fence: Fence | None = None,
        **settings: Any,
    ) -> NotedWatcher:
        """A watcher that remembers nothing, as after a restart; it neither rests nor polls."""
        settings = {
            "coordinator_watch_quiet": 0,
            "coordinator_watch_interval": 3600,
            "apply_wait_seconds": 60,
        } | settings
        lead = Lead(UUID(int=1), fence or self.fence, self.pool)
        watcher = NotedWatcher(
            lead, root, ref, Settings(**settings), enabled, self.failures, self.hints
        )
        watcher.seen = []
        return watcher

    async def revisions(self) -> list[Revision]:
        """All of them, oldest first."""
        async with self.pool.connection() as conn:
            return list(reversed(await list_revisions(conn)))

    async def images(self) -> dict[str, str | None]:
        """Name and image of each workspace that is to live."""
        async with self.pool.connection() as conn:
            rows = await read_workspaces(conn)
        return {row.name: row.declaration.image for row in rows if row.intent.desired != "DELETED"}

    async def until_images(self, expected: dict[str, str | None]) -> None:
        """Returns once the hub declares this; a test that waits in vain fails."""
        async with asyncio.timeout(PATIENCE):
            while await self.images() != expected:
                pass


async def until(reached: Callable[[], bool]) -> None:
    """Returns once it is so; a test that waits in vain fails."""
    async with asyncio.timeout(PATIENCE):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def lead(url: str) -> AsyncIterator[World]:
    async with Pool(url) as pool:
        async with pool.connection() as conn:
            fence = await take_epoch(conn, LOCK, "test")
        yield World(pool, fence)


def make_repository(root: Path) -> str:
    """A repository of what is there, with one commit on main."""
    git(root, "init", "-q", "-b", "main")
    return commit(root)
