"""The process behind `codehub serve all`: coordinator, web application and proxy together."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codehub.cli.addresses import noted
from codehub.cli.front import serve_front
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
    warn_of_process_runtime,
)
from codehub.config import load_settings
from codehub.coordinator.coordinator import Coordinator
from codehub.proxy.process import Listening
from codehub.telemetry.exposition import listen
from codehub.wiring import enabled_runtimes, find_hub

if TYPE_CHECKING:
    from pathlib import Path

    from codehub.cli.services import Services
    from codehub.config import Settings
    from codehub.wiring import HubChoice


@dataclass(frozen=True, slots=True)
class _Wishes:
    specs: Path | None
    ref: str | None
    listening: Listening


def serve_all(
    hub: str | None, data: Path | None, specs: Path | None, ref: str | None, host: str, port: int
) -> None:
    """Run all of it until a signal ends it."""
    settings = load_settings()
    choice = find_hub(hub, data, settings)
    check_specs(specs)
    log_to_stderr(logging.INFO)
    warn_of_process_runtime(enabled_runtimes(choice, settings))
    wishes = _Wishes(specs, ref, Listening(host, port))
    with stoppable(), open_services(choice, settings) as services:
        run_serving(_serve(choice, settings, services, wishes))


async def _serve(
    choice: HubChoice, settings: Settings, services: Services, wishes: _Wishes
) -> None:
    enabled = enabled_runtimes(choice, settings)
    with until_signal() as ended:
        async with (
            listen(settings.metrics_listen),
            open_parts(choice, settings, services, enabled, wishes.specs, wishes.ref) as parts,
            serve_front(choice, settings, services, parts.signals, wishes.listening) as port,
        ):
            say(f"CodeHub on {wishes.listening.host}:{port}", err=True)
            works = (Coordinator(parts).run(), keep_running(services.embedded))
            with noted(choice.data, port):
                async with beside(ended, *works):
                    await ended.wait()
