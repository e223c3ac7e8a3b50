"""Database and Redis of a serving process: opened, and kept running where they are embedded.

A one-off command starts an embedded server and leaves it; a process that serves for days must also
notice that one died under it, of the kernel's want of memory perhaps, and start it again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codehub.embedded.postgres import EmbeddedPostgres
from codehub.embedded.redis import EmbeddedRedis
from codehub.errors import CodeHubError, DatabaseProblem, UsageError
from codehub.store.schema import current, upgrade
from codehub.wiring import POSTGRES, REDIS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codehub.config import Settings
    from codehub.embedded.server import EmbeddedServer
    from codehub.wiring import HubChoice

log: Final = logging.getLogger("codehub.services")

LOOK_SECONDS: Final = 0.5
LONGEST_PAUSE: Final = 30.0


@dataclass(frozen=True, slots=True)
class Services:
    """Where they are reached; `embedded` are those that this process runs itself."""

    database_url: str
    redis_url: str
    embedded: tuple[EmbeddedServer, ...]


@contextmanager
def open_services(choice: HubChoice, settings: Settings) -> Iterator[Services]:
    """Database and Redis, started where they are embedded, with this code's schema."""
    embedded: list[EmbeddedServer] = []
    with ExitStack() as stack:

        def run(server: EmbeddedServer) -> str:
            embedded.append(server)
            return stack.enter_context(server)

        database_url = choice.url or run(EmbeddedPostgres(choice.data / POSTGRES))
        redis_url = _redis_url(choice, settings) or run(EmbeddedRedis(choice.data / REDIS))
        _require_schema(choice, database_url)
        yield Services(database_url, redis_url, tuple(embedded))


async def keep_running(servers: tuple[EmbeddedServer, ...]) -> None:
    """Start again what died, at the same address; for ever, until cancelled.

    Where no server is embedded there is nothing to do, and still no end: whoever waits for it
    would take that for the end of the whole.
    """
    await asyncio.gather(*(_keep(each) for each in servers))
    await asyncio.Event().wait()


async def _keep(server: EmbeddedServer) -> None:
    pause = LOOK_SECONDS
    while True:
        await asyncio.sleep(pause)
        try:
            await _revive(server)
        except CodeHubError as error:
            log.error("%s", error.message)
            pause = min(2 * pause, LONGEST_PAUSE)
        else:
            pause = LOOK_SECONDS


async def _revive(server: EmbeddedServer) -> None:
    if await asyncio.to_thread(server.running) is None:
        log.warning("the embedded %s ended by itself, and is started again", server.name)
        await asyncio.to_thread(server.start)


def _redis_url(choice: HubChoice, settings: Settings) -> str | None:
    if settings.redis_url is not None:
        return settings.redis_url.get_secret_value()
    if not choice.embedded:
        raise UsageError("this hub needs a Redis, and none is named", hint="set REDIS_URL")
    return None


def _require_schema(choice: HubChoice, database_url: str) -> None:
    """Nobody else looks after an embedded database, so it gets this code's schema."""
    if current(database_url).fits:
        return
    if not choice.embedded:
        raise DatabaseProblem(
            "the hub's database has no schema that fits this codehub",
            hint="run 'codehub db upgrade'",
        )
    upgrade(database_url)
