"""The process behind `codehub up`: services, coordinator and front, from start to Ctrl-C."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import signal
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

from codehub import __version__
from codehub.adapters.process import NOTICE
from codehub.cli.serving import (
    check_specs,
    log_to_stderr,
    open_parts,
    open_services,
    until_signal,
)
from codehub.config import load_settings
from codehub.coordinator.coordinator import Coordinator
from codehub.errors import CodeHubError, Conflict
from codehub.model.events import EventKind
from codehub.model.states import Phase
from codehub.model.workspace import Runtime
from codehub.proxy.activity import ActivityBuffer
from codehub.proxy.front import Front
from codehub.proxy.routes import Routes
from codehub.proxy.wake import waker
from codehub.render.words import clean
from codehub.service.following import begin, follow
from codehub.service.rules import limits_of
from codehub.store.connect import connect
from codehub.store.hubs import ensure_hub_id
from codehub.store.pool import Pool
from codehub.store.workspaces import read_workspaces
from codehub.wiring import PAGES, HubChoice

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path
    from uuid import UUID

    from codehub.config import Settings
    from codehub.coordinator.coordinator import Parts
    from codehub.model.events import Event
    from codehub.model.runtime import Upstream
    from codehub.model.workspace import Workspace
    from codehub.ports import Runtime as RuntimePort

SHOWN: Final = 20
STANDING: Final = 5.0
"""Seconds after which it is said that something keeps us from leading."""


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
    choice.data.mkdir(parents=True, exist_ok=True)
    log_to_stderr(logging.WARNING)
    with _alone(choice.data), _stoppable(), open_services(choice, settings) as addresses:
        asyncio.run(_run(choice, settings, addresses, wishes))
    typer.echo("Stopped.")


@contextmanager
def _alone(data: Path) -> Iterator[None]:
    """Two of these on one data directory would only stand in each other's way."""
    with (data / "up.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Conflict(
                f"another 'codehub up' already runs on {data}",
                hint="stop that one first, or give this one its own directory with --data",
            ) from None
        yield


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM ends us like Ctrl-C, also while services start and stop."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def _run(
    choice: HubChoice, settings: Settings, addresses: tuple[str, str], wishes: Wishes
) -> None:
    enabled = settings.runtime_enabled or frozenset({Runtime.PROCESS})
    async with open_parts(choice, settings, addresses, enabled, wishes.specs, None) as parts:
        with until_signal() as ended:
            coordinator = Coordinator(parts)
            coordinating = asyncio.create_task(coordinator.run())
            try:
                async with _front(choice, parts, wishes.port) as port:
                    _greet(choice, wishes.specs, port)
                    await _narrate_until(ended, parts.database_url, port, coordinator)
                    if not wishes.detach:
                        await _put_to_sleep(coordinator, ended)
            finally:
                coordinating.cancel()
                with suppress(asyncio.CancelledError):
                    await coordinating


@asynccontextmanager
async def _front(choice: HubChoice, parts: Parts, port: int) -> AsyncIterator[int]:
    settings = parts.settings
    async with Pool(parts.database_url, size=4) as pool:
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


def _greet(choice: HubChoice, specs: Path, port: int) -> None:
    typer.echo(f"CodeHub {__version__}")
    typer.echo(f"  specs   {specs} (changes are loaded as they are saved)")
    typer.echo(f"  data    {choice.data}")
    typer.echo(f"  note    {NOTICE}")
    typer.echo("")
    typer.echo(f"  Open http://127.0.0.1:{port}/  (Ctrl-C stops everything)")
    typer.echo("")


async def _narrate_until(
    ended: asyncio.Event, database_url: str, port: int, coordinator: Coordinator
) -> None:
    telling = asyncio.create_task(_narrate(database_url, port))
    warning = asyncio.create_task(_say_what_is_wrong(coordinator))
    try:
        await ended.wait()
    finally:
        for task in (telling, warning):
            task.cancel()
        await asyncio.gather(telling, warning, return_exceptions=True)


async def _narrate(database_url: str, port: int) -> None:
    """What happens to workspaces, line by line; a lost database is told by others."""
    clock = asyncio.get_running_loop().time
    follower = None
    while True:
        with suppress(CodeHubError):
            async with await connect(database_url) as conn:
                if follower is None:
                    follower = await begin(conn, None, clock)
                    _show(await read_workspaces(conn), port)
                async for fresh in follow(conn, follower, None):
                    for event in fresh:
                        _tell(event, port)
        await asyncio.sleep(1)


def _show(workspaces: Sequence[Workspace], port: int) -> None:
    """What is there already; the rest of a long list is in the report."""
    live = [each for each in workspaces if each.status.phase is not Phase.DELETED]
    for each in live[:SHOWN]:
        _line(datetime.now(UTC), each.name, _with_address(each.name, each.status.phase, port))
    if len(live) > SHOWN:
        typer.echo(f"          and {len(live) - SHOWN} more: 'codehub status' lists them")


def _tell(event: Event, port: int) -> None:
    if event.kind is EventKind.PHASE:
        _line(event.at, event.workspace, _with_address(event.workspace, event.new, port))
    elif event.kind is EventKind.ERROR:
        _line(event.at, event.workspace, f"{event.new}: {clean(event.reason)}")


def _line(at: datetime, name: str, text: str) -> None:
    typer.echo(f"{at.astimezone():%H:%M:%S}  {clean(name):<20} {text}")


def _with_address(name: str, phase: str, port: int) -> str:
    return f"{phase}  http://127.0.0.1:{port}/w/{name}/" if phase == Phase.RUNNING else str(phase)


async def _say_what_is_wrong(coordinator: Coordinator) -> None:
    while not coordinator.leads:
        await asyncio.sleep(STANDING)
        if not coordinator.leads and coordinator.problem is not None:
            typer.echo(f"codehub: not coordinating yet: {coordinator.problem}", err=True)


async def _put_to_sleep(coordinator: Coordinator, ended: asyncio.Event) -> None:
    """Stop the workspaces; a second signal leaves the rest of them running."""
    ended.clear()
    typer.echo("Stopping workspaces (Ctrl-C again leaves them running) …")
    stopping = asyncio.create_task(coordinator.put_to_sleep())
    again = asyncio.create_task(ended.wait())
    await asyncio.wait({stopping, again}, return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    if not stopping.done():
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        typer.echo("Left the others running; the next 'codehub up' finds them.")
        return
    try:
        count = stopping.result()
    except CodeHubError as error:
        typer.echo(f"codehub: not all could be stopped: {clean(error.message)}", err=True)
        return
    typer.echo(f"{count} stopped." if count != 1 else "1 stopped.")
