"""What runs beside a proxy's connections, or the web application's, for ever, to keep it informed.

None of it may end. Should one do so all the same, by a mistake of ours, people must still reach
their workspaces: the process goes on with what it knows, says so, and begins that part again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from codehub.core.backoff import backoff
from codehub.telemetry.instruments import PROXY_RESTARTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import Counter

log: Final = logging.getLogger("codehub.proxy")

FIRST_PAUSE: Final = timedelta(seconds=1)
SOUND_SECONDS: Final = 300.0
"""What ran for so long before it ended is not held against it any more."""


class Part(Protocol):
    """Something that runs until it is cancelled, and may be run again."""

    async def run(self) -> None: ...


class Beside:
    """Keeps parts running; how often one was begun again is among the metrics."""

    def __init__(
        self,
        whose: str = "proxy",
        restarts: Counter = PROXY_RESTARTS,
        *,
        first: timedelta = FIRST_PAUSE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._whose = whose
        self._restarts = restarts
        self._first = first
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, **parts: Part) -> None:
        """Run these, under names that people know them by in the log."""
        self._tasks += [asyncio.create_task(self._keep(*each)) for each in parts.items()]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, name: str, part: Part) -> None:
        failures = 0
        while True:
            begun = self._clock()
            await _run(f"the {self._whose}'s part {name}", part)
            self._restarts.labels(name).inc()
            failures = 1 if self._clock() - begun > SOUND_SECONDS else failures + 1
            pause = backoff(failures, random.random(), first=self._first)
            await asyncio.sleep(pause.total_seconds())


async def _run(what: str, part: Part) -> None:
    """Returns when it ended, however that came, unless it is we who are cancelled."""
    try:
        await part.run()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        log.error("%s was cancelled by itself, and begins again", what)
    except Exception:
        log.exception("%s failed, and begins again", what)
    else:
        log.error("%s ended by itself, and begins again", what)
