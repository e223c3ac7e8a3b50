"""The processes behind `codehub serve proxy` and `serve web`: one, or several on one port."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from codehub.adapters.redis import RedisSignals
from codehub.cli.outputs import Outputs
from codehub.cli.services import open_services
from codehub.cli.serving import log_to_stderr, say, stoppable, until_signal
from codehub.config import load_settings
from codehub.errors import CodeHubError
from codehub.model.runtime import Upstream
from codehub.proxy.process import Listening, serve_proxy
from codehub.proxy.server import new_event_loop
from codehub.telemetry.exposition import listen
from codehub.web.process import serve_web
from codehub.wiring import PAGES, find_hub, settled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from codehub.config import Settings
    from codehub.wiring import HubChoice

log: Final = logging.getLogger("codehub.front")


class Part(StrEnum):
    """The two parts of the front that serve on a port of their own."""

    PROXY = "proxy"
    WEB = "web"


LOOK_SECONDS: Final = 0.2
PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where a part of the front listens, and what it serves from."""

    part: Part
    host: str
    port: int
    workers: int
    database_url: str
    redis_url: str
    choice: HubChoice


def serve(
    part: Part, hub: str | None, data: Path | None, host: str, port: int, workers: int | None
) -> None:
    """Run it until a signal ends it."""
    settings = load_settings()
    choice = find_hub(hub, data, settings)
    log_to_stderr(logging.INFO)
    with stoppable(), open_services(choice, settings) as services:
        usual = settings.proxy_workers if part is Part.PROXY else settings.web_workers
        address = Address(
            part,
            host,
            port,
            workers or usual,
            services.database_url,
            services.redis_url,
            choice,
        )
        if address.workers == 1:
            _run(address, settings)
        else:
            _supervise(address)


def _run(address: Address, settings: Settings, number: int = 0) -> None:
    """Worker `number` of so many as there are."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(address, settings, number))


async def _serve(address: Address, settings: Settings, number: int) -> None:
    listening = Listening(address.host, address.port, shared=address.workers > 1)
    signals = RedisSignals(address.redis_url)
    try:
        with until_signal() as ended:
            async with (
                listen(settings.metrics_listen, worker=number),
                _open(address, settings, signals, listening) as port,
            ):
                say(f"CodeHub {address.part} on {address.host}:{port}", err=True)
                await _until_ended(ended)
    finally:
        await signals.close()


def _open(
    address: Address, settings: Settings, signals: RedisSignals, listening: Listening
) -> AbstractAsyncContextManager[int]:
    if address.part is Part.WEB:
        return _open_web(address, settings, signals, listening)
    web, pages = web_at(settings.web_url), address.choice.data / PAGES
    return serve_proxy(settings, address.database_url, signals, pages, listening, web)


@asynccontextmanager
async def _open_web(
    address: Address, settings: Settings, signals: RedisSignals, listening: Listening
) -> AsyncIterator[int]:
    url = address.database_url
    async with (
        Outputs(address.choice, settings, url) as outputs,
        serve_web(
            settled(address.choice, settings), url, signals, listening, logs=outputs.read
        ) as port,
    ):
        yield port


def web_at(url: str | None) -> Upstream | None:
    """Where a setting says that the web application is."""
    parts = urlsplit(url or "")
    return Upstream(parts.hostname, parts.port) if parts.hostname and parts.port else None


async def _until_ended(ended: asyncio.Event) -> None:
    """A worker whose supervisor was killed ends too: nobody else would ever end it."""
    supervisor = multiprocessing.parent_process()
    while not ended.is_set() and (supervisor is None or os.getppid() == supervisor.pid):
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), None if supervisor is None else PAUSE_SECONDS)


def _supervise(address: Address) -> None:
    """Several processes on one port. One that dies is started again; all end with this one."""
    if not address.port:
        raise CodeHubError("several workers need a port of their own", hint="name it with --port")
    context = multiprocessing.get_context("spawn")

    def begin(number: int) -> BaseProcess:
        name = f"codehub-{address.part}-{number}"
        process = context.Process(target=_work, args=(address, number), name=name)
        process.start()
        return process

    workers = [begin(number) for number in range(address.workers)]
    try:
        while True:
            time.sleep(LOOK_SECONDS)
            for index, worker in enumerate(workers):
                if not worker.is_alive():
                    log.error("a worker ended with %s, and is started again", worker.exitcode)
                    time.sleep(PAUSE_SECONDS)
                    workers[index] = begin(index)
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()


def _work(address: Address, number: int) -> None:
    """One worker. Ctrl-C reaches the whole group: the supervisor's word is what counts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log_to_stderr(logging.INFO)
    with stoppable():
        try:
            _run(address, load_settings(), number)
        except CodeHubError as error:
            log.error("%s; %s", error.message, error.hint or "see the line before")
            raise SystemExit(error.exit_code) from None
