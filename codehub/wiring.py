"""Builds what a command needs from settings: above all, finds its hub.

A hub is found through `--hub`, `DATABASE_URL`, or the embedded one in the data directory, in that
order. The embedded PostgreSQL is started on demand and shared by commands that run at once; the
last one to leave stops it.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from codehub.errors import Unreachable, UsageError
from codehub.model.workspace import Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

    from codehub.adapters.process import ProcessRuntime
    from codehub.config import Settings
    from codehub.ports import ObjectStore
    from codehub.ports import Runtime as RuntimePort


class _Engine(TypedDict):
    base_url: str | None
    look_seconds: float
    act_seconds: float


log = logging.getLogger(__name__)

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


def settled(choice: HubChoice, settings: Settings) -> Settings:
    """The settings with the runtimes that specs may name, for those who know no `choice`."""
    enabled = enabled_runtimes(choice, settings)
    return settings.model_copy(update={"runtime_enabled": enabled})


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


@dataclass(frozen=True, slots=True)
class RuntimeOpener:
    """Opens the runtimes that a serving process works with."""

    choice: HubChoice
    settings: Settings
    enabled: frozenset[Runtime]
    database_url: str

    async def open(
        self, hub_id: UUID, told: Callable[[UUID, Mapping[str, object]], None]
    ) -> dict[Runtime, RuntimePort]:
        """Those the hub enables. An engine need not answer yet: it is met when it is listed."""
        runtimes: dict[Runtime, RuntimePort] = {}
        if Runtime.PROCESS in self.enabled:
            from codehub.adapters.process import ProcessRuntime

            process = ProcessRuntime((self.choice.data / WORKSPACES).resolve(), str(hub_id))
            await self._claim(process)
            runtimes[Runtime.PROCESS] = process
        if Runtime.DOCKER in self.enabled:
            from codehub.adapters.docker import DockerRuntime

            runtimes[Runtime.DOCKER] = DockerRuntime(
                str(hub_id),
                **_engine(self.settings),
                network=self.settings.docker_network,
                expects_data=self._has_docker_homes,
                report=told,
            )
        return runtimes

    async def _claim(self, process: ProcessRuntime) -> None:
        """One that is not ours, or not mounted, shows when it is listed; others go on meanwhile."""
        expects = await has_homes(self.database_url, Runtime.PROCESS)
        try:
            await process.claim(expects_data=bool(expects))
        except Unreachable as error:
            log.warning("%s", error)

    async def _has_docker_homes(self) -> bool | None:
        return await has_homes(self.database_url, Runtime.DOCKER)


async def has_homes(database_url: str, runtime: Runtime) -> bool | None:
    """Whether the hub's database records a home on this runtime; None if nothing is for it."""
    from codehub.store.connect import connect
    from codehub.store.homes import holds_homes

    async with await connect(database_url) as conn:
        return await holds_homes(conn, runtime)


def runtime_to_look(
    choice: HubChoice, settings: Settings, kind: Runtime, hub_id: str
) -> RuntimePort | None:
    """A runtime to read from: it claims nothing and changes nothing. None where there is none."""
    if kind is Runtime.PROCESS:
        from codehub.adapters.process import ProcessRuntime

        return ProcessRuntime(choice.data / WORKSPACES, hub_id)
    if kind is Runtime.DOCKER:
        from codehub.adapters.docker import DockerRuntime

        return DockerRuntime(hub_id, **_engine(settings))
    return None


def _engine(settings: Settings) -> _Engine:
    return {
        "base_url": settings.docker_host,
        "look_seconds": settings.docker_look_timeout,
        "act_seconds": settings.docker_act_timeout,
    }


def claim_archive_store(choice: HubChoice, settings: Settings) -> ObjectStore:
    """The store, ready for use: a directory of the hub's own is made where there is none."""
    from codehub.adapters.localstore import LocalStore

    store = open_archive_store(choice, settings)
    if isinstance(store, LocalStore):
        store.claim()
    return store
