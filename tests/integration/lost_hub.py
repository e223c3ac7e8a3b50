"""Archives of a hub whose database is gone, in any store, and the import of them.

Import the fixtures a module needs: `lost` has its archives on the disk, `conn` leads to an empty
database, and `recovered` is a directory that is not there yet.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from codehub.adapters.localstore import LocalStore
from codehub.cli.import_ import Wish, rebuild_hub
from codehub.core.keys import build_key, hub_prefix, marker_key, meta_key
from codehub.core.seal import seal
from codehub.model.archive import ArchiveKey, ArchiveMeta
from codehub.model.workspace import Runtime
from codehub.service.importing import choose_hub, list_archives, read_salvage
from codehub.store.connect import connect
from tests.contract.store_contract import put
from tests.integration.stored import count
from tests.make import NOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.model.salvage import Rebuild, Salvage
    from codehub.ports import ObjectStore

    Conn = AsyncConnection[DictRow]

HUB = UUID(int=0xA)


@dataclass
class LostHub:
    """What is left of a hub: its part of a store. `settings` lead a command there."""

    store: ObjectStore
    hub_id: UUID = HUB
    settings: Mapping[str, str] = field(default_factory=dict)

    def mark(self, epoch: int | None = None) -> None:
        """As its leaders left it, after so many collections."""
        put(self.store, marker_key(self.hub_id), f'{{"hub": "{self.hub_id}"}}'.encode())
        if epoch is not None:
            put(self.store, f"{self.hub_id}/epochs/{epoch}")

    def describe(
        self, number: int, op: int, content: bytes, hours: float = 0, **fields: Any
    ) -> ArchiveMeta:
        """What the commit marker of such an archive says."""
        meta = ArchiveMeta(
            key=build_key(ArchiveKey(self.hub_id, UUID(int=number), UUID(int=op), "1")),
            sha256=hashlib.sha256(content).hexdigest(),
            bytes=len(content),
            unpacked_bytes=10240,
            entries=3,
            skipped=0,
            hub=self.hub_id,
            workspace_id=UUID(int=number),
            workspace_name=f"ws{number}",
            owner="alice",
            generation=1,
            created_at=NOW - timedelta(hours=hours),
        )
        return replace(meta, **fields)

    def archive(
        self, number: int, op: int = 10, hours: float = 0, content: bytes = b"home", **fields: Any
    ) -> ArchiveMeta:
        """An archive of `ws{number}`, made so many hours ago."""
        meta = self.describe(number, op, content, hours, **fields)
        put(self.store, meta.key, content)
        put(self.store, meta_key(meta.key), seal(meta))
        return meta

    def objects(self) -> list[str]:
        return [each.key for each in self.store.list(hub_prefix(self.hub_id))]

    def salvage(self, hub_id: UUID | None = None) -> Salvage:
        shelves = list_archives(self.store, hub_id, _nobody)
        chosen = choose_hub(shelves, hub_id)
        return read_salvage(self.store, chosen, shelves[chosen], _nobody)

    async def imported(
        self,
        conn: Conn,
        directory: Path,
        *,
        hub_id: UUID | None = None,
        **wish: Any,
    ) -> Rebuild:
        """As `codehub import --from-bucket DIRECTORY` does it."""
        asked = Wish(directory, wish.pop("runtime", Runtime.PROCESS), **wish)
        plan, _ = await rebuild_hub(conn, self.store, self.salvage(hub_id), asked)
        return plan


def _nobody(text: str) -> None:
    """Hears of the progress."""


@pytest.fixture(name="lost")
def a_lost_hub(tmp_path: Path) -> LostHub:
    store = LocalStore(tmp_path / "archives")
    store.claim()
    return LostHub(store)


@pytest.fixture(name="conn")
async def a_connection(database_url: str) -> AsyncIterator[Conn]:
    async with await connect(database_url) as made:
        yield made


@pytest.fixture(name="recovered")
def a_directory(tmp_path: Path) -> Path:
    return tmp_path / "recovered"


async def names(conn: Conn) -> dict[str, int]:
    """The workspaces in the database, and the numbers of their ids."""
    rows = await (await conn.execute("SELECT name, id FROM workspaces")).fetchall()
    return {row["name"]: row["id"].int for row in rows}


def files(directory: Path) -> set[str]:
    """All that was written below a directory, which need not be there."""
    found = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    return {path.as_posix() for path in found}


async def nothing_happened(conn: Conn, directory: Path) -> bool:
    """Neither in the database nor in the directory."""
    return await count(conn, "workspaces") == 0 and files(directory) == set()
