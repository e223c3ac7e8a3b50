"""What waits to be published on Redis: bounded, in order, and nobody waits for it.

A message is a call to look again, so an equal one that still waits is replaced by the newer. What
Redis cannot take is dropped and counted: those who listen begin with a snapshot when they are back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from codehub.cancelling import heed
from codehub.errors import Unreachable
from codehub.telemetry.instruments import EVENTS_DROPPED

if TYPE_CHECKING:
    from codehub.coordinator.pace import Failures
    from codehub.ports import Signals

log: Final = logging.getLogger("codehub.coordinator")

ROOM: Final = 10_000
"""Messages that may wait; beyond, the oldest give way."""
PAUSE: Final = 1.0
"""Seconds to leave a Redis alone that gave no answer."""
DROPPED: Final = "events.dropped"
"""The counter of messages that were never published."""


class Outbox:
    """Takes messages at once, publishes them one after the other while `run` runs."""

    def __init__(self, signals: Signals, failures: Failures) -> None:
        self._signals = signals
        self._failures = failures
        self._waiting: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._arrived = asyncio.Event()
        self._down = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, channel: str, message: str) -> None:
        self._waiting[channel, message] = None
        self._waiting.move_to_end((channel, message))
        if len(self._waiting) > ROOM:
            self._waiting.popitem(last=False)
            self._drop(1)
        self._arrived.set()

    async def run(self) -> None:
        """Publish whatever comes, for ever."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                (channel, message), _ = self._waiting.popitem(last=False)
                await self._publish(channel, message)
                heed()

    async def _publish(self, channel: str, message: str) -> None:
        try:
            await self._signals.publish(channel, message)
        except Unreachable as error:
            await self._give_up(error)
        except Exception as error:
            self._failures.note("events", error)
            self._drop(1)
        else:
            self._back()

    async def _give_up(self, error: Unreachable) -> None:
        if not self._down:
            self._failures.note("events", error)
        self._down = True
        self._drop(1 + len(self._waiting))
        self._waiting.clear()
        await asyncio.sleep(PAUSE)

    def _back(self) -> None:
        if self._down:
            log.info("events: Redis answers again")
        self._down = False

    def _drop(self, number: int) -> None:
        self._failures.counts[DROPPED] += number
        EVENTS_DROPPED.inc(number)
