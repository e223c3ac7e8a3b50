"""The process behind `codehub up`: services, coordinator and front, from start to Ctrl-C."""

from __future__ import annotations

import asyncio
import fcntl
import logging
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Final

from codehub.cli.addresses import noted
from codehub.cli.front import serve_front
from codehub.cli.narrating import greet, narrate_until
from codehub.cli.runtimes import choose_runtimes
from codehub.cli.services import keep_running, open_services
from codehub.cli.serving import (
    beside,
    check_specs,
    log_to_stderr,
    open_parts,
    run_serving,
    say,
    stoppable,
    until_signal,
)
from codehub.config import load_settings
from codehub.coordinator.coordinator import Coordinator
from codehub.errors import CodeHubError, Conflict, FenceLost, Unreachable
from codehub.proxy.process import Listening
from codehub.telemetry.exposition import listen
from codehub.wiring import HubChoice

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codehub.cli.services import Services
    from codehub.cli.up import RuntimeChoice
    from codehub.config import Settings

LEADING: Final = 15.0
"""Seconds that a stop waits for leadership."""
AGAIN: Final = 0.5


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks for."""

    specs: Path
    data: Path | None
    port: int
    runtime: RuntimeChoice
    detach: bool


def run_everything(wishes: Wishes) -> None:
    """Start all of it, say where it is, and stop all of it on Ctrl-C."""
    settings = load_settings()
    check_specs(wishes.specs)
    choice = HubChoice((wishes.data or settings.codehub_data).absolute())
    log_to_stderr(logging.WARNING)
    with _alone(choice.data), stoppable(), open_services(choice, settings) as services:
        run_serving(_run(choice, settings, services, wishes))
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
    enabled = await choose_runtimes(wishes.runtime, settings, services.database_url)
    chosen = settings.model_copy(update={"runtime_enabled": enabled})
    with until_signal() as ended, ExitStack() as stack:
        # The front first: where its port is taken, no workspace is started.
        async with (
            listen(settings.metrics_listen),
            open_parts(choice, settings, services, enabled, wishes.specs, None) as parts,
            serve_front(
                choice, chosen, services, parts.signals, Listening(port=wishes.port)
            ) as port,
        ):
            stack.enter_context(noted(choice.data, port))
            leading = asyncio.Event()
            coordinator = Coordinator(parts, on_change=partial(_note, leading))
            async with beside(ended, coordinator.run(), keep_running(services.embedded)):
                greet(choice.data, wishes.specs, port, enabled)
                await narrate_until(ended, parts.database_url, port, coordinator)
                if not wishes.detach:
                    await _put_to_sleep(coordinator, leading, ended)


def _note(leading: asyncio.Event, leads: bool) -> None:
    if leads:
        leading.set()
    else:
        leading.clear()


async def _put_to_sleep(
    coordinator: Coordinator, leading: asyncio.Event, ended: asyncio.Event
) -> None:
    """Stop the workspaces; a second signal leaves the others running, one more ends it all."""
    ended.clear()
    say("Stopping workspaces (Ctrl-C again leaves them running) …")
    stopping = asyncio.create_task(_stop_all(coordinator, leading))
    again = asyncio.create_task(ended.wait())
    await asyncio.wait({stopping, again}, return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    ended.set()
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
