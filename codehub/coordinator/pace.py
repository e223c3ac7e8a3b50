"""Ticks that outlive their failures: a component's exception skips its tick and is counted.

Only the loss of leadership ends a component; that is for the leader to deal with.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from codehub.cancelling import cancellations, heed
from codehub.errors import CodeHubError, FenceLost
from codehub.telemetry.instruments import FAILURES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log: Final = logging.getLogger("codehub.coordinator")


class Component(Protocol):
    """A part of the coordinator that runs for as long as its process leads."""

    name: str

    async def run(self) -> None: ...


class Failures:
    """How often each component's tick failed, for status and metrics."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str) -> None:
        """Once more, and not worth another line. Metrics have the component, never a workspace."""
        self.counts[name] += 1
        FAILURES.labels(name.partition(" (")[0]).inc()

    def note(self, name: str, error: Exception) -> None:
        """Count and log it: one line for what we raise on purpose, a traceback for a fault."""
        self.count(name)
        if isinstance(error, CodeHubError):
            log.warning("%s: %s", name, error.message)
        else:
            log.error("%s failed and goes on", name, exc_info=error)


async def every(
    name: str,
    seconds: float,
    tick: Callable[[], Awaitable[object]],
    failures: Failures,
    *,
    nudge: asyncio.Event | None = None,
) -> None:
    """Call `tick` now and then every so many seconds, sooner when `nudge` is set; for ever."""
    while True:
        if nudge is not None:
            nudge.clear()
        await attempt(name, tick, failures)
        if nudge is None:
            await asyncio.sleep(seconds)
            continue
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await nudge.wait()


async def attempt(name: str, tick: Callable[[], Awaitable[object]], failures: Failures) -> bool:
    """One tick; False when it failed. A lost fence is not a failure but the end."""
    since = cancellations()
    try:
        await tick()
    except FenceLost:
        raise
    except Exception as error:
        heed(since)
        failures.note(name, error)
        return False
    heed(since)
    return True
