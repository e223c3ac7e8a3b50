"""What the serving verbs share: logs, signals, and a coordinator with everything it needs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import typer

from codehub.adapters.process import NOTICE
from codehub.adapters.redis import RedisSignals
from codehub.config import load_settings
from codehub.coordinator.coordinator import Coordinator, Parts
from codehub.errors import DatabaseProblem, UsageError
from codehub.jobs.mover import JobMover
from codehub.model.workspace import Runtime
from codehub.store.schema import current, upgrade
from codehub.wiring import (
    PAGES,
    archive_store_url,
    claim_archive_store,
    database_address,
    enabled_runtimes,
    find_hub,
    open_runtimes,
    redis_address,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from codehub.config import Settings
    from codehub.wiring import HubChoice


def serve_coordinator(
    hub: str | None, data: Path | None, specs: Path | None, ref: str | None
) -> None:
    """Run one coordinator until a signal ends it."""
    settings = load_settings()
    choice = find_hub(hub, data, settings)
    check_specs(specs)
    log_to_stderr(logging.INFO)
    enabled = enabled_runtimes(choice, settings)
    if Runtime.PROCESS in enabled:
        typer.echo(f"codehub: {NOTICE}", err=True)
    with open_services(choice, settings) as (database_url, redis_url):
        asyncio.run(_coordinate(choice, settings, (database_url, redis_url), specs, ref))


async def _coordinate(
    choice: HubChoice,
    settings: Settings,
    addresses: tuple[str, str],
    specs: Path | None,
    ref: str | None,
) -> None:
    enabled = enabled_runtimes(choice, settings)
    async with open_parts(choice, settings, addresses, enabled, specs, ref) as parts:
        with until_signal() as ended:
            await run_beside(Coordinator(parts), ended)


async def run_beside(coordinator: Coordinator, ended: asyncio.Event) -> None:
    """Run the coordinator until `ended` is set; a fault of its own ends it too."""
    running = asyncio.create_task(coordinator.run())
    waiting = asyncio.create_task(ended.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@contextmanager
def open_services(choice: HubChoice, settings: Settings) -> Iterator[tuple[str, str]]:
    """Database and Redis, started where they are embedded, with this code's schema."""
    with database_address(choice) as database_url, redis_address(choice, settings) as redis_url:
        if choice.embedded:
            if not current(database_url).fits:
                upgrade(database_url)
        elif not current(database_url).fits:
            raise DatabaseProblem(
                "the hub's database has no schema that fits this codehub",
                hint="run 'codehub db upgrade'",
            )
        yield database_url, redis_url


@asynccontextmanager
async def open_parts(
    choice: HubChoice,
    settings: Settings,
    addresses: tuple[str, str],
    enabled: frozenset[Runtime],
    specs: Path | None,
    ref: str | None,
) -> AsyncIterator[Parts]:
    """Everything a coordinator works with."""
    database_url, redis_url = addresses
    store_url = archive_store_url(choice, settings)
    signals = RedisSignals(redis_url)
    try:
        yield Parts(
            settings=settings,
            database_url=database_url,
            runtimes=partial(open_runtimes, choice, enabled),
            store=claim_archive_store(choice, settings),
            mover=JobMover(store_url, os.environ),
            signals=signals,
            enabled=enabled,
            pages=choice.data / PAGES,
            specs=specs,
            ref=ref,
        )
    finally:
        await signals.close()


@contextmanager
def until_signal() -> Iterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set, each time they come."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, ended.set)
    try:
        yield ended
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def check_specs(specs: Path | None) -> None:
    """A directory that is not there is a mistake of the command line, not an empty hub."""
    if specs is not None and not specs.is_dir():
        raise UsageError(
            f"there is no directory {specs} with specs",
            hint="'codehub init' writes example specs, or name yours with --specs",
        )


def log_to_stderr(level: int) -> None:
    """One line for each thing that happens, with its time."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    logging.getLogger("codehub").setLevel(level)
    # Its worker tells of every refused connection while the database is away; the leader does too.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
