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

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.config import Settings

POSTGRES = "postgres"


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
