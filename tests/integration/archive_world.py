"""A hub with archives of any age and a leader's collector, for tests of collecting them."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.adapters.localstore import LocalStore
from codehub.config import Settings
from codehub.coordinator.gc import GcRunner
from codehub.coordinator.lead import Lead
from codehub.coordinator.marker import meet_store
from codehub.coordinator.pace import Failures
from codehub.core.keys import build_key, hub_prefix, meta_key, parse_key
from codehub.model.archive import ArchiveKey
from codehub.model.people import Hub
from codehub.model.states import Phase
from codehub.model.workspace import Status
from codehub.store.connect import connect
from codehub.store.fence import take_epoch
from codehub.store.hubs import read_hub_id, write_hub
from codehub.store.pool import Pool
from tests.integration.stored import insert
from tests.make import workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.states import DesiredState
    from codehub.ports import ObjectStore

LOCK = "coordinator"
HOME = b"x" * 1000
META = b"m" * 10


@dataclass
class ArchiveWorld:
    """What a test needs at hand; `settings` may be replaced before a runner is made.

    Whatever the kind of the store, its objects are files below `root`.
    """

    url: str
    conn: AsyncConnection[DictRow]
    pool: Pool
    store: ObjectStore
    root: Path
    hub_id: UUID
    lead: Lead
    settings: Settings

    def runner(self, store: ObjectStore | None = None, **settings: Any) -> GcRunner:
        chosen = self.settings.model_copy(update=settings)
        return GcRunner(self.lead, store or self.store, chosen, Failures())

    def key(self, number: int, op: int, attempt: str = "1") -> str:
        return build_key(ArchiveKey(self.hub_id, UUID(int=number), UUID(int=op), attempt))

    def put(self, number: int, op: int, hours: float = 1, *, meta: bool = True) -> str:
        """An archive of a workspace, written so many hours ago, under the key that is returned."""
        key = self.key(number, op)
        for name, content in ((key, HOME), (meta_key(key), META))[: 1 + meta]:
            self.write(name, content, hours)
        return key

    def write(self, name: str, content: bytes, hours: float = 1) -> None:
        writer = self.store.open_writer(name)
        writer.write(content)
        writer.commit()
        self.age(name, hours)

    def age(self, name: str, hours: float) -> None:
        """A server looks at the disk again when it is asked for an object by name."""
        at = (datetime.now(UTC) - timedelta(hours=hours)).timestamp()
        os.utime(self.root / name, (at, at))
        self.store.head(name)

    async def add(self, number: int, desired: DesiredState | None = None, **status: Any) -> None:
        """A workspace `ws{number}` with this status."""
        more: dict[str, Any] = {} if desired is None else {"desired": desired}
        await insert(
            self.conn, workspace(f"ws{number}", number=number, status=Status(**status), **more)
        )

    def objects(self) -> list[str]:
        """The archives and commit markers that are there."""
        listed = [each.key for each in self.store.list(hub_prefix(self.hub_id))]
        return [key for key in listed if parse_key(key.removesuffix(".meta"))]

    async def candidates(self) -> dict[str, int]:
        """What is remembered as an orphan, and in how many collections it was seen."""
        rows = await self.rows("SELECT object_key, cycles FROM gc_candidates ORDER BY object_key")
        return {row["object_key"]: row["cycles"] for row in rows}

    async def pass_hours(self, hours: float) -> None:
        """So much time goes by for what is remembered."""
        await self.conn.execute(
            "UPDATE gc_candidates SET first_seen_at = first_seen_at - %s", (timedelta(hours=hours),)
        )

    async def rows(self, query: str) -> list[dict[str, Any]]:
        return await (await self.conn.execute(query)).fetchall()

    async def purged(self) -> list[str]:
        query = "SELECT name FROM workspaces WHERE purged_at IS NOT NULL ORDER BY name"
        return [row["name"] for row in await self.rows(query)]

    def mark(self) -> dict[str, Any]:
        """What the store's mark says."""
        read: dict[str, Any] = json.loads(
            (self.root / str(self.hub_id) / "marker.json").read_bytes()
        )
        return read

    def epochs(self) -> list[str]:
        prefix = f"{self.hub_id}/epochs/"
        return [each.key.removeprefix(prefix) for each in self.store.list(prefix)]


@asynccontextmanager
async def archive_world(
    url: str, root: Path, store: ObjectStore | None = None
) -> AsyncIterator[ArchiveWorld]:
    """A hub in this database with a store that has its mark only, led by the caller."""
    async with await connect(url) as conn, Pool(url, size=2) as pool:
        await write_hub(conn, Hub())
        hub_id = await read_hub_id(conn)
        assert hub_id is not None
        lead = Lead(hub_id, await take_epoch(conn, LOCK, "me"), pool)
        used = store or _local(root)
        await meet_store(lead, used)
        yield ArchiveWorld(url, conn, pool, used, root, hub_id, lead, Settings())


def _local(root: Path) -> LocalStore:
    store = LocalStore(root)
    store.claim()
    return store


async def archived(world: ArchiveWorld, number: int = 1) -> str:
    """A workspace whose archive is its second; returns the key of the first, an orphan."""
    old = world.put(number, 10, hours=9)
    await world.add(number, archive_key=world.put(number, 11, hours=5), phase=Phase.ARCHIVED)
    return old


async def remembered_long(world: ArchiveWorld) -> None:
    """One collection has seen the orphans, three hours ago."""
    await world.runner().tick()
    await world.pass_hours(3)
