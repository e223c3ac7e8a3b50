"""The process behind `codehub up`: services, coordinator and front, from start to Ctrl-C."""

from __future__ import annotations

import asyncio
import fcntl
import logging
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Final

from codehub.cli.narrating import greet, narrate_until
from codehub.cli.services import keep_running, open_services
from codehub.cli.serving import (
    beside,
    check_specs,
    log_to_stderr,
    open_parts,
    say,
    stoppable,
    until_signal,
)
from codehub.config import load_settings
from codehub.coordinator.coordinator import Coordinator
from codehub.errors import CodeHubError, Conflict, FenceLost, Unreachable
from codehub.model.workspace import Runtime
from codehub.proxy.activity import ActivityBuffer
from codehub.proxy.front import Front
from codehub.proxy.routes import Routes
from codehub.proxy.wake import waker
from codehub.service.rules import limits_of
from codehub.store.hubs import ensure_hub_id
from codehub.store.pool import Pool
from codehub.wiring import PAGES, HubChoice

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path
    from uuid import UUID

    from codehub.cli.services import Services
    from codehub.config import Settings
    from codehub.coordinator.coordinator import Parts
    from codehub.model.runtime import Upstream
    from codehub.ports import Runtime as RuntimePort

LEADING: Final = 15.0
"""Seconds that a stop waits for leadership."""
AGAIN: Final = 0.5


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks for."""

    specs: Path
    data: Path | None
    port: int
    detach: bool


def run_everything(wishes: Wishes) -> None:
    """Start all of it, say where it is, and stop all of it on Ctrl-C."""
    settings = load_settings()
    check_specs(wishes.specs)
    choice = HubChoice((wishes.data or settings.codehub_data).absolute())
    log_to_stderr(logging.WARNING)
    with _alone(choice.data), stoppable(), open_services(choice, settings) as services:
        asyncio.run(_run(choice, settings, services, wishes))
    say("Stopped.")


@contextmanager
def _alone(data: Path) -> Iterator[None]:
    """Two of these on one data directory would only stand in each other's way."""
    with _lock_file(data) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Conflict(
                f"another 'codehub up' already runs on {data}",
                hint="stop that one first, or give this one its own directory with --data",
            ) from None
        yield


def _lock_file(data: Path) -> IO[str]:
    try:
        data.mkdir(parents=True, exist_ok=True)
        return (data / "up.lock").open("a")
    except OSError as error:
        raise CodeHubError(
            f"the data cannot be kept in {data}: {error.strerror}",
            hint="choose another directory with --data",
        ) from error


async def _run(choice: HubChoice, settings: Settings, services: Services, wishes: Wishes) -> None:
    enabled = settings.runtime_enabled or frozenset({Runtime.PROCESS})
    with until_signal() as ended:
        # The front first: where its port is taken, no workspace is started.
        async with (
            open_parts(choice, settings, services, enabled, wishes.specs, None) as parts,
            _front(choice, parts, wishes.port) as port,
        ):
            leading = asyncio.Event()
            coordinator = Coordinator(parts, on_change=partial(_note, leading))
            async with beside(ended, coordinator.run(), keep_running(services.embedded)):
                greet(choice.data, wishes.specs, port)
                await narrate_until(ended, parts.database_url, port, coordinator)
                if not wishes.detach:
                    await _put_to_sleep(coordinator, leading, ended)


def _note(leading: asyncio.Event, leads: bool) -> None:
    if leads:
        leading.set()
    else:
        leading.clear()


@asynccontextmanager
async def _front(choice: HubChoice, parts: Parts, port: int) -> AsyncIterator[int]:
    settings = parts.settings
    async with Pool(parts.database_url, size=4, checked=True) as pool:
        front = Front(
            routes=Routes(pool, _Upstreams(parts, pool).find),
            pages=choice.data / PAGES,
            activity=ActivityBuffer(parts.signals, pool, settings),
            wake=waker(pool, limits_of(settings)),
            port=port,
        )
        try:
            yield await front.start()
        finally:
            await front.stop()


class _Upstreams:
    """Where workspaces answer, through runtimes of the front's own."""

    def __init__(self, parts: Parts, pool: Pool) -> None:
        self._parts = parts
        self._pool = pool
        self._runtimes: Sequence[RuntimePort] | None = None

    async def find(self, workspace_id: UUID) -> Upstream | None:
        for runtime in await self._open():
            found = await runtime.upstream(workspace_id)
            if found is not None:
                return found
        return None

    async def _open(self) -> Sequence[RuntimePort]:
        if self._runtimes is None:
            async with self._pool.connection() as conn:
                hub_id = await ensure_hub_id(conn)
            self._runtimes = tuple((await self._parts.runtimes(hub_id)).values())
        return self._runtimes


async def _put_to_sleep(
    coordinator: Coordinator, leading: asyncio.Event, ended: asyncio.Event
) -> None:
    """Stop the workspaces; a second signal leaves the rest of them running."""
    ended.clear()
    say("Stopping workspaces (Ctrl-C again leaves them running) …")
    stopping = asyncio.create_task(_stop_all(coordinator, leading))
    again = asyncio.create_task(ended.wait())
    await asyncio.wait({stopping, again}, return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    if not stopping.done():
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        say("Left the others running; the next 'codehub up' finds them.")
        return
    try:
        count = stopping.result()
    except CodeHubError as error:
        raise CodeHubError(
            f"not all workspaces could be stopped: {error.message}",
            hint="the next 'codehub up' finds those that are left",
        ) from error
    say(f"{count} stopped.")


async def _stop_all(coordinator: Coordinator, leading: asyncio.Event) -> int:
    """Only a leader may. One that has just lost its database leads again in a moment."""
    clock = asyncio.get_running_loop().time
    ends = clock() + LEADING
    while True:
        await _until_leading(coordinator, leading, ends)
        try:
            return await coordinator.put_to_sleep()
        except (Unreachable, FenceLost):
            if clock() > ends:
                raise
            await asyncio.sleep(AGAIN)


async def _until_leading(coordinator: Coordinator, leading: asyncio.Event, ends: float) -> None:
    try:
        async with asyncio.timeout_at(ends):
            await leading.wait()
    except TimeoutError:
        why = coordinator.problem or "another coordinator leads this hub"
        raise Conflict(str(why)) from None
