"""Builds what a command needs from settings: above all, finds its hub.

A hub is found through `--hub`, `DATABASE_URL`, or the embedded one in the data directory, in that
order. The embedded PostgreSQL is started on demand and shared by commands that run at once; the
last one to leave stops it.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.errors import UsageError
from codehub.model.workspace import Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.config import Settings
    from codehub.ports import ObjectStore
    from codehub.ports import Runtime as RuntimePort

POSTGRES = "postgres"
REDIS = "redis"
WORKSPACES = "workspaces"
PAGES = "pages"
ARCHIVES = "archives"


@dataclass(frozen=True, slots=True)
class HubChoice:
    """Which hub a command works on: one at an address, or the embedded one below `data`."""

    data: Path
    url: str | None = None

    @property
    def embedded(self) -> bool:
        return self.url is None

    @property
    def exists(self) -> bool:
        """An address counts as there; whether it answers shows when it is opened."""
        return self.url is not None or (self.data / POSTGRES).is_dir()


def find_hub(hub: str | None, data: Path | None, settings: Settings) -> HubChoice:
    """The hub that the options and settings name; it may not exist yet."""
    if hub is not None:
        if not hub.startswith(("postgresql://", "postgres://")):
            raise UsageError(
                "--hub needs a postgresql:// address",
                hint="example: --hub postgresql://codehub@db.internal/codehub",
            )
        return HubChoice(data or settings.codehub_data, hub)
    if data is not None:
        return HubChoice(data)
    url = settings.database_url
    return HubChoice(settings.codehub_data, url.get_secret_value() if url else None)


def enabled_runtimes(choice: HubChoice, settings: Settings) -> frozenset[Runtime]:
    """The runtimes specs may name: `process` isolates nothing, so a shared hub must ask for it."""
    if settings.runtime_enabled is not None:
        return settings.runtime_enabled
    alone = {Runtime.PROCESS} if choice.embedded else set()
    return frozenset({Runtime.DOCKER} | alone)


@contextmanager
def database_address(choice: HubChoice) -> Iterator[str]:
    """The database's address; an embedded server runs at least as long as this lasts."""
    if choice.url is not None:
        yield choice.url
        return
    from codehub.embedded.postgres import EmbeddedPostgres

    with EmbeddedPostgres(choice.data / POSTGRES) as url:
        yield url


@asynccontextmanager
async def open_hub(choice: HubChoice) -> AsyncIterator[AsyncConnection[DictRow]]:
    """A connection to a hub whose schema fits. The embedded one is created where there is none."""
    from codehub.store.connect import connect
    from codehub.store.schema import current, require_schema, upgrade

    with database_address(choice) as url:
        # Nobody else looks after an embedded database, so it gets this code's schema.
        if choice.embedded and not current(url).fits:
            upgrade(url)
        async with await connect(url) as conn:
            await require_schema(conn)
            yield conn


def archive_store_url(choice: HubChoice, settings: Settings) -> str:
    """Where the hub keeps its archives: as the settings say, else below the data directory."""
    if settings.archive_store_url is None:
        return (choice.data / ARCHIVES).resolve().as_uri()
    url = settings.archive_store_url.get_secret_value()
    return _with_s3_settings(url, settings) if url.lower().startswith("s3:") else url


def _with_s3_settings(url: str, settings: Settings) -> str:
    """Storage jobs read no settings: what they must know of the bucket is in its address."""
    from codehub.adapters.s3.address import with_defaults

    named = {name: value for name, value in settings if name.startswith("s3_")}
    return with_defaults(url, {name.removeprefix("s3_"): named[name] for name in named})


def open_archive_store(choice: HubChoice, settings: Settings) -> ObjectStore:
    """The store itself; that it is there shows when it is used."""
    from codehub.adapters.stores import open_store

    return open_store(archive_store_url(choice, settings))


async def open_runtimes(
    choice: HubChoice, enabled: frozenset[Runtime], hub_id: UUID
) -> dict[Runtime, RuntimePort]:
    """The runtimes this machine has, of those the hub enables."""
    runtimes: dict[Runtime, RuntimePort] = {}
    if Runtime.PROCESS in enabled:
        from codehub.adapters.process import ProcessRuntime

        process = ProcessRuntime((choice.data / WORKSPACES).resolve(), str(hub_id))
        await process.claim()
        runtimes[Runtime.PROCESS] = process
    return runtimes


def claim_archive_store(choice: HubChoice, settings: Settings) -> ObjectStore:
    """The store, ready for use: a directory of the hub's own is made where there is none."""
    from codehub.adapters.localstore import LocalStore

    store = open_archive_store(choice, settings)
    if isinstance(store, LocalStore):
        store.claim()
    return store
