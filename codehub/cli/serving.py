"""What the serving verbs share: logs, signals, and a coordinator with everything it needs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from codehub import __version__
from codehub.adapters.http_post import HttpPost
from codehub.adapters.process import NOTICE
from codehub.adapters.redis import RedisSignals
from codehub.cli.services import keep_running, open_services
from codehub.config import load_settings
from codehub.coordinator.coordinator import Coordinator, Parts
from codehub.errors import UsageError
from codehub.jobs.mover import JobMover
from codehub.model.workspace import Runtime
from codehub.service.threads import LooseExecutor
from codehub.telemetry.exposition import listen
from codehub.telemetry.logs import set_up
from codehub.wiring import (
    PAGES,
    RuntimeOpener,
    archive_store_url,
    claim_archive_store,
    enabled_runtimes,
    find_hub,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator
    from pathlib import Path

    from codehub.cli.services import Services
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
    warn_of_process_runtime(enabled)
    with stoppable(), open_services(choice, settings) as services:
        run_serving(_coordinate(choice, settings, services, specs, ref))


def warn_of_process_runtime(enabled: frozenset[Runtime]) -> None:
    """Whoever lets specs run processes is told that nothing keeps these apart."""
    if Runtime.PROCESS in enabled:
        typer.echo(f"codehub: {NOTICE}", err=True)


async def _coordinate(
    choice: HubChoice,
    settings: Settings,
    services: Services,
    specs: Path | None,
    ref: str | None,
) -> None:
    enabled = enabled_runtimes(choice, settings)
    with until_signal() as ended:
        async with (
            listen(settings.metrics_listen),
            open_parts(choice, settings, services, enabled, specs, ref) as parts,
        ):
            works = (Coordinator(parts).run(), keep_running(services.embedded))
            async with beside(ended, *works):
                await ended.wait()


@asynccontextmanager
async def beside(ended: asyncio.Event, *works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """These, which have no end of their own, run as long as the block lasts.

    Should one end all the same, `ended` is set, and what it raised is raised after the block.
    """
    tasks = [asyncio.create_task(each) for each in works]
    for task in tasks:
        task.add_done_callback(lambda _: ended.set())
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        left = await asyncio.gather(*tasks, return_exceptions=True)
    for each in left:
        if isinstance(each, Exception):
            raise each


@asynccontextmanager
async def open_parts(
    choice: HubChoice,
    settings: Settings,
    services: Services,
    enabled: frozenset[Runtime],
    specs: Path | None,
    ref: str | None,
) -> AsyncIterator[Parts]:
    """Everything a coordinator works with."""
    store_url = archive_store_url(choice, settings)
    signals = RedisSignals(services.redis_url)
    try:
        yield Parts(
            settings=settings,
            database_url=services.database_url,
            runtimes=RuntimeOpener(choice, settings, enabled, services.database_url).open,
            store=claim_archive_store(choice, settings),
            mover=JobMover(store_url, os.environ),
            signals=signals,
            notifier=HttpPost(f"CodeHub/{__version__}"),
            enabled=enabled,
            pages=choice.data / PAGES,
            specs=specs,
            ref=ref,
        )
    finally:
        await signals.close()


class Impatient(KeyboardInterrupt):
    """Ctrl-C once more, while the first one is being heeded."""


_abandoned: Final[list[asyncio.Runner]] = []
"""Event loops that somebody did not want to wait for; what is in them must not be tidied up."""


def run_serving(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end and close its event loop; an impatient one leaves that as it is.

    A thread that hangs, on a dead disk perhaps, is awaited for a moment only.
    """
    runner = asyncio.Runner()
    runner.get_loop().set_default_executor(LooseExecutor())
    try:
        runner.run(work)
    except Impatient:
        _abandoned.append(runner)
        _ignore_signals()
        raise
    except BaseException:
        runner.close()
        raise
    runner.close()


@contextmanager
def stoppable() -> Iterator[None]:
    """A signal ends the block, and well: it is how a server is meant to end.

    It ends it once. Whoever grows impatient while services are being stopped does not keep them
    from it, and so leaves none behind; after that nothing is waited for any more.
    """

    def interrupt(*_: object) -> None:
        _ignore_signals()
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in _endings()}
    try:
        yield
    except Impatient:
        _leave()
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def until_signal() -> Iterator[asyncio.Event]:
    """An event that a signal sets; after this block signals do nothing.

    Ctrl-C while it is set ends everything at once. Not so other signals: a terminal that is closed
    may send its own twice.
    """
    loop, ended, endings = asyncio.get_running_loop(), asyncio.Event(), _endings()

    def interrupt() -> None:
        if ended.is_set():
            raise Impatient
        ended.set()

    for number in endings:
        loop.add_signal_handler(number, interrupt if number is signal.SIGINT else ended.set)
    try:
        yield ended
    finally:
        for number in endings:
            loop.remove_signal_handler(number)
        _ignore_signals()


def _endings() -> list[signal.Signals]:
    """Ctrl-C, a plain kill, and a closed terminal; that one unless `nohup` says otherwise."""
    stays = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if stays else [signal.SIGHUP])]


def _ignore_signals() -> None:
    for each in _endings():
        signal.signal(each, signal.SIG_IGN)


def _leave() -> NoReturn:
    """End the process here and now: at a usual end, Python waits for every thread."""
    say("Stopped at once.", err=True)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(0)


def check_specs(specs: Path | None) -> None:
    """A directory that is not there is a mistake of the command line, not an empty hub."""
    if specs is not None and not specs.is_dir():
        raise UsageError(
            f"there is no directory {specs} with specs",
            hint="'codehub init' writes example specs, or name yours with --specs",
        )


def say(text: str, *, err: bool = False) -> None:
    """A line for whoever watches; that nobody does any more is no reason to stop serving."""
    try:
        typer.echo(text, err=err)
    except OSError:
        stream = sys.stderr if err else sys.stdout
        # What could not be written stays in the stream, and would fail once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def log_to_stderr(level: int) -> None:
    """One line for each thing that happens, from `level` on, unless the settings say otherwise."""
    settings = load_settings()
    if settings.log_level is not None:
        level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    set_up(sys.stderr, form=settings.log_format, level=level)
